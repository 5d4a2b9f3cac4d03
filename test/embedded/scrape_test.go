package embedded

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hpad/hpad/sources"
	source "github.com/hpad/hpad/sources/embedded"
)

// everything picks all series of the endpoint but those that take time into
// account or that only a server makes.
const everything = `{job="static",__name__!~"scrape_duration_seconds|scrape_samples_post_metric_relabeling|scrape_series_added|scrape_sample_limit|scrape_timeout_seconds|scrape_body_size_bytes"}`

// page is an endpoint whose response the test changes.
type page struct {
	mu          sync.Mutex
	status      int
	contentType string
	text        string
}

func (p *page) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	w.Header().Set("Content-Type", p.contentType)
	w.WriteHeader(p.status)
	fmt.Fprint(w, p.text)
}

func (p *page) set(status int, contentType, text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.status, p.contentType, p.text = status, contentType, text
}

// TestSameSeriesFromOnePage lets a server and a source scrape one endpoint, and
// compares which series each has after every change of it.
func TestSameSeriesFromOnePage(t *testing.T) {
	const (
		plain       = "text/plain; version=0.0.4"
		openMetrics = "application/openmetrics-text; version=1.0.0"
	)
	p := &page{status: http.StatusOK, contentType: plain}
	endpoint := httptest.NewServer(p)
	defer endpoint.Close()
	address := strings.TrimPrefix(endpoint.URL, "http://")

	server := startServer(t, built(t), fmt.Sprintf("scrape_configs:\n- job_name: static\n  scrape_interval: 200ms\n  scrape_timeout: 200ms\n  static_configs:\n  - targets: [%q]\n    labels: {env: test}\n", address))
	cfg := &source.Config{Scrape: []source.Scrape{{
		Addresses: []string{address},
		Interval:  200 * time.Millisecond,
		Labels:    map[string]string{"env": "test"},
	}}}
	cfg.SetDefaults()
	s := startSource(t, cfg, t.TempDir())

	for _, step := range []struct {
		name              string
		status            int
		contentType, text string
		// mark is a query that has a response once this page was scraped.
		mark string
	}{
		{"labels in conflict", http.StatusOK, plain, "step 1\nload{job=\"a\",instance=\"b\",env=\"c\",exported_job=\"d\"} 1\nload{job=\"\"} 2\n", "step == 1"},
		{"one series less", http.StatusOK, plain, "step 2\nload 3\n", "step == 2"},
		{"histogram and summary", http.StatusOK, openMetrics, "# TYPE step gauge\nstep 3\n# TYPE h histogram\nh_bucket{le=\"1\"} 1\nh_bucket{le=\"+Inf\"} 2\nh_count 2\nh_sum 3\n# TYPE s summary\ns{quantile=\"0.5\"} 1\n# TYPE c counter\nc_total 1\nc_created 5\n# EOF\n", "step == 3"},
		{"names in UTF-8", http.StatusOK, plain, "step 4\n{\"a.b\",\"c d\"=\"e\"} 1\n", "step == 4"},
		{"twice in one page", http.StatusOK, plain, "step 5\nload 1\nload 2\n", "step == 5"},
		{"refused", http.StatusServiceUnavailable, plain, "step 6\n", "up == 0"},
		{"back", http.StatusOK, plain, "step 7\nload 1\n", "step == 7"},
		// With the garbled line further down they differ: a server leaves the
		// series above it as they were, while a source ends all of a failed scrape.
		{"garbled", http.StatusOK, plain, "load{\nstep 8\n", "up == 0"},
		{"back again", http.StatusOK, plain, "step 9\nload 1\n", "step == 9"},
		{"empty", http.StatusOK, plain, "", "absent(step)"},
	} {
		t.Run(step.name, func(t *testing.T) {
			p.set(step.status, step.contentType, step.text)
			want := seriesAfter(t, server.now(t), step.mark)
			got := seriesAfter(t, func(text string) (sources.Vector, error) {
				return s.Query(t.Context(), sources.Query{Text: text}, time.Now())
			}, step.mark)
			if !slices.Equal(got, want) {
				t.Errorf("source has\n%s\nserver has\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
			if len(want) == 0 {
				t.Error("the server has no series at all")
			}
		})
	}
}

// now asks the server about now.
func (s *server) now(t *testing.T) func(string) (sources.Vector, error) {
	return func(text string) (sources.Vector, error) { return s.query(t.Context(), text, time.Now()) }
}

// seriesAfter waits until mark has a response and returns all series.
func seriesAfter(t *testing.T, ask func(string) (sources.Vector, error), mark string) []string {
	t.Helper()
	deadline := time.After(10 * time.Second)
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		vector, err := ask(mark)
		if err != nil {
			t.Fatal(err)
		}
		if len(vector.Series) > 0 {
			break
		}
		select {
		case <-deadline:
			t.Fatalf("%s has no answer after 10s", mark)
		case <-ticker.C:
		}
	}
	vector, err := ask(everything)
	if err != nil {
		t.Fatal(err)
	}
	list := lines(vector, query{})
	for i := range list {
		list[i], _, _ = strings.Cut(list[i], " at ")
	}
	return list
}
