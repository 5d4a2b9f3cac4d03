package config

import (
	"fmt"
	"net"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"time"

	"github.com/hpad/hpad/daemon/web"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/settings"
	"github.com/hpad/hpad/settings/quantity"
)

// maxSocketPathLen is the size of sun_path (unix(7)) without the terminating NUL byte.
const maxSocketPathLen = 107

// CompatStrict is the value of compat that turns off every deviation from the HPA.
const CompatStrict = "strict"

// Daemon is the [daemon] table. Defaults of the algorithm are from R7 and R8. Keys with the tag
// decides can change decisions.
type Daemon struct {
	// Listen is the HOST:PORT of the HTTP server, such as "127.0.0.1:4720"; empty means no server.
	Listen string `toml:"listen" default:"127.0.0.1:4720" next_start:"true"`
	// WebConfig is the absolute path of a file that configures TLS and authentication of the server
	// at Listen, in the format of Prometheus' exporter-toolkit; empty means that the server is
	// read-only.
	WebConfig string `toml:"web_config" next_start:"true"`
	// Writers are the users of WebConfig and the names of client certificates that may write
	// through the server at Listen; empty means all users and certificates that WebConfig accepts.
	Writers []string `toml:"writers"`
	// AllowedHosts are the accepted host names of the server at Listen in addition to localhost and
	// addresses; empty means no other name if Listen is a loopback address, and otherwise any name.
	AllowedHosts []string `toml:"allowed_hosts" next_start:"true"`
	// Socket is the absolute path of the unix socket for the command line, at most 107 bytes; empty
	// means no socket.
	Socket string `toml:"socket" default:"/run/hpad/hpad.sock" next_start:"true"`
	// SocketGroup is the group of the socket, by name or number; empty means the group of the
	// process. Any other group requires hpad to run as root.
	SocketGroup string `toml:"socket_group" next_start:"true"`
	// StateDir is the directory of the persistent state; not empty.
	StateDir string `toml:"state_dir" default:"/var/lib/hpad" next_start:"true"`
	// SyncPeriod is the evaluation period of autoscalers: whole seconds, 1s to 1h.
	SyncPeriod time.Duration `toml:"sync_period" default:"15s" min:"1s" max:"1h" whole:"1s" must:"whole seconds from \"1s\" to \"1h\"" decides:"true"`
	// Tolerance is the largest difference between the usage ratio and 1 that does not change the
	// count, at least 0.
	Tolerance Tolerance `toml:"tolerance" default:"0.1" min:"0" decides:"true"`
	// DownscaleStabilization is the scale-down window of autoscalers without their own: whole
	// seconds, at least 0.
	DownscaleStabilization time.Duration `toml:"downscale_stabilization" default:"5m" min:"0s" whole:"1s" decides:"true"`
	// CPUInitializationPeriod is the time after an instance's start in which its cpu samples are
	// used only if they are newer than its last readiness change; at least 0.
	CPUInitializationPeriod time.Duration `toml:"cpu_initialization_period" default:"5m" min:"0s" decides:"true"`
	// InitialReadinessDelay is the time after an instance's start in which an instance that becomes
	// unready is treated as never ready; at least 0.
	InitialReadinessDelay time.Duration `toml:"initial_readiness_delay" default:"30s" min:"0s" decides:"true"`
	// ScaleToZero allows min_replicas = 0.
	ScaleToZero bool `toml:"scale_to_zero" default:"true" decides:"true"`
	// ConcurrentSyncs is the number of concurrent evaluations; at least 1.
	ConcurrentSyncs int `toml:"concurrent_syncs" default:"5" min:"1" next_start:"true"` // R24
	// QueryResponseMemory limits the memory of all query results in progress, for all sources
	// together; at least 16Mi. One result can use at most a quarter of it.
	QueryResponseMemory quantity.Bytes `toml:"query_response_memory" default:"256Mi" min:"16Mi" must:"at least \"16Mi\"" next_start:"true"`
	// QuerySamples limits the samples that all queries of embedded sources hold during evaluation;
	// at least 100000. A query with max_samples uses at most half of it.
	QuerySamples int64 `toml:"query_samples" default:"10000000" min:"100000" next_start:"true"`
	// AutoscalerSeries adds about 40 series of each autoscaler to /metrics; without it, /metrics
	// includes them only if a scrape requests them with name[].
	AutoscalerSeries bool `toml:"autoscaler_series" default:"true"`
	// Page serves the page at Listen, and stores the data of its graphs and of simulations: the
	// count, the bounds, and the values and proposals of metrics in each pass, for 7 days in
	// StateDir, about 400 kB per autoscaler.
	Page bool `toml:"page" default:"true" next_start:"true"`
	// Kubernetes selects the HPA that makes the same decisions, by its version: "1.37" or "1.38".
	Kubernetes string `toml:"kubernetes" default:"1.37" values:"1.37 1.38" decides:"true"`
	// Compat selects compatibility with the HPA: "strict" turns off every deviation that affects
	// decisions; empty leaves them on.
	Compat string `toml:"compat" values:"strict" must:"\"strict\", or empty" decides:"true"`
}

