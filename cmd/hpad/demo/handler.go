package demo

import (
	"context"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// pollWait is the maximum time that a request waits for a job.
const pollWait = 2 * time.Second

// nextPath is the path at which workers take jobs. The response is 200 if there is a job,
// and 204 if there is none.
const nextPath = "/jobs/next"

// NewHandler serves a queue for workers, and the metrics of the registry at /metrics.
func NewHandler(queue *Queue, registry *prometheus.Registry) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("POST "+nextPath, func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), pollWait)
		defer cancel()
		if !queue.Take(ctx) {
			w.WriteHeader(http.StatusNoContent)
		}
	})
	return mux
}
