package config

import (
	"net"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/hpad/hpad/daemon/web"
	"github.com/hpad/hpad/policy"
)

// The defaults of [daemon]; those of the algorithm are R7's.
const (
	DefaultListen                  = "127.0.0.1:4720"
	DefaultSocket                  = "/run/hpad/hpad.sock"
	DefaultStateDir                = "/var/lib/hpad"
	DefaultSyncPeriod              = 15 * time.Second
	DefaultTolerance               = 0.1
	DefaultDownscaleStabilization  = 5 * time.Minute
	DefaultCPUInitializationPeriod = 5 * time.Minute
	DefaultInitialReadinessDelay   = 30 * time.Second
	DefaultConcurrentSyncs         = 5
	DefaultAnswerMemory            = 256 << 20
	DefaultQuerySamples            = 10_000_000
)

// The least budgets: one answer may take a quarter of its, and what each query gets
// at once is a small part.
const (
	minAnswerMemory = 16 << 20
	minQuerySamples = 100_000
)

// The bounds of a sync period, and the longest path of a unix socket on Linux.
const (
	minSyncPeriod    = time.Second
	maxSyncPeriod    = time.Hour
	maxSocketPathLen = 107
)

// compatStrict is the value of compat that turns every deviation off.
const compatStrict = "strict"

// daemonTable is [daemon] as it is written.
type daemonTable struct {
	// Listen is HOST:PORT of the HTTP server, as "127.0.0.1:4720"; empty means none.
	Listen string `toml:"listen"`
	// WebConfig is an absolute path of a file that says how that server uses TLS and
	// who may do what, in the format of Prometheus' exporter-toolkit; empty means
	// none, and the server only answers questions.
	WebConfig string `toml:"web_config"`
	// AllowedHosts are names under which that server may be asked besides localhost
	// and addresses; empty means no other where Listen is an address of the machine
	// itself, and any elsewhere.
	AllowedHosts []string `toml:"allowed_hosts"`
	// Socket is an absolute path of the unix socket for the command line, at most 107
	// bytes; empty means none.
	Socket string `toml:"socket"`
	// SocketGroup is the group, by name or number, that gets the socket; empty means
	// the group that hpad runs with, and any other one is for hpad run as root.
	SocketGroup string `toml:"socket_group"`
	// StateDir is the directory of what survives a restart; not empty.
	StateDir string `toml:"state_dir"`
	// SyncPeriod is how often an autoscaler is evaluated: whole seconds, 1s to 1h.
	SyncPeriod time.Duration `toml:"sync_period"`
	// Tolerance is how far the usage ratio may be from 1 before anything changes, at
	// least 0.
	Tolerance *amount `toml:"tolerance"`
	// DownscaleStabilization is the scale-down window where an autoscaler names none:
	// whole seconds, at least 0.
	DownscaleStabilization time.Duration `toml:"downscale_stabilization"`
	// CPUInitializationPeriod is how long after its start an instance's cpu counts
	// only from samples newer than its readiness; at least 0.
	CPUInitializationPeriod time.Duration `toml:"cpu_initialization_period"`
	// InitialReadinessDelay is how long after its start an instance that became
	// unready counts as never ready; at least 0.
	InitialReadinessDelay time.Duration `toml:"initial_readiness_delay"`
	// ScaleToZero lets min_replicas be 0.
	ScaleToZero bool `toml:"scale_to_zero"`
	// ConcurrentSyncs is how many evaluations are under way at once; at least 1.
	ConcurrentSyncs int `toml:"concurrent_syncs"`
	// AnswerMemory is how much memory the answers of all queries under way may take
	// together, those of every source; at least 16Mi. One answer may take a quarter of
	// it.
	AnswerMemory *amount `toml:"answer_memory"`
	// QuerySamples is how many samples all queries of embedded sources may hold
	// together while they are evaluated; at least 100000. One of max_samples takes at
	// most half of it.
	QuerySamples int `toml:"query_samples"`
	// Compat turns off every deviation from the HPA that concerns decisions when it is
	// "strict"; empty leaves them on.
	Compat string `toml:"compat"`
}

// defaultDaemon answers the table with everything at its default (R7, R8).
func defaultDaemon() daemonTable {
	return daemonTable{
		Listen:                  DefaultListen,
		Socket:                  DefaultSocket,
		StateDir:                DefaultStateDir,
		SyncPeriod:              DefaultSyncPeriod,
		DownscaleStabilization:  DefaultDownscaleStabilization,
		CPUInitializationPeriod: DefaultCPUInitializationPeriod,
		InitialReadinessDelay:   DefaultInitialReadinessDelay,
		ScaleToZero:             true,
		ConcurrentSyncs:         DefaultConcurrentSyncs,
		QuerySamples:            DefaultQuerySamples,
	}
}

// readDaemon decodes and validates [daemon].
func (l *loader) readDaemon() Daemon {
	given := defaultDaemon()
	if t := l.daemon; t != nil {
		t.decode("", reflect.ValueOf(&given).Elem(), t.raw)
		given.validate(t)
	}
	return given.build()
}

