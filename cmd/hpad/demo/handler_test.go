package demo

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		queue, registry := testQueue()
		handler := NewHandler(queue, registry)
		ask := func(method, target string) *httptest.ResponseRecorder {
			recorder := httptest.NewRecorder()
			handler.ServeHTTP(recorder, httptest.NewRequestWithContext(t.Context(), method, target, http.NoBody))
			return recorder
		}

		begun := time.Now()
		if got := ask(http.MethodPost, nextPath); got.Code != http.StatusNoContent || time.Since(begun) != pollWait {
			t.Errorf("an empty queue answers %d after %v, want 204 after %v", got.Code, time.Since(begun), pollWait)
		}
		queue.Put(2)
		var job Job
		if err := json.Unmarshal(ask(http.MethodPost, nextPath).Body.Bytes(), &job); err != nil || job.ID != 1 {
			t.Errorf("job = %+v, %v, want number 1", job, err)
		}
		for target, want := range map[string]int{
			donePath + "?id=1": http.StatusNoContent, donePath + "?id=1&again": http.StatusNoContent,
			donePath: http.StatusBadRequest, donePath + "?id=-1": http.StatusBadRequest,
		} {
			if got := ask(http.MethodPost, target).Code; got != want {
				t.Errorf("%s answers %d, want %d", target, got, want)
			}
		}
		if got := ask(http.MethodGet, nextPath).Code; got != http.StatusMethodNotAllowed {
			t.Errorf("GET %s answers %d, want 405: a job must not go to somebody who only looks", nextPath, got)
		}
		page := ask(http.MethodGet, "/metrics").Body.String()
		for _, line := range []string{
			"demo_queue_waiting 1", "demo_queue_running 0", "demo_jobs_arrived_total 2", "demo_jobs_done_total 1",
			"demo_queue_wait_seconds_count 1",
		} {
			if !strings.Contains(page, line+"\n") {
				t.Errorf("/metrics lacks %q:\n%s", line, page)
			}
		}
	})
}
