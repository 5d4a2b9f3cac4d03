package api

import "net/http"

// ConfigText is the configuration in force.
type ConfigText struct {
	// TOML is the configuration as text, without secrets.
	TOML string `json:"toml"`
}

// config answers the configuration in force.
func (h handlers) config(w http.ResponseWriter, _ *http.Request) {
	writeData(w, ConfigText{TOML: h.daemon.Config()})
}

// buildInfo answers which hpad this is.
func (h handlers) buildInfo(w http.ResponseWriter, _ *http.Request) {
	writeData(w, Build())
}
