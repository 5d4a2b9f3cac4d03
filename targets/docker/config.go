package docker

import (
	"cmp"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/docker/cli/cli/connhelper"
	"github.com/docker/docker/api"
	"github.com/docker/docker/api/types/versions"
	"github.com/docker/docker/client"

	"github.com/hpad/hpad/settings"
	"github.com/hpad/hpad/settings/httpclient"
	"github.com/hpad/hpad/targets"
)

// Defaults and bounds of a Config.
const (
	DefaultHost = "unix:///var/run/docker.sock"
	// DefaultMaxConnections is for hosts that are reached by unix and tcp.
	DefaultMaxConnections = 512
	// DefaultSSHConnections is for hosts that are reached by ssh, where each connection
	// is a process here and a session there.
	DefaultSSHConnections = 8

	// OldestAPIVersion is the oldest version of the Engine API that hpad talks: that of
	// Docker 20.10, the first with one-shot stats.
	OldestAPIVersion = "1.41"
)

// Config is how one engine is reached. A kind embeds it without a tag. What is
// left out comes from the environment of the Docker command line (DOCKER_HOST and
// so on).
type Config struct {
	// Host is where the engine's API is: unix, tcp or ssh; empty means
	// DOCKER_HOST, or the socket at the usual place.
	Host string `toml:"host"`
	// TLS applies to a tcp host, which is spoken to without TLS where it is nil.
	// Left out it comes from DOCKER_TLS_VERIFY and DOCKER_CERT_PATH.
	TLS *httpclient.TLS `toml:"tls"`
	// APIVersion fixes the version of the Engine API; empty means
	// DOCKER_API_VERSION, or the highest that both sides know.
	APIVersion string `toml:"api_version"`
	// Timeout bounds one call, from sending it to the end of the answer.
	Timeout time.Duration `toml:"timeout" default:"10s" above:"0s" must:"more than 0, as \"10s\""`
	// MaxConnections bounds the connections open at once: 1 to 4096. 0 means
	// DefaultMaxConnections, or DefaultSSHConnections for an ssh host.
	MaxConnections int `toml:"max_connections" min:"0" max:"4096" must:"from 1 to 4096"`
	// ResourceInterval is how often cpu and memory are sampled: at least 1s.
	ResourceInterval time.Duration `toml:"resource_interval" default:"15s" min:"1s"`
}

// SetDefaults fills in what was not given, from the environment where it has it.
func (c *Config) SetDefaults() {
	c.Host = cmp.Or(c.Host, os.Getenv(client.EnvOverrideHost), DefaultHost)
	if c.TLS == nil {
		c.TLS = environmentTLS()
	}
	c.APIVersion = cmp.Or(c.APIVersion, os.Getenv(client.EnvOverrideAPIVersion))
	settings.SetDefaults(c)
}

// environmentTLS returns the environment's settings of TLS, as the Docker command line
// reads them; nil when it has none.
func environmentTLS() *httpclient.TLS {
	verify, dir := os.Getenv(client.EnvTLSVerify), os.Getenv(client.EnvOverrideCertPath)
	if verify == "" && dir == "" {
		return nil
	}
	if dir == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			home = "/"
		}
		dir = filepath.Join(home, ".docker")
	}
	return &httpclient.TLS{
		CAFile: filepath.Join(dir, "ca.pem"), CertFile: filepath.Join(dir, "cert.pem"), KeyFile: filepath.Join(dir, "key.pem"),
		InsecureSkipVerify: verify == "",
	}
}

// Local reports whether the engine is the machine's own.
func (c *Config) Local() bool { return strings.HasPrefix(c.Host, "unix://") }

// CallTimeout returns how long a call may take.
func (c *Config) CallTimeout() time.Duration { return c.Timeout }

// Validate returns every mistake of a defaulted configuration, with paths below the
// fleet's table.
func (c *Config) Validate() []settings.FieldError {
	var mistakes settings.Mistakes
	if detail := CheckHost(c.Host); detail != "" {
		mistakes.Add("host", httpclient.QuoteAddress(c.Host), detail)
	}
	mistakes = append(mistakes, c.TLS.Validate()...)
	if detail := checkVersion(c.APIVersion); detail != "" {
		mistakes.Add("api_version", strconv.Quote(c.APIVersion), detail)
	}
	return append(mistakes, settings.Validate(c)...)
}

// versionForm is the form of a version of the Engine API.
var versionForm = regexp.MustCompile(`^[1-9][0-9]*\.[0-9]+$`)

// checkVersion returns what is wrong with a fixed version; "" when nothing is.
func checkVersion(version string) string {
	switch {
	case version == "":
		return ""
	case !versionForm.MatchString(version):
		return `must be a version of the Engine API, as "` + OldestAPIVersion + `"`
	case versions.LessThan(version, OldestAPIVersion), versions.GreaterThan(version, api.DefaultVersion):
		return "must be from " + OldestAPIVersion + " to " + api.DefaultVersion
	}
	return ""
}

// CheckHost returns what is wrong with the address of an engine; "" when nothing is.
func CheckHost(text string) string {
	const form = `must be the address of a Docker engine, as "unix:///var/run/docker.sock", "tcp://192.0.2.1:2376" or "ssh://me@192.0.2.1"`
	address, err := url.Parse(text)
	if err != nil {
		return form
	}
	switch address.Scheme {
	case "unix":
		if address.Host != "" || address.Path == "" {
			return form
		}
	case "tcp":
		switch {
		case address.User != nil:
			return "must not hold credentials: use tls.cert_file and tls.key_file"
		case address.Hostname() == "" || address.Port() == "" || address.RawQuery != "" || address.Fragment != "":
			return form
		}
	case "ssh":
		if _, err := connhelper.GetConnectionHelper(text); err != nil {
			return form + ": " + err.Error()
		}
	case "http", "https":
		return "must begin with tcp://; a tls table makes it speak TLS"
	default:
		return form
	}
	return ""
}

// connections returns how many connections may be open at once.
func (c *Config) connections() int {
	if c.MaxConnections > 0 {
		return c.MaxConnections
	}
	if strings.HasPrefix(c.Host, "ssh://") {
		return DefaultSSHConnections
	}
	return DefaultMaxConnections
}

// Engine returns what two fleets have in common that are sure to be of one engine.
func (c *Config) Engine() string {
	address, err := url.Parse(c.Host)
	if err != nil {
		return c.Host
	}
	switch address.Scheme {
	case "unix":
		return "unix://" + targets.SocketPath(address.Path)
	case "ssh": // where another user may have an engine of their own
		return "ssh://" + address.User.Username() + "@" + targets.HostPort(address) + address.Path
	}
	return "tcp://" + targets.HostPort(address)
}
