package http

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/hpad/hpad/settings/httpclient"
	"github.com/hpad/hpad/sources"
	"github.com/hpad/hpad/sources/document"
	"github.com/hpad/hpad/sources/sourcetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// newSource builds a source that is closed when the test ends.
func newSource(t *testing.T, cfg Config, env sources.Env) *source {
	t.Helper()
	cfg.SetDefaults()
	for _, fieldErr := range cfg.Validate() {
		t.Fatal(fieldErr)
	}
	built, err := cfg.Build("local", env)
	if err != nil {
		t.Fatal(err)
	}
	source, _ := built.(*source)
	t.Cleanup(func() {
		if err := source.Close(); err != nil {
			t.Error(err)
		}
	})
	return source
}

func serve(t *testing.T, handler http.HandlerFunc) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server
}

func TestContract(t *testing.T) {
	type queue struct {
		Queue string  `json:"queue"`
		Depth float64 `json:"depth"`
	}
	var exposition strings.Builder
	var queues []queue
	finite := map[string]float64{"a": 1.5, "b": -0.25, "large": 1e300}
	for name, value := range sourcetest.Series {
		fmt.Fprintf(&exposition, "depth{queue=%q} %v\n", name, value)
	}
	for name, value := range finite {
		queues = append(queues, queue{name, value})
	}
	text, err := json.Marshal(queues)
	if err != nil {
		t.Fatal(err)
	}
	for _, format := range []struct {
		name                    document.Format
		text                    string
		series                  map[string]float64
		query, missing, invalid string
	}{
		{document.JSON, string(text), finite, "$[*].depth", "$[?@.queue == 'none'].depth", "$["},
		{document.Prometheus, exposition.String(), nil, "depth", "width", "sum("},
	} {
		t.Run(string(format.name), func(t *testing.T) {
			server := serve(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, format.text) })
			sourcetest.Run(t, sourcetest.Kind{
				Start: func(t *testing.T, env sources.Env) (sources.Source, string) {
					return newSource(t, Config{URL: server.URL, Format: format.name}, env), format.query
				},
				Missing: format.missing, Invalid: format.invalid, Series: format.series, Fail: server.Close,
			})
		})
	}
}

func respond(status int, kind, text string, headers ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		for i := 0; i+1 < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(status)
		fmt.Fprint(w, text)
	}
}

