package demo

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

func TestHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		registry := prometheus.NewRegistry()
		queue := NewQueue(registry)
		handler := NewHandler(queue, registry)
		call := func(method, target string) *httptest.ResponseRecorder {
			recorder := httptest.NewRecorder()
			handler.ServeHTTP(recorder, httptest.NewRequestWithContext(t.Context(), method, target, http.NoBody))
			return recorder
		}

		start := time.Now()
		if got := call(http.MethodPost, nextPath); got.Code != http.StatusNoContent || time.Since(start) != pollWait {
			t.Errorf("an empty queue returns %d after %v, want 204 after %v", got.Code, time.Since(start), pollWait)
		}
		queue.Put(2)
		if got := call(http.MethodPost, nextPath).Code; got != http.StatusOK {
			t.Errorf("a queue with jobs returns %d, want 200", got)
		}
		if got := call(http.MethodGet, nextPath).Code; got != http.StatusMethodNotAllowed {
			t.Errorf("GET %s returns %d, want 405", nextPath, got)
		}
		page := call(http.MethodGet, "/metrics").Body.String()
		for _, line := range []string{"demo_queue_waiting 1", "demo_jobs_arrived_total 2", "demo_queue_wait_seconds_count 1"} {
			if !strings.Contains(page, line+"\n") {
				t.Errorf("/metrics lacks %q:\n%s", line, page)
			}
		}
	})
}
