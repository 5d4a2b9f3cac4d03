package e2e

import (
	"regexp"
	"strings"
	"testing"

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

// TestMetrics lints /metrics.
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
	if regexp.MustCompile(`="worker-\d`).MatchString(text) {
		t.Error("/metrics has an instance ID in a label")
	}
	w.Stop()
}
