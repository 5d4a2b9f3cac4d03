package prometheus

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"

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

func TestContract(t *testing.T) {
	server := serve(t, imitation)
	sourcetest.Run(t, sourcetest.Kind{
		Start: func(t *testing.T, env sources.Env) (sources.Source, string) {
			cfg := &Config{URL: server.URL}
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
}
