package demo

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// pollWait is how long a worker waits for a job until it asks again.
const pollWait = 2 * time.Second

// The paths of a queue that workers use.
const (
	nextPath = "/jobs/next"
	donePath = "/jobs/done"
)

// NewHandler returns the HTTP face of a queue: workers take jobs and report
// them done, and the metrics of the registry are at /metrics.
func NewHandler(queue *Queue, registry *prometheus.Registry) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("POST "+nextPath, func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), pollWait)
		defer cancel()
		job, ok := queue.Take(ctx)
		if !ok {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		// A worker that is gone by now does not do the job, and its lease ends.
		_ = json.NewEncoder(w).Encode(job)
	})
	mux.HandleFunc("POST "+donePath, func(w http.ResponseWriter, r *http.Request) {
		id, err := strconv.ParseUint(r.URL.Query().Get("id"), 10, 64)
		if err != nil {
			http.Error(w, "id is not the number of a job", http.StatusBadRequest)
			return
		}
		queue.Done(id)
		w.WriteHeader(http.StatusNoContent)
	})
	return mux
}
