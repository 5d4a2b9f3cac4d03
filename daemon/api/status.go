package api

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"

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
	answer := ConfigText{File: h.daemon.ConfigFile()}
	whole := true
	if text := r.URL.Query().Get("toml"); text != "" {
		var err error
		if whole, err = strconv.ParseBool(text); err != nil {
			writeError(w, http.StatusBadRequest, ErrorBadData, "toml = "+strconv.Quote(text)+": must be true or false")
			return
		}
	}
	if whole {
		answer.TOML = h.daemon.Config()
	}
	answer.File = redact.Text(answer.File)
	encoded, _ := json.Marshal(answer) // cannot fail: all fields are strings
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
