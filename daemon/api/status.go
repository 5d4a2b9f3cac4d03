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
	// File is the absolute path of the main configuration file on the daemon's host, or empty if
	// there is none.
	File string `json:"file,omitempty"`
}

// config writes the active configuration, from which the daemon has removed the secrets. With
// toml=false it writes only the path.
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

// ConfigFile returns the absolute path of the main configuration file on the daemon's host, or ""
// if there is none.
func (c *Client) ConfigFile(ctx context.Context) (string, error) {
	text, err := call[ConfigText](ctx, c, http.MethodGet, "/api/v1/status/config?toml=false", nil)
	return text.File, err
}

func (h handlers) buildInfo(w http.ResponseWriter, _ *http.Request) {
	writeData(w, Build())
}

// version is set by the linker option -X github.com/hpad/hpad/daemon/api.version=1.2.3.
var version string

// BuildInfo identifies the build.
type BuildInfo struct {
	// Version is the version of the release, or "(devel)".
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

// exportState writes the state for an import. An error after the first bytes aborts the response
// before its last line, and an import rejects an export without that line.
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

// ExportState writes the daemon's state, optionally with the history of decisions, for "hpad
// state import".
func (c *Client) ExportState(ctx context.Context, to io.Writer, history bool) error {
	path := "/api/v1/state?history=" + strconv.FormatBool(history)
	return c.send(ctx, http.MethodGet, path, nil, exportTimeout, func(r *http.Response) error {
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

// healthy writes 200 if the scheduler is ticking, and 503 otherwise. With the parameter strict,
// it also writes 503 if Health.Strictly is false.
func (h handlers) healthy(w http.ResponseWriter, r *http.Request) {
	strict, err := boolParameter(r, "strict", false)
	if err != nil {
		writeError(w, http.StatusBadRequest, ErrorBadData, err.Error())
		return
	}
	health := h.daemon.Health()
	writeJSON(w, statusOf(health.Healthy && (!strict || health.Strictly())), health)
}

// ready writes 200 if Readiness.Ready is true, and 503 otherwise.
func (h handlers) ready(w http.ResponseWriter, _ *http.Request) {
	readiness := h.daemon.Readiness()
	writeJSON(w, statusOf(readiness.Ready), readiness)
}

// reload reloads the configuration. It completes the reload even if the client disconnects.
func (h handlers) reload(w http.ResponseWriter, r *http.Request) {
	// A reload may take longer than other responses.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Time{})
	ctx := context.WithoutCancel(WithWarnings(r).Context())
	changes, err := h.daemon.Reload(ctx)
	writeChanges(w, changes, Warnings(ctx), err)
}

// ReloadChanges contains the changes that a reload makes, sorted by key.
type ReloadChanges struct {
	Changes []config.Change `json:"changes"`
}

func (h handlers) reloadChanges(w http.ResponseWriter, r *http.Request) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Time{}) // as in reload
	ctx := WithWarnings(r).Context()
	changes, err := h.daemon.ReloadChanges(ctx)
	writeChanges(w, changes, Warnings(ctx), err)
}

func writeChanges(w http.ResponseWriter, changes []config.Change, warnings []string, err error) {
	if err != nil {
		writeError(w, http.StatusInternalServerError, ErrorReload, err.Error())
		return
	}
	writePage(w, ReloadChanges{append([]config.Change{}, changes...)}, "", warnings)
}

func statusOf(ok bool) int {
	if ok {
		return http.StatusOK
	}
	return http.StatusServiceUnavailable
}

// boolParameter returns a boolean query parameter. A parameter without a value is true.
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
