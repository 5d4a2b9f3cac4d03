package prometheus

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hpad/hpad/settings/httpclient"
	"github.com/hpad/hpad/sources"
)

// TestQueryRangeChunks checks that a range is split into requests below the limit of servers, that each
// instant is visited once, and that the credentials and the parameters of the source are used.
func TestQueryRangeChunks(t *testing.T) {
	requests := 0
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		requests++
		number := func(name string) float64 {
			value, err := strconv.ParseFloat(r.FormValue(name), 64)
			if err != nil {
				t.Errorf("%s = %q", name, r.FormValue(name))
			}
			return value
		}
		start, end, step := number("start"), number("end"), number("step")
		if instants := int((end-start)/step) + 1; instants > 11_000 || step != 15 {
			t.Errorf("%d instants with step %v", instants, step)
		}
		if user, _, _ := r.BasicAuth(); user != "hpad" || r.FormValue("dedup") != "true" || r.FormValue("lookback_delta") != "1m0s" {
			t.Errorf("user = %q, form = %v", user, r.Form)
		}
		var values []string
		for at := start; at <= end; at += step {
			if int(at)%60 == 0 {
				values = append(values, fmt.Sprintf(`[%d,"%d"]`, int(at), int(at)))
			}
		}
		fmt.Fprintf(w, `{"status":"success","warnings":["a store did not respond"],"data":{"resultType":"matrix","result":[{"metric":{"queue":"a"},"values":[%s]}]}}`, strings.Join(values, ","))
	})
	source := newSource(t, server.URL, func(c *Config) {
		password := filepath.Join(t.TempDir(), "password")
		if err := os.WriteFile(password, []byte("secret"), 0o600); err != nil {
			t.Fatal(err)
		}
		c.BasicAuth = &httpclient.BasicAuth{Username: "hpad", PasswordFile: password}
		c.Params = map[string]string{"dedup": "true"}
	})
	next, found := at, 0
	err := source.QueryRange(t.Context(), sources.Query{Text: "queue", MaxAge: time.Minute}, at, 15*time.Second, 2500, func(now time.Time, v *sources.Vector) {
		if !now.Equal(next) || v.Partial() == "" {
			t.Fatalf("visited %v with the warnings %v, want %v and a partial result", now, v.Warnings, next)
		}
		next = now.Add(15 * time.Second)
		if now.Unix()%60 != 0 {
			if len(v.Series) != 0 {
				t.Fatalf("series at %v = %v", now, v.Series)
			}
			return
		}
		found++
		if len(v.Series) != 1 || v.Series[0].Value != float64(now.Unix()) || v.Series[0].Labels.Get("queue") != "a" || !v.Series[0].At.Equal(now) {
			t.Fatalf("series at %v = %v", now, v.Series)
		}
	})
	if err != nil || requests != 3 || found != 625 || !next.Equal(at.Add(2500*15*time.Second)) {
		t.Errorf("%v, %d requests, %d values, until %v", err, requests, found, next)
	}
}

// TestQueryRangeErrors checks that a failed request is one error without any result.
func TestQueryRangeErrors(t *testing.T) {
	for _, test := range []struct {
		name, body, want string
		status           int
	}{
		{"invalid query", `{"status":"error","errorType":"bad_data","error":"parse error"}`, "bad_data: parse error", http.StatusBadRequest},
		{"vector", `{"status":"success","data":{"resultType":"vector","result":[]}}`, "response is truncated or not from the Prometheus API", http.StatusOK},
		{"interrupted", `{"status":"success","data":{"resultType":"matrix","result":[{"metric":{},"values":[[1767225600,"1"]`, "response is truncated or not from the Prometheus API", http.StatusOK},
		{"histogram", `{"status":"success","data":{"resultType":"matrix","result":[{"metric":{},"histograms":[[1767225600,{"count":"1"}]]}]}}`, "native histogram", http.StatusOK},
		{"other time", `{"status":"success","data":{"resultType":"matrix","result":[{"metric":{},"values":[[1767225607,"1"]]}]}}`, "result has the time 2026-01-01T00:00:07Z, which was not requested", http.StatusOK},
		{"no number", `{"status":"success","data":{"resultType":"matrix","result":[{"metric":{},"values":[[1767225600,1]]}]}}`, "not from the Prometheus API", http.StatusOK},
	} {
		t.Run(test.name, func(t *testing.T) {
			server := serve(t, answering(test.status, "application/json", test.body))
			source := newSource(t, server.URL, nil)
			err := source.QueryRange(t.Context(), sources.Query{Text: "queue"}, at, 15*time.Second, 4, func(time.Time, *sources.Vector) { t.Error("visited an instant") })
			if err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), `source "prom": query "queue" from 2026-01-01T00:00:00Z at `) {
				t.Errorf("error = %v, want %q", err, test.want)
			}
		})
	}
}
