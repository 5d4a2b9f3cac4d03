package e2e

import (
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
)

// metrics returns the response of /metrics over TCP.
func (h *hpad) metrics() string {
	h.w.t.Helper()
	status, text, err := h.request(http.MethodGet, "http://"+h.w.listen+"/metrics")
	if err != nil || status != http.StatusOK {
		h.w.t.Fatalf("/metrics answers %d, %v: %s", status, err, text)
	}
	return text
}

// TestMetrics compares /metrics with docs/metrics.md and lints it.
func TestMetrics(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.configure(setup{})
	w.load("queue_length", 20)
	h := w.start()
	h.awaitCount(2, 20*time.Second)
	text := h.metrics()
	problems, err := promlint.New(strings.NewReader(text)).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, problem := range problems {
		t.Errorf("%s: %s", problem.Metric, problem.Text)
	}
	page, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	shown := names(text, `(?m)^# TYPE (hpad_\w+) `)
	described := names(string(page), "(?m)^\\| `(hpad_\\w+)` \\|")
	// The process fleet has no discovery, no rate limit and no breaker, and the configuration
	// has no notifications, no pause and no cluster.
	described = slices.DeleteFunc(described, func(name string) bool {
		return name == "hpad_discovered_targets" || name == "hpad_autoscaler_paused_until_timestamp_seconds" ||
			regexp.MustCompile(`^hpad_(platform|fleet_breaker|notifications|cluster)_`).MatchString(name)
	})
	if diff := cmp.Diff(described, shown); diff != "" {
		t.Errorf("/metrics against docs/metrics.md (-docs +shown):\n%s", diff)
	}
	if regexp.MustCompile(`="worker-\d`).MatchString(text) {
		t.Error("/metrics has an instance's id in a label")
	}
	h.end()
	w.noneLeft()
}

// names returns the distinct matches of the first group of pattern, sorted.
func names(text, pattern string) []string {
	found := map[string]bool{}
	for _, match := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
		found[match[1]] = true
	}
	return slices.Sorted(maps.Keys(found))
}
