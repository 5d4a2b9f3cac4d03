package e2e

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/test/prometheus/promtest"
)

// TestCauses gives an autoscaler one reason after the other to fail, by a server
// that is gone, a query that has a mistake, and one whose result is no number. Log,
// history and problems follow the cause, and blame whom it is about.
func TestCauses(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	server := promtest.Start(t, w.scrape())
	s := setup{Prometheus: server.URL}
	w.configure(s)
	h := w.start()
	w.awaitWorkers(1)
	awaitSeen(t, server, "max(worker_queue_length)", 10)
	h.awaitView("it is evaluated", 10*time.Second, func(view api.Autoscaler) bool { return view.Evaluation.Error == "" })

	fails := func(what, cause string) {
		t.Helper()
		h.awaitView(what, 20*time.Second, func(view api.Autoscaler) bool {
			return strings.Contains(view.Evaluation.Error, cause) && !view.Evaluation.Since.IsZero()
		})
		h.awaitSaid(cause)
	}
	query := func(text string) {
		t.Helper()
		s.Metrics = strings.ReplaceAll(queueMetric, "max(worker_queue_length)", text)
		w.configure(s)
		if got := w.hpad("reload"); got.code != 0 {
			t.Fatalf("hpad reload ended with %d and said %q", got.code, got.err)
		}
	}
	server.Stop()
	fails("the server is gone", "connection refused")
	server.Restart()
	h.awaitView("it works again", 20*time.Second, func(view api.Autoscaler) bool { return view.Evaluation.Error == "" })
	outages := strings.Count(h.said(), "source does not answer")

	query("max(worker_queue_length")
	fails("the query has a mistake", "server answered 400 Bad Request: bad_data: ")
	if _, body, err := h.request(http.MethodGet, "/-/ready"); err != nil || strings.Contains(body, `"subject":"source prom"`) || !strings.Contains(body, `"subject":"autoscaler worker"`) {
		t.Errorf("/-/ready says %s, %v; want the autoscaler and not the source", body, err)
	}
	w.wantSaid([]string{"get"}, "PROBLEM", "parse error")
	query("max(worker_queue_length) * NaN")
	fails("the answer is no number", "value is not a number (NaN)")
	if got := strings.Count(h.said(), "source does not answer"); got != outages || outages == 0 {
		t.Errorf("the log tells %d times that the source does not answer, %d of them of an outage", got, outages)
	}

	got := w.hpad("history", "worker", "-o", "json")
	var entries []api.Recorded
	if err := json.Unmarshal([]byte(got.out), &entries); err != nil {
		t.Fatalf("hpad history: %v in %s%s", err, got.out, got.err)
	}
	want := []string{"connection refused", "400 Bad Request", "not a number"}
	for _, entry := range entries {
		if len(want) > 0 && strings.Contains(entry.Error, want[0]) && !entry.Since.After(entry.Time) {
			want = want[1:]
		}
	}
	if len(want) > 0 {
		t.Errorf("the history has no entry of %q in its place:\n%s", want, got.out)
	}
	h.end()
	w.noneLeft()
}
