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

// ConfigText is the active configuration.
type ConfigText struct {
	// TOML is the configuration without secrets.
	TOML string `json:"toml"`
	// File is the absolute path of the main file on the daemon's host; empty if there is none.
	File string `json:"file,omitempty"`
}

// config writes the active configuration, from which the daemon has removed the secrets; with
// toml=false only its path.
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

// ConfigFile returns the absolute path of the daemon's main file on its host; empty if there is
// none.
func (c *Client) ConfigFile(ctx context.Context) (string, error) {
	text, err := call[ConfigText](ctx, c, http.MethodGet, "/api/v1/status/config?toml=false", nil)
	return text.File, err
}

func (h handlers) buildInfo(w http.ResponseWriter, _ *http.Request) {
	writeData(w, Build())
}

// version is set by the linker: -X github.com/hpad/hpad/daemon/api.version=1.2.3.
var version string

// BuildInfo identifies the build.
type BuildInfo struct {
	// Version is the release, or "(devel)".
	Version string `json:"version"`
	// Revision is the commit, RevisionTime its time in RFC 3339; empty if they are unknown.
	Revision     string `json:"revision,omitempty"`
	RevisionTime string `json:"revision_time,omitempty"`
	// Modified reports whether the checkout differed from the commit.
	Modified bool `json:"modified,omitempty"`
	// GoVersion is the toolchain, such as "go1.26.0"; Platform is "linux/amd64".
	GoVersion string `json:"go_version"`
	Platform  string `json:"platform"`
}

// Build identifies the running binary, by the version from the linker or else that of the module.
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

// exportTimeout allows for a full history of some hundred megabytes.
const exportTimeout = 5 * time.Minute

// exportState writes the state for an import. An error in the middle aborts the response before its
// last line, without which no import accepts it.
func (h handlers) exportState(w http.ResponseWriter, r *http.Request) {
	history, err := boolParameter(r, "history", true)
	if err != nil {
		writeError(w, http.StatusBadRequest, ErrorBadData, err.Error())
		return
	}
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(exportTimeout)) // fails only for writers without deadlines
	w.Header().Set("Content-Type", "application/jsonl")
	written := &countingWriter{Writer: w}
	if err := h.daemon.ExportState(r.Context(), written, history); err != nil {
		if written.size > 0 {
			panic(http.ErrAbortHandler)
		}
		writeError(w, http.StatusInternalServerError, ErrorInternal, err.Error())
	}
}

// ExportState writes the state of the daemon, optionally with the history of decisions, for "hpad
// state import".
func (c *Client) ExportState(ctx context.Context, to io.Writer, history bool) error {
	return c.fetch(ctx, "/api/v1/state?history="+strconv.FormatBool(history), exportTimeout, to)
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

// healthy writes 200 if the scheduler ticks, otherwise 503. With strict it also writes 503 if
// Health.Strictly is false.
func (h handlers) healthy(w http.ResponseWriter, r *http.Request) {
	strict, err := boolParameter(r, "strict", false)
	if err != nil {
		writeError(w, http.StatusBadRequest, ErrorBadData, err.Error())
		return
	}
	health := h.daemon.Health()
	writeJSON(w, statusOf(health.Healthy && (!strict || health.Strictly())), health)
}

// ready writes 200 if the configuration is live and the state can be written, otherwise 503.
func (h handlers) ready(w http.ResponseWriter, _ *http.Request) {
	readiness := h.daemon.Readiness()
	writeJSON(w, statusOf(readiness.Ready), readiness)
}

// reload reloads the configuration. It also completes if the client disconnects.
func (h handlers) reload(w http.ResponseWriter, r *http.Request) {
	// A reload may take longer than other responses.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Time{})
	changes, err := h.daemon.Reload(context.WithoutCancel(r.Context()))
	writeChanges(w, changes, err)
}

// ReloadChanges are the changes of a reload, in the order of keys.
type ReloadChanges struct {
	Changes []config.Change `json:"changes"`
}

func (h handlers) reloadChanges(w http.ResponseWriter, r *http.Request) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Time{}) // as in reload
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

// boolParameter returns a parameter of the query; without a value it is true.
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
