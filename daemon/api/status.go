package api

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/daemon/redact"
)

// ConfigText is the active configuration.
type ConfigText struct {
	// TOML is the configuration without secrets.
	TOML string `json:"toml"`
	// File is the absolute path of the main configuration file on the daemon's host, or empty if
	// there is none.
	File string `json:"file,omitempty"`
}

// ConfigQuery contains the parameter of the configuration.
type ConfigQuery struct {
	// TOML includes the configuration. Without it, the response contains only the path.
	TOML bool `toml:"toml" default:"true"`
}

// config writes the active configuration, from which the daemon has removed the secrets.
func (h handlers) config(w http.ResponseWriter, _ *http.Request, in ConfigQuery) {
	text := ConfigText{File: redact.Text(h.daemon.ConfigFile())}
	if in.TOML {
		text.TOML = h.daemon.Config()
	}
	encoded, _ := json.Marshal(text) // cannot fail: all fields are strings
	writeEncoded(w, http.StatusOK, envelope{Status: statusSuccess, Data: encoded}, func(text []byte) []byte { return text })
}

// version is set by the linker option -X github.com/hpad/hpad/daemon/api.version=1.2.3.
var version string

// BuildInfo identifies the build.
type BuildInfo struct {
	// Version is the number of the release, or "(devel)".
	Version string `json:"version"`
	// Revision is the commit. RevisionTime is the time of the commit in RFC 3339 format. Both are
	// empty if unknown.
	Revision     string `json:"revision,omitempty"`
	RevisionTime string `json:"revision_time,omitempty"`
	// Modified reports whether the source code differed from the commit.
	Modified bool `json:"modified,omitempty"`
	// GoVersion is the version of the toolchain, such as "go1.26.0". Platform is the platform,
	// such as "linux/amd64".
	GoVersion string `json:"go_version"`
	Platform  string `json:"platform"`
}

// Build returns the BuildInfo of the running binary. The version is the linker option's value if it
// is set, and otherwise the module's version.
func Build() BuildInfo {
	info, _ := debug.ReadBuildInfo()
	return buildInfo(version, info)
}

func buildInfo(linked string, info *debug.BuildInfo) BuildInfo {
	build := BuildInfo{
		Version:   linked,
		GoVersion: runtime.Version(),
		Platform:  runtime.GOOS + "/" + runtime.GOARCH,
	}
	if info != nil {
		if build.Version == "" {
			build.Version = info.Main.Version
		}
		for _, setting := range info.Settings {
			switch setting.Key {
			case "vcs.revision":
				build.Revision = setting.Value
			case "vcs.time":
				build.RevisionTime = setting.Value
			case "vcs.modified":
				build.Modified = setting.Value == "true"
			}
		}
	}
	if build.Version == "" {
		build.Version = "(devel)"
	}
	return build
}

// exportTimeout is the time limit for an export. It is enough for a full history of several
// hundred megabytes.
const exportTimeout = 5 * time.Minute

// StateQuery contains the parameter of an export.
type StateQuery struct {
	// History includes the history of decisions.
	History bool `toml:"history" default:"true"`
}

// exportState writes the state for an import. An error after the first bytes aborts the response
// before its last line, and an import rejects an export without that line.
func (h handlers) exportState(w http.ResponseWriter, r *http.Request, in StateQuery) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(exportTimeout)) // fails only for writers without deadlines
	w.Header().Set("Content-Type", "application/jsonl")
	written := &countingWriter{Writer: w}
	if err := h.daemon.ExportState(r.Context(), written, in.History); err != nil {
		if written.size > 0 {
			panic(http.ErrAbortHandler)
		}
		writeError(w, ErrorInternal, err.Error())
	}
}

// ExportState writes the daemon's state, optionally with the history of decisions, for "hpad
// state import".
func (c *Client) ExportState(ctx context.Context, to io.Writer, history bool) error {
	return c.send(ctx, http.MethodGet, Path("state")+encodeQuery(StateQuery{history}), nil, exportTimeout, func(r *http.Response) error {
		if r.StatusCode != http.StatusOK {
			_, _, err := decodeResponse[json.RawMessage](c, r)
			return err
		}
		_, err := io.Copy(to, r.Body)
		return err
	})
}

type countingWriter struct {
	io.Writer
	size int
}

func (c *countingWriter) Write(part []byte) (int, error) {
	n, err := c.Writer.Write(part)
	c.size += n
	return n, err
}

// HealthQuery contains the parameter of the health.
type HealthQuery struct {
	// Strict also returns 503 while an autoscaler is not evaluated, every pass fails, the last reload was
	// rejected, the state cannot be written, or the cluster has a problem.
	Strict bool `toml:"strict"`
}

func (h handlers) healthy(w http.ResponseWriter, _ *http.Request, in HealthQuery) {
	health := h.daemon.Health()
	writeJSON(w, statusOf(health.Healthy && (!in.Strict || health.Strictly())), health)
}

func (h handlers) ready(w http.ResponseWriter, _ *http.Request, _ none) {
	readiness := h.daemon.Readiness()
	writeJSON(w, statusOf(readiness.Ready), readiness)
}

func statusOf(ok bool) int {
	if ok {
		return http.StatusOK
	}
	return http.StatusServiceUnavailable
}

// ReloadChanges contains the changes that a reload makes, or would make, sorted by key.
type ReloadChanges struct {
	Changes []config.Change `json:"changes"`
}

// reload completes the reload even if the client disconnects.
func (h handlers) reload(r *http.Request, _ none) (ReloadChanges, error) {
	return changesOf(h.daemon.Reload(context.WithoutCancel(r.Context())))
}

func (h handlers) reloadChanges(r *http.Request, _ none) (ReloadChanges, error) {
	return changesOf(h.daemon.ReloadChanges(r.Context()))
}

func changesOf(changes []config.Change, err error) (ReloadChanges, error) {
	if err != nil {
		return ReloadChanges{}, &failure{ErrorReload, err}
	}
	return ReloadChanges{append([]config.Change{}, changes...)}, nil
}
