package world

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/hpad/hpad/test/prometheus/promtest"
	"github.com/hpad/hpad/test/wait"
)

// Load runs an exporter with values from the test, and a Prometheus server that scrapes it every
// second.
type Load struct {
	url string

	mu     sync.Mutex
	values map[string]float64
}

// NewLoad starts a Prometheus server that scrapes the metrics set by Queue.
func NewLoad(t testing.TB) *Load {
	t.Helper()
	l := &Load{values: map[string]float64{}}
	exporter := httptest.NewServer(l)
	t.Cleanup(exporter.Close)
	l.url = promtest.Start(t, fmt.Sprintf(`
global:
  scrape_interval: 1s
scrape_configs:
- job_name: load
  static_configs:
  - targets: [%q]
`, strings.TrimPrefix(exporter.URL, "http://"))).URL
	return l
}

// Set sets the value of a series, for example `queue{of="web"}`.
func (l *Load) Set(series string, value float64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.values[series] = value
}

// ServeHTTP serves the metrics.
func (l *Load) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for series, value := range l.values {
		_, _ = fmt.Fprintf(w, "%s %v\n", series, value)
	}
}

// Queue sets the length of a queue.
func (l *Load) Queue(of string, length float64) { l.Set(fmt.Sprintf("queue{of=%q}", of), length) }

// AwaitQueue waits until Prometheus returns the current length of a queue.
func (l *Load) AwaitQueue(t testing.TB, of string) {
	t.Helper()
	series := fmt.Sprintf("queue{of=%q}", of)
	l.mu.Lock()
	want := fmt.Sprint(l.values[series])
	l.mu.Unlock()
	wait.For(t, Patience, fmt.Sprintf("%s of %s in Prometheus", series, want), func() (string, bool) {
		got, err := l.ask(series)
		return fmt.Sprintf("the value is %q, %v", got, err), err == nil && got == want
	})
}

// ask returns the value of a series as formatted by Prometheus, or an empty string.
func (l *Load) ask(series string) (string, error) {
	response, err := http.Get(l.url + "/api/v1/query?query=" + url.QueryEscape(series))
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	var answer struct {
		Data struct {
			Result []struct {
				Value [2]any `json:"value"`
			} `json:"result"`
		} `json:"data"`
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil || len(answer.Data.Result) == 0 {
		return "", err
	}
	return fmt.Sprint(answer.Data.Result[0].Value[1]), nil
}

// Source returns the configuration of the source "prom".
func (l *Load) Source() string {
	return fmt.Sprintf("[sources.prom]\nkind = \"prometheus\"\nurl = %q\n", l.url)
}

// Queued returns the configuration of an autoscaler that requires one instance per 10 entries in
// the queue of the same name. Its scale-down window is 2 s.
func Queued(name, target string, minimum, maximum int) string {
	return fmt.Sprintf(`
[autoscalers.%[1]s]
target       = %[4]s
min_replicas = %[2]d
max_replicas = %[3]d
[[autoscalers.%[1]s.metrics]]
type          = "External"
name          = "queue"
source        = "prom"
query         = 'queue{of=%[1]q}'
average_value = "10"
[autoscalers.%[1]s.behavior.scale_down]
stabilization_window = "2s"
`, name, minimum, maximum, target)
}