// TestFaults checks that each faulty response is an error with the cause and the start of the response.
func TestFaults(t *testing.T) {
	const good = `{"queue":{"length":7}}`
	long := strings.Repeat("x", 2000)
	for name, test := range map[string]struct {
		handler http.HandlerFunc
		want    string
	}{
		"500":               {respond(500, "text/plain", "boom"), `server returned 500 Internal Server Error instead of 200 OK: "boom"`},
		"204":               {respond(204, "text/plain", ""), `server returned 204 No Content instead of 200 OK: "(empty body)"`},
		"401":               {respond(401, "text/plain", "expired"), `401 Unauthorized instead of 200 OK: "expired"; check the credentials, headers and tls`},
		"redirect":          {respond(302, "text/plain", "", "Location", "https://a:b@login.example/?token=x"), `redirected with 302 Found to "https://login.example/"; set url`},
		"page":              {respond(200, "text/html; charset=utf-8", good), `a page of type "text/html" instead of a document; check that url is the address of the document: "{\"queue\"`},
		"page without type": {respond(200, "application/json", "<html>"), `of type "application/json" is not complete and valid JSON: jsontext: invalid character '<' at start of value; the document is "<html>"`},
		"empty":             {respond(200, "application/json", ""), "is not complete and valid JSON: jsontext: unexpected EOF; the document is empty"},
		"partial":           {respond(200, "application/json", `{"queue":{"length":7`), `unexpected EOF within "/queue" after offset 20; the document is "{\"queue\":{\"length\":7"`},
		"cut":               {respond(200, "application/json", good[:9], "Content-Length", "22"), `response is incomplete after 9 bytes: unexpected EOF: "{\"queue\":"`},
		"large":             {respond(200, "application/json", `{"a":"`+long+`"}`), `response has more than 1000 bytes (max_size = "1k"): "{\"a\":\"xxx`},
		"encoding":          {respond(200, "application/json", good, "Content-Encoding", "gzip"), `Content-Encoding "gzip", which was not requested`},
		"twice":             {respond(200, "application/json", `{"queue":{"length":7},"queue":{"length":1}}`), "duplicate"},
		"deep":              {respond(200, "application/json", strings.Repeat("[", 400)+strings.Repeat("]", 400)), "more than 100 nested objects and arrays"},
		"old in a cache":    {respond(200, "application/json", good, "Age", "301"), "the document is 5m1s old, and max_age = 5m0s"},
		"old file":          {respond(200, "application/json", good, "Last-Modified", "Sun, 01 Jan 2023 00:00:00 GMT"), "old, and max_age = 5m0s"},
		"control codes":     {respond(500, "text/plain", "a\x1b[1m\n b"), `"a?[1m b"`},
	} {
		t.Run(name, func(t *testing.T) {
			source := newSource(t, Config{URL: serve(t, test.handler).URL + "/api?token=hunter2", Limits: document.Limits{MaxSize: 1000}}, sources.Env{})
			_, err := source.Query(t.Context(), sources.Query{Text: "$.queue.length"}, time.Now())
			if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "hunter2") || len(err.Error()) > 1000 {
				t.Errorf("error = %v\nwant %s", err, test.want)
			}
		})
	}
}

// TestTimeout checks that a response that hangs in its body ends with the timeout and shows its start.
func TestTimeout(t *testing.T) {
	released := make(chan struct{})
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, `{"queue":`)
		_ = http.NewResponseController(w).Flush()
		select {
		case <-r.Context().Done():
		case <-released:
		}
	})
	defer close(released)
	source := newSource(t, Config{URL: server.URL, Limits: document.Limits{Timeout: 200 * time.Millisecond}}, sources.Env{})
	_, err := source.Query(t.Context(), sources.Query{Text: "$.queue"}, time.Now())
	for _, want := range []string{"no complete document within the timeout of 200ms (sources.local.timeout)", `response is incomplete after 9 bytes`, `"{\"queue\":"`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error = %v, want %s", err, want)
		}
	}
}

// TestAccess checks that requests contain the credentials and headers, and that a token is read again for
// each document.
func TestAccess(t *testing.T) {
	var requests atomic.Int32
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		if user, password, _ := r.BasicAuth(); user != "hpad" || password != "" || r.Header.Get("X-Team") != "shop" || !strings.HasPrefix(r.Header.Get("Accept"), "application/json") {
			w.WriteHeader(http.StatusForbidden)
		}
		fmt.Fprint(w, `[1, 2]`)
	})
	cfg := Config{URL: server.URL + "/?columns=name"}
	cfg.Headers = map[string]string{"X-Team": "shop"}
	if _, err := newSource(t, cfg, sources.Env{}).Query(t.Context(), sources.Query{Text: "$[0]"}, time.Now()); err == nil || !strings.Contains(err.Error(), "403 Forbidden") {
		t.Errorf("error without credentials = %v, want 403", err)
	}
	cfg.BasicAuth = &httpclient.BasicAuth{Username: "hpad"}
	source := newSource(t, cfg, sources.Env{})
	for i := range 2 {
		vector, err := source.Query(t.Context(), sources.Query{Text: fmt.Sprintf("$[%d]", i)}, time.Unix(1767225600, 0))
		if err != nil || vector.Series[0].Value != float64(i+1) {
			t.Errorf("Query() = %v, %v", vector.Series, err)
		}
	}
	if got := requests.Load(); got != 2 {
		t.Errorf("%d requests, want 1 for each source and instant", got)
	}
}