// DefaultDaemon returns a Daemon with all defaults.
func DefaultDaemon() Daemon {
	var d Daemon
	settings.SetDefaults(&d)
	return d
}

// Strict reports whether compat turns off every deviation from the HPA that affects decisions.
func (d *Daemon) Strict() bool { return d.Compat == CompatStrict }

// Settings returns the settings for package policy (R7, R8).
func (d *Daemon) Settings() policy.Settings {
	settings := policy.Settings{
		Tolerance:               float64(d.Tolerance),
		DownscaleStabilization:  d.DownscaleStabilization,
		CPUInitializationPeriod: d.CPUInitializationPeriod,
		InitialReadinessDelay:   d.InitialReadinessDelay,
		ScaleToZero:             d.ScaleToZero,
	}
	if d.Kubernetes == string(policy.Kubernetes138) {
		settings.Kubernetes = policy.Kubernetes138
	}
	return settings
}

func (l *loader) readDaemon() Daemon {
	d := DefaultDaemon()
	if t := l.daemon; t != nil {
		t.decode("", reflect.ValueOf(&d).Elem(), t.raw)
		t.checkTags("", &d)
		d.validate(t)
	}
	return d
}

// validate records the errors that the field tags do not cover.
func (d *Daemon) validate(t *table) {
	if detail := checkAddress(d.Listen); d.Listen != "" && detail != "" {
		t.addWritten("listen", detail)
	}
	if d.Socket != "" && !filepath.IsAbs(d.Socket) {
		t.addWritten("socket", `must be an absolute path, such as "/run/hpad/hpad.sock", or empty for no socket`)
	}
	if len(d.Socket) > maxSocketPathLen {
		t.addWritten("socket", "must have at most "+strconv.Itoa(maxSocketPathLen)+" bytes: the system does not support longer socket paths")
	}
	if d.StateDir == "" {
		t.addWritten("state_dir", "must not be empty; omit the key to use "+strconv.Quote(DefaultDaemon().StateDir))
	}
	switch {
	case d.WebConfig == "":
	case !filepath.IsAbs(d.WebConfig):
		t.addWritten("web_config", `must be an absolute path, such as "/etc/hpad/web.yml", or empty for none`)
	default:
		if err := web.Check(d.WebConfig); err != nil {
			t.addWritten("web_config", err.Error())
		}
	}
	d.validateWriters(t)
	for i, host := range d.AllowedHosts {
		if !settings.ValidHost(host) {
			t.addWritten(element("allowed_hosts", i), `must be a host name without a port, such as "hpad.example.com"`)
		}
	}
}

// validateWriters records errors and warnings about writers.
func (d *Daemon) validateWriters(t *table) {
	users, certificates := web.Users(d.WebConfig)
	for i, name := range d.Writers {
		switch {
		case name == "":
			t.addWritten(element("writers", i), `must be a user of the web config or the name of a client certificate, such as "alice"`)
		case slices.Contains(d.Writers[:i], name):
			t.addWritten(element("writers", i), "is listed twice")
		case d.WebConfig != "" && !certificates && !slices.Contains(users, name):
			t.warn(element("writers", i), "is not a user in the web config, which does not accept client certificates: this name can never write")
		}
	}
	switch {
	case len(d.Writers) == 0 && len(users) > 0:
		t.warn("web_config", fmt.Sprintf("all of its users can write, even a user for scrapes: list the writers in daemon.writers = [%q, …]", users[0]))
	case len(d.Writers) > 0 && d.WebConfig == "":
		t.warn("writers", "has no effect without web_config: in this case TCP is read-only")
	}
}

// checkAddress returns the reason why a listen address is invalid, or "" if it is valid.
func checkAddress(address string) string {
	const form = `must be HOST:PORT, such as "127.0.0.1:4720" or ":4720", or empty for no HTTP server`
	host, port, err := net.SplitHostPort(address)
	if err != nil || host != "" && !settings.ValidHost(host) {
		return form
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return form + "; the port is a number from 0 to 65535"
	}
	return ""
}