// validate records the mistakes of a decoded table.
func (d daemonTable) validate(t *table) {
	if d.Listen != "" {
		if detail := checkAddress(d.Listen); detail != "" {
			t.addWritten("listen", detail)
		}
	}
	d.validateWeb(t)
	if d.Socket != "" && !filepath.IsAbs(d.Socket) {
		t.addWritten("socket", `must be an absolute path, as "/run/hpad/hpad.sock", or empty for no socket`)
	}
	if len(d.Socket) > maxSocketPathLen {
		t.addWritten("socket", "must have at most "+strconv.Itoa(maxSocketPathLen)+" bytes: the system allows no longer path of a socket")
	}
	if d.StateDir == "" {
		t.addWritten("state_dir", "must not be empty; leave the key out for "+strconv.Quote(DefaultStateDir))
	}
	checkSyncPeriod(t, d.SyncPeriod)
	if d.Tolerance != nil && d.Tolerance.plain() < 0 {
		t.addWritten("tolerance", "must be at least 0")
	}
	switch {
	case d.DownscaleStabilization < 0:
		t.addWritten("downscale_stabilization", "must be at least 0s")
	case d.DownscaleStabilization%time.Second != 0:
		t.addWritten("downscale_stabilization", wholeSeconds)
	}
	if d.CPUInitializationPeriod < 0 {
		t.addWritten("cpu_initialization_period", "must be at least 0s")
	}
	if d.InitialReadinessDelay < 0 {
		t.addWritten("initial_readiness_delay", "must be at least 0s")
	}
	if d.ConcurrentSyncs < 1 { // R24
		t.addWritten("concurrent_syncs", "must be at least 1")
	}
	if d.AnswerMemory != nil && d.AnswerMemory.bytes() < minAnswerMemory {
		t.addWritten("answer_memory", `must be at least "16Mi"`)
	}
	if d.QuerySamples < minQuerySamples {
		t.addWritten("query_samples", "must be at least "+strconv.Itoa(minQuerySamples))
	}
	if d.Compat != "" && d.Compat != compatStrict {
		t.addWritten("compat", `must be "strict", or empty`)
	}
}

// validateWeb records the mistakes of what says who may use the HTTP server.
func (d daemonTable) validateWeb(t *table) {
	switch {
	case d.WebConfig == "":
	case !filepath.IsAbs(d.WebConfig):
		t.addWritten("web_config", `must be an absolute path, as "/etc/hpad/web.yml", or empty for none`)
	default:
		if err := web.Check(d.WebConfig); err != nil {
			t.addWritten("web_config", err.Error())
		}
	}
	for i, host := range d.AllowedHosts {
		if !isHostName(host) {
			t.addWritten(element("allowed_hosts", i), `must be the name of a host without a port, as "hpad.example.com"`)
		}
	}
}

// isHostName says whether a text can be the name of a host.
func isHostName(text string) bool {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_."
	return text != "" && len(text) <= 253 && strings.Trim(text, letters) == ""
}

// build answers the daemon's configuration.
func (d daemonTable) build() Daemon {
	tolerance := DefaultTolerance
	if d.Tolerance != nil {
		tolerance = d.Tolerance.plain()
	}
	memory := int64(DefaultAnswerMemory)
	if d.AnswerMemory != nil {
		memory = d.AnswerMemory.bytes()
	}
	return Daemon{
		AnswerMemory:    memory,
		QuerySamples:    int64(d.QuerySamples),
		Listen:          d.Listen,
		WebConfig:       d.WebConfig,
		AllowedHosts:    d.AllowedHosts,
		Socket:          d.Socket,
		SocketGroup:     d.SocketGroup,
		StateDir:        d.StateDir,
		SyncPeriod:      d.SyncPeriod,
		ConcurrentSyncs: d.ConcurrentSyncs,
		Strict:          d.Compat == compatStrict,
		Settings: policy.Settings{
			Tolerance:               tolerance,
			DownscaleStabilization:  d.DownscaleStabilization,
			CPUInitializationPeriod: d.CPUInitializationPeriod,
			InitialReadinessDelay:   d.InitialReadinessDelay,
			ScaleToZero:             d.ScaleToZero,
		},
	}
}

// wholeSeconds is what a span of time has to be where the algorithm counts
// seconds.
const wholeSeconds = `must be whole seconds, as "90s" or "5m"`

// checkSyncPeriod records a sync period that is out of bounds.
func checkSyncPeriod(t *table, period time.Duration) {
	if period < minSyncPeriod || period > maxSyncPeriod || period%time.Second != 0 {
		t.addWritten("sync_period", `must be whole seconds from "1s" to "1h"`)
	}
}

// checkAddress says what is wrong with an address to listen on.
func checkAddress(address string) string {
	const form = `must be HOST:PORT, as "127.0.0.1:4720" or ":4720", or empty for no HTTP server`
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return form
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return form + "; the port is a number from 0 to 65535"
	}
	return ""
}
