package prometheus

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"testing"

	"github.com/hpad/hpad/settings/httpclient"
	"github.com/hpad/hpad/sources"
	"github.com/hpad/hpad/sources/sourcetest"
)

// imitation imitates a Prometheus server with the series of the contract suite.
func imitation(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	result := []any{}
	switch r.FormValue("query") {
	case "sum(":
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprint(w, `{"status":"error","errorType":"bad_data","error":"parse error: unclosed left parenthesis"}`)
		return
	case "depth":
		for queue, value := range sourcetest.Series {
			result = append(result, map[string]any{
				"metric": map[string]string{"__name__": "depth", "queue": queue},
				"value":  []any{json.RawMessage(r.FormValue("time")), fmt.Sprint(value)},
			})
		}
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"status": "success", "data": map[string]any{"resultType": "vector", "result": result}})
}

// TestContract runs the suite for each way to send and to authorize queries.
func TestContract(t *testing.T) {
	tokens := serve(t, answering(http.StatusOK, "application/json", `{"access_token":"Token-of-contract-1","expires_in":3600}`))
	secret := write(t, filepath.Join(t.TempDir(), "secret"), []byte("Secret-of-contract-1"))
	for name, test := range map[string]struct {
		edit    func(*Config)
		imitate http.HandlerFunc
	}{
		"POST": {func(*Config) {}, imitation},
		"GET after a rejected POST": {func(c *Config) { c.Params = map[string]string{"dedup": "true"} }, func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost {
				w.WriteHeader(http.StatusMethodNotAllowed)
				return
			}
			imitation(w, r)
		}},
		"OAuth 2": {func(c *Config) {
			c.OAuth2 = &httpclient.OAuth2{TokenURL: tokens.URL + "/token", ClientID: "hpad", ClientSecretFile: secret}
		}, func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") != "Bearer Token-of-contract-1" {
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			imitation(w, r)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			server := serve(t, test.imitate)
			sourcetest.Run(t, sourcetest.Kind{
				Start: func(t *testing.T, env sources.Env) (sources.Source, string) {
					cfg := &Config{URL: server.URL}
					test.edit(cfg)
					cfg.SetDefaults()
					source, err := New("local", cfg, env.Answers)
					if err != nil {
						t.Fatal(err)
					}
					t.Cleanup(func() { _ = source.Close() })
					return source, "depth"
				},
				Missing: "width",
				Invalid: "sum(",
				Fail:    server.Close,
			})
		})
	}
}
