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

// Defaults and bounds.
const (
	defaultHost = "unix:///var/run/docker.sock"
	// defaultMaxConnections applies to unix and tcp hosts.
	defaultMaxConnections = 512
	// defaultSSHConnections applies to ssh hosts, because each connection needs a local process
	// and a remote session.
	defaultSSHConnections = 8

	// oldestAPIVersion is the API version of Docker 20.10, the first with one-shot stats.
	oldestAPIVersion = "1.41"
)

// Config describes the connection to one engine. Fleet configurations embed it without a tag.
// Missing values come from the environment variables of the Docker command line, such as
// DOCKER_HOST.
type Config struct {
	// Host is the address of the engine's API: unix, tcp or ssh. If it is empty, DOCKER_HOST
	// applies, or else the default socket.
	Host string `toml:"host"`
	// TLS secures the connection to a tcp host. If it is omitted, DOCKER_TLS_VERIFY and
	// DOCKER_CERT_PATH apply; without them, the connection does not use TLS.
	TLS *httpclient.TLS `toml:"tls"`
	// APIVersion pins the version of the Engine API. If it is empty, DOCKER_API_VERSION
	// applies, or else the newest version that both sides support.
	APIVersion string `toml:"api_version"`
	// Timeout limits one call, including the response.
	Timeout time.Duration `toml:"timeout" default:"10s" above:"0s" must:"more than 0, such as \"10s\""`
	// MaxConnections limits the open connections: 1 to 4096. 0 means 512, or 8 for
	// an ssh host.
	MaxConnections int `toml:"max_connections" min:"0" max:"4096" must:"from 1 to 4096"`
	// ResourceInterval is the interval for sampling CPU and memory: at least 1s.
	ResourceInterval time.Duration `toml:"resource_interval" default:"15s" min:"1s"`
}

// SetDefaults sets missing values from environment variables, or to their defaults.
func (c *Config) SetDefaults() {
	c.Host = cmp.Or(c.Host, os.Getenv(client.EnvOverrideHost), defaultHost)
	if c.TLS == nil {
		c.TLS = environmentTLS()
	}
	c.APIVersion = cmp.Or(c.APIVersion, os.Getenv(client.EnvOverrideAPIVersion))
	settings.SetDefaults(c)
}

// environmentTLS returns the TLS settings from the environment, as the Docker command line
// reads them, or nil if the variables are not set.
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

// Local reports whether the engine runs on hpad's host.
func (c *Config) Local() bool { return strings.HasPrefix(c.Host, "unix://") }

// CallTimeout returns the timeout of one call.
func (c *Config) CallTimeout() time.Duration { return c.Timeout }

// Validate returns all errors of a configuration with defaults applied. Field paths are
// relative to the fleet's table.
func (c *Config) Validate() []settings.FieldError {
	var errs settings.FieldErrors
	if detail := CheckHost(c.Host); detail != "" {
		errs.Add("host", httpclient.QuoteAddress(c.Host), detail)
	}
	errs = append(errs, c.TLS.Validate()...)
	if detail := checkVersion(c.APIVersion); detail != "" {
		errs.Add("api_version", strconv.Quote(c.APIVersion), detail)
	}
	return append(errs, settings.Validate(c)...)
}

var versionForm = regexp.MustCompile(`^[1-9][0-9]*\.[0-9]+$`)

// checkVersion returns the error message for an invalid pinned version, or "" if it is valid.
func checkVersion(version string) string {
	switch {
	case version == "":
		return ""
	case !versionForm.MatchString(version):
		return `must be a version of the Engine API, such as "` + oldestAPIVersion + `"`
	case versions.LessThan(version, oldestAPIVersion), versions.GreaterThan(version, api.DefaultVersion):
		return "must be from " + oldestAPIVersion + " to " + api.DefaultVersion
	}
	return ""
}

// CheckHost returns the error message for an invalid engine address, or "" if it is valid.
func CheckHost(text string) string {
	const form = `must be the address of a Docker engine, such as "unix:///var/run/docker.sock", "tcp://192.0.2.1:2376" or "ssh://me@192.0.2.1"`
	address, detail := settings.ParseURL(text, form)
	if detail != "" {
		return detail
	}
	switch address.Scheme {
	case "unix":
		if address.Host != "" || address.Path == "" {
			return form
		}
	case "tcp":
		switch {
		case address.User != nil:
			return "must not contain credentials: use tls.cert_file and tls.key_file"
		case address.Port() == "":
			return form + settings.PortRange
		case address.Hostname() == "" || address.RawQuery != "" || address.Fragment != "":
			return form
		}
		return settings.CheckAuthority(address.Host, address.Hostname(), address.Port(), form)
	case "ssh":
		if _, err := connhelper.GetConnectionHelper(text); err != nil {
			return form + ": " + err.Error()
		}
		return settings.CheckAuthority(address.Host, address.Hostname(), address.Port(), form)
	case "http", "https":
		return "must begin with tcp://; add a tls table to use TLS"
	default:
		return form
	}
	return ""
}

func (c *Config) connections() int {
	if c.MaxConnections > 0 {
		return c.MaxConnections
	}
	if strings.HasPrefix(c.Host, "ssh://") {
		return defaultSSHConnections
	}
	return defaultMaxConnections
}

// Engine returns a key that is equal for two fleets on the same engine.
func (c *Config) Engine() string {
	address, err := url.Parse(c.Host)
	if err != nil {
		return c.Host
	}
	switch address.Scheme {
	case "unix":
		return "unix://" + targets.SocketPath(address.Path)
	case "ssh": // each user may have a different engine
		return "ssh://" + address.User.Username() + "@" + targets.HostPort(address) + address.Path
	}
	return "tcp://" + targets.HostPort(address)
}
