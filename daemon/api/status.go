package api

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/daemon/redact"
)

// ConfigText is the configuration in force.
type ConfigText struct {
	// TOML is the configuration as text, without secrets.
	TOML string `json:"toml"`
	// File is the absolute path of the main file on the daemon's machine; empty when it
	// was read from none.
	File string `json:"file,omitempty"`
}

// config writes the configuration in force, which the daemon has taken the secrets
// out of, or with toml=false only where it is.
func (h handlers) config(w http.ResponseWriter, r *http.Request) {
	withTOML, err := boolParameter(r, "toml", true)
	if err != nil {
		writeError(w, http.StatusBadRequest, ErrorBadData, err.Error())
		return
	}
	text := ConfigText{File: redact.Text(h.daemon.ConfigFile())}
	if withTOML {
		text.TOML = h.daemon.Config()
	}
	encoded, _ := json.Marshal(text) // cannot fail: all fields are strings
	writeEncoded(w, http.StatusOK, envelope{Status: statusSuccess, Data: encoded}, func(text []byte) []byte { return text })
}

// ConfigFile returns the absolute path of the daemon's main file, on its machine; empty
// when the daemon does not tell.
func (c *Client) ConfigFile(ctx context.Context) (string, error) {
	text, err := call[ConfigText](ctx, c, http.MethodGet, "/api/v1/status/config?toml=false", nil)
	return text.File, err
}

func (h handlers) buildInfo(w http.ResponseWriter, _ *http.Request) {
	writeData(w, Build())
}

// version is set by the linker: -X github.com/hpad/hpad/daemon/api.version=1.2.3.
var version string

// BuildInfo is which hpad this is.
type BuildInfo struct {
	// Version is the release, "(devel)" for a build from a checkout without one.
	Version string `json:"version"`
	// Revision is the commit; empty when the build does not know it.
	Revision string `json:"revision,omitempty"`
	// RevisionTime is when the commit was made, in RFC 3339.
	RevisionTime string `json:"revision_time,omitempty"`
	// Modified reports whether the checkout differed from the commit.
	Modified bool `json:"modified,omitempty"`
	// GoVersion is the toolchain's, as "go1.26.0"; Platform is "linux/amd64".
	GoVersion string `json:"go_version"`
	Platform  string `json:"platform"`
}

// Build returns which hpad the running binary is: the version that the linker
// was given, else the module's own.
func Build() BuildInfo {
	info, _ := debug.ReadBuildInfo()
	return buildInfo(version, info)
}

// buildInfo reads a build's record, which is nil for a binary without one.
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

// exportTimeout is how long an export may take: with a full history it is some hundred
// megabytes.
const exportTimeout = 5 * time.Minute

// exportState writes the state for an import. An error in the middle ends the answer
// without its last line, and without that no import takes it.
func (h handlers) exportState(w http.ResponseWriter, r *http.Request) {
	history, err := boolParameter(r, "history", true)
	if err != nil {
		writeError(w, http.StatusBadRequest, ErrorBadData, err.Error())
		return
	}
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(exportTimeout)) // a writer without needs none moved
	w.Header().Set("Content-Type", "application/jsonl")
	written := &countingWriter{Writer: w}
	if err := h.daemon.ExportState(r.Context(), written, history); err != nil {
		if written.size > 0 {
			panic(http.ErrAbortHandler)
		}
		writeError(w, http.StatusInternalServerError, ErrorInternal, err.Error())
	}
}

// ExportState writes the state of the daemon, and with history that of decisions, as
// "hpad state import" reads it.
func (c *Client) ExportState(ctx context.Context, to io.Writer, history bool) error {
	return c.fetch(ctx, "/api/v1/state?history="+strconv.FormatBool(history), exportTimeout, to)
}

// countingWriter counts the bytes that were written.
type countingWriter struct {
	io.Writer
	size int
}

func (c *countingWriter) Write(part []byte) (int, error) {
	n, err := c.Writer.Write(part)
	c.size += n
	return n, err
}

// healthy writes 200 while the scheduler ticks and 503 when it does not. With
// "strict" it also writes 503 while any autoscaler is not being evaluated, or the last
// reload was refused.
func (h handlers) healthy(w http.ResponseWriter, r *http.Request) {
	strict, err := boolParameter(r, "strict", false)
	if err != nil {
		writeError(w, http.StatusBadRequest, ErrorBadData, err.Error())
		return
	}
	health := h.daemon.Health()
	writeJSON(w, statusOf(health.Healthy && (!strict || health.Strictly())), health)
}

// ready writes 200 once the configuration is live, and 503 before and while the state cannot
// be written.
func (h handlers) ready(w http.ResponseWriter, _ *http.Request) {
	readiness := h.daemon.Readiness()
	writeJSON(w, statusOf(readiness.Ready), readiness)
}

// reload reads the configuration again. It goes on to its end when the client
// does not wait for the response.
func (h handlers) reload(w http.ResponseWriter, r *http.Request) {
	// Building fleets and sources may take longer than other responses; a writer
	// without deadlines needs none lifted.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Time{})
	changes, err := h.daemon.Reload(context.WithoutCancel(r.Context()))
	writeChanges(w, changes, err)
}

// ReloadChanges is what a reload changed, or would change, in the order of keys.
type ReloadChanges struct {
	Changes []config.Change `json:"changes"`
}

func (h handlers) reloadChanges(w http.ResponseWriter, r *http.Request) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Time{}) // as of a reload
	changes, err := h.daemon.ReloadChanges(r.Context())
	writeChanges(w, changes, err)
}

func writeChanges(w http.ResponseWriter, changes []config.Change, err error) {
	if err != nil {
		writeError(w, http.StatusInternalServerError, ErrorReload, err.Error())
		return
	}
	writeData(w, ReloadChanges{append([]config.Change{}, changes...)})
}

func statusOf(ok bool) int {
	if ok {
		return http.StatusOK
	}
	return http.StatusServiceUnavailable
}

// boolParameter reads a parameter of the query; without a value it is true.
func boolParameter(r *http.Request, name string, byDefault bool) (bool, error) {
	query := r.URL.Query()
	if !query.Has(name) {
		return byDefault, nil
	}
	value, err := strconv.ParseBool(cmp.Or(query.Get(name), "true"))
	if err != nil {
		return false, fmt.Errorf("%s = %q: must be true or false", name, query.Get(name))
	}
	return value, nil
}
