package embedded

import (
	"compress/gzip"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/hpad/hpad/sources"
	"github.com/hpad/hpad/test/wait"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const textFormat = "text/plain; version=0.0.4"

// exporter is an endpoint whose page can be changed.
type exporter struct {
	*httptest.Server
	mu          sync.Mutex
	page        string
	contentType string
	status      int
	requests    int
	accept      string
}

func newExporter(t testing.TB, page string) *exporter {
	t.Helper()
	e := &exporter{page: page, contentType: textFormat, status: http.StatusOK}
	e.Server = httptest.NewServer(e)
	t.Cleanup(e.Close)
	return e
}

func (e *exporter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.requests++
	e.accept = r.Header.Get("Accept")
	w.Header().Set("Content-Type", e.contentType)
	if r.Header.Get("Accept-Encoding") != "gzip" || e.status != http.StatusOK {
		w.WriteHeader(e.status)
		fmt.Fprint(w, e.page)
		return
	}
	w.Header().Set("Content-Encoding", "gzip")
	zip := gzip.NewWriter(w)
	fmt.Fprint(zip, e.page)
	_ = zip.Close() // the test is not about disconnecting clients
}

func (e *exporter) set(status int, contentType, page string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.status, e.contentType, e.page = status, contentType, page
}

func (e *exporter) address() string { return e.Listener.Addr().String() }

// config returns a valid configuration that scrapes addresses every 100 ms.
func config(addresses ...string) *Config {
	cfg := &Config{}
	if len(addresses) > 0 {
		cfg.Scrape = []Scrape{{Addresses: addresses, Interval: minInterval, Timeout: minInterval}}
	}
	cfg.SetDefaults()
	return cfg
}

func started(t testing.TB, cfg *Config, env sources.Env) *Source {
	t.Helper()
	if errs := cfg.Validate(); len(errs) > 0 {
		t.Fatalf("invalid test configuration: %v", errs)
	}
	if cfg.Dir == "" {
		cfg.Dir = t.TempDir()
	}
	source, err := New("local", cfg, env)
	if err != nil {
		t.Fatal(err)
	}
	if err := source.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := source.Close(); err != nil {
			t.Error(err)
		}
	})
	return source
}

// text returns a vector in a form that is easy to compare.
func text(vector sources.Vector) string {
	var lines []string
	for _, series := range vector.Series {
		lines = append(lines, fmt.Sprintf("%s %v", strings.ReplaceAll(series.Labels.String(), ", ", ","), series.Value))
	}
	return strings.Join(lines, "\n")
}

// eventually evaluates a query until its result equals want.
func eventually(t testing.TB, source *Source, query, want string) {
	t.Helper()
	var got string
	poll(t, func() bool {
		vector, err := source.Query(t.Context(), sources.Query{Text: query}, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		got = text(vector)
		return got == want
	}, func() string { return fmt.Sprintf("query %s: got\n%s\nwant\n%s", query, got, want) })
}

// poll waits for a condition, for at most ten seconds.
func poll(t testing.TB, done func() bool, failure func() string) {
	t.Helper()
	if _, ok := wait.Until(10*time.Second, func() (string, bool) { return "", done() }); !ok {
		t.Fatal(failure())
	}
}

func isNaN(vector sources.Vector) bool {
	return len(vector.Series) == 1 && math.IsNaN(vector.Series[0].Value)
}
