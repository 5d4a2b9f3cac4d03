package api

import "net/http"

// ConfigText is the configuration in force.
type ConfigText struct {
	// TOML is the configuration as text, without secrets.
	TOML string `json:"toml"`
}

// config writes the configuration in force, which the daemon has taken the secrets
// out of.
func (h handlers) config(w http.ResponseWriter, _ *http.Request) {
	writeDataAs(w, ConfigText{TOML: h.daemon.Config()}, func(encoded []byte) []byte { return encoded })
}

func (h handlers) buildInfo(w http.ResponseWriter, _ *http.Request) {
	writeData(w, Build())
}
