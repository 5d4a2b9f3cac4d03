package faults

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"

	"github.com/hpad/hpad/settings/webtest"
	"github.com/hpad/hpad/test/internal/program"
	"github.com/hpad/hpad/test/scale/sim"
)

// exposition serves the document /loads in the text format of metrics.
func exposition(honest http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := httptest.NewRecorder()
		honest.ServeHTTP(answer, httptest.NewRequestWithContext(r.Context(), http.MethodGet, "/loads", http.NoBody))
		var loads struct {
			Services []struct {
				Service string
				Load    int
			}
		}
		if err := json.Unmarshal(answer.Body.Bytes(), &loads); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "text/plain; version=0.0.4")
		for _, one := range loads.Services {
			_, _ = fmt.Fprintf(w, "load{service=%q} %d\n", one.Service, one.Load)
		}
	})
}

// endpointFaults lists faults of an endpoint of an embedded source. why matches the error that hpad
// reports.
var endpointFaults = []fault{
	{"hangs", hang, noScrape + "no complete response within 500ms"},
	{"hangs in the body", beginAndHang, noScrape + "no complete response within 500ms"},
	{"resets the connection during the response", reset, noScrape + ".*(connection reset|EOF)"},
	{"trickles a byte a second", trickle, noScrape + "no complete response within 500ms"},
	{"returns a page with 200", respond(200, "text/html", loginPage), noScrape + "parse response"},
	{"returns 401", respond(401, "text/plain", "who are you?"), noScrape + `endpoint returned 401 Unauthorized: "who are you\?"`},
	{"returns 403", respond(403, "text/plain", "not for you"), noScrape + `endpoint returned 403 Forbidden: "not for you"`},
	{"returns 500", respond(500, "text/plain", "boom"), noScrape + `endpoint returned 500 Internal Server Error: "boom"`},
	{"redirects to itself", respond(307, "text/plain", "", "Location", "/metrics"), noScrape + "stopped after 10 redirects"},
	{"returns other JSON", respond(200, "application/json", `[1,{"a":null}]`), noScrape + "parse response"},
	{"returns an empty body", respond(200, "text/plain", ""), "the source returned no value"},
	{"returns a part of a response", respond(200, "text/plain", "load{service=\"shop-0"), noScrape + "parse response"},
}

// noScrape matches the start of the reason why an endpoint has no series.
const noScrape = `the source returned no value.*; warning: job "loads": scrape https?://127.0.0.1:\d+/metrics: `

// filesOfChunks is the number of files that an embedded source opens when a series has 120 samples.
const filesOfChunks = 2

// TestEndpoint runs all faults of endpoints at the same time, each with its own embedded source.
func TestEndpoint(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 100, 3)
	honest := exposition(w.prometheus)
	count := 0
	add := func(f *front, more string) *victim {
		source := fmt.Sprintf("e%d", count)
		count++
		w.files += filesOfChunks
		fmt.Fprintf(&w.config, "[sources.%s]\nkind = \"embedded\"\n[[sources.%[1]s.scrape]]\njob = \"loads\"\naddresses = [%q]\ninterval = \"500ms\"\n%s\n", source, f.address, more)
		v := &victim{world: w, front: f}
		v.name, v.number = w.autoscalerOf("steady", source, func(number int) string { return fmt.Sprintf("query = 'load{service=%q}'", sim.JobID(number)) })
		return v
	}
	var tests []subtest
	for _, fault := range endpointFaults {
		tests = append(tests, add(newFront(t, honest), "").subtest(fault))
	}
	for value, why := range map[string]string{"NaN": "not a number", "+Inf": "infinite", "-5": "negative values are rejected", "1e300": `1e\+300 does not fit`} {
		v := add(newFront(t, honest), "")
		text := fmt.Sprintf("load{service=%q} %s\n", v.name, value)
		tests = append(tests, v.subtest(fault{"returns " + value, respond(200, "text/plain; version=0.0.4", text), why}))
	}
	refusing := add(newFront(t, honest), "")
	secure, ca := newSecureFront(t, honest)
	expired := add(secure, fmt.Sprintf("scheme = \"https\"\ntls = { ca_file = %q }\n", ca))
	token := webtest.Write(t, t.TempDir(), "token", "Token-of-endpoint-1")
	protected := add(newFront(t, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if got := r.Header.Get("Authorization"); got != "Bearer Token-of-endpoint-1" {
			http.Error(rw, "rejected "+got[len("Bearer "):], http.StatusUnauthorized)
			return
		}
		honest.ServeHTTP(rw, r)
	})), fmt.Sprintf("token_file = %q\n", token))
	set := func(text string) func() {
		return func() { webtest.Write(t, filepath.Dir(token), "token", text) }
	}
	w.runFaults(t, append(
		tests,
		subtest{"refuses connections", func(t *testing.T, p *program.Program) {
			refusing.withstand(t, p, refusing.close, refusing.listen, noScrape+".*connection refused")
		}},
		subtest{"has an expired certificate", func(t *testing.T, p *program.Program) {
			expired.withstand(t, p, func() { expired.expire(true) }, func() { expired.expire(false) }, noScrape+".*certificate has expired")
		}},
		subtest{"rejects a token", func(t *testing.T, p *program.Program) {
			protected.withstand(t, p, set("Another-Token-2"), set("Token-of-endpoint-1"), noScrape+`endpoint returned 401 Unauthorized: "rejected <redacted>"`)
		}},
	))
}
