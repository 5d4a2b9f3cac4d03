package e2e

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/hpad/hpad/test/internal/program"
	"github.com/hpad/hpad/test/internal/world"
)

// metrics returns the response of /metrics over TCP.
func (w *fixture) metrics() string {
	w.t.Helper()
	text, err := get(newClient(world.Patience), "http://"+w.listen+"/metrics")
	if err != nil {
		w.t.Fatal(err)
	}
	return text
}

// TestMetrics compares /metrics with docs/metrics.md and lints it.
func TestMetrics(t *testing.T) {
	t.Parallel()
	w := newFixture(t, program.Options{})
	w.load("queue_length", 20)
	w.start(setup{})
	w.awaitCount(2)
	text := w.metrics()
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
		t.Errorf("/metrics differs from docs/metrics.md (-docs +metrics):\n%s", diff)
	}
	if regexp.MustCompile(`="worker-\d`).MatchString(text) {
		t.Error("/metrics has an instance ID in a label")
	}
	w.Stop()
}

// names returns the distinct matches of the first group of pattern, sorted.
func names(text, pattern string) []string {
	found := map[string]bool{}
	for _, match := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
		found[match[1]] = true
	}
	return slices.Sorted(maps.Keys(found))
}
