package demo

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

const (
	// jobTime is the duration of a job, so that a worker executes 20 jobs per second.
	jobTime = 50 * time.Millisecond
	// pollWait is the maximum time that a request waits for a job.
	pollWait = 2 * time.Second
	// putInterval is the time between two additions of jobs to the queue.
	putInterval = 20 * time.Millisecond
	// queueSize is more than the load of the demo in one hour. Further jobs are dropped.
	queueSize = 1 << 19
)

// queue contains the jobs that wait for a worker. Workers take jobs with "POST /next?worker=ID".
// The status is 200, or 204 without a job. "/metrics" serves the length of the queue and the time
// that each worker has spent on jobs. It is safe for concurrent use.
type queue struct {
	*http.ServeMux
	jobs chan struct{}
	// total is the number of all jobs.
	total atomic.Int64

	mu sync.Mutex
	// taken contains the times when workers took their last jobs.
	taken map[string]time.Time
	busy  *prometheus.CounterVec
}

func newQueue() *queue {
	q := &queue{
		ServeMux: http.NewServeMux(),
		jobs:     make(chan struct{}, queueSize),
		taken:    map[string]time.Time{},
		busy:     prometheus.NewCounterVec(prometheus.CounterOpts{Name: "demo_worker_busy_seconds_total", Help: "Time spent on jobs."}, []string{"instance_id"}),
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(q.busy, prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "demo_queue_waiting", Help: "Jobs that wait for a worker."},
		func() float64 { return float64(len(q.jobs)) }))
	q.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	q.HandleFunc("POST /next", q.next)
	return q
}

func (q *queue) next(w http.ResponseWriter, r *http.Request) {
	worker := r.FormValue("worker")
	q.count(worker, time.Time{})
	ctx, cancel := context.WithTimeout(r.Context(), pollWait)
	defer cancel()
	select {
	case <-q.jobs:
		q.count(worker, time.Now())
	case <-ctx.Done():
		w.WriteHeader(http.StatusNoContent)
	}
}

// count adds the time since a worker took its last job to its counter. taken is the time when it
// takes the next job, or zero.
func (q *queue) count(worker string, taken time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	busy := 0.0
	if before := q.taken[worker]; !before.IsZero() {
		busy = time.Since(before).Seconds()
	}
	q.taken[worker] = taken
	q.busy.WithLabelValues(worker).Add(busy)
}

// MinDuration is the minimum length of a demo in which the fleet grows and shrinks.
const MinDuration = 30 * time.Second

// The load varies between these rates, in jobs per second. With a target of 70%, it requires 1 to 8
// workers. It rises and falls between these fractions of its duration. The low load at the end lasts
// long enough for the fleet to shrink.
const (
	lowRate, highRate  = 8, 110
	riseStart, riseEnd = 0.08, 0.25
	fallStart, fallEnd = 0.48, 0.62
)

// loadRate returns the load in jobs per second at a fraction of its duration.
func loadRate(at float64) float64 {
	height := min((at-riseStart)/(riseEnd-riseStart), (fallEnd-at)/(fallEnd-fallStart))
	return lowRate + (highRate-lowRate)*max(0, min(1, height))
}

// drive adds jobs to the queue at the rate of the load until ctx ends.
func (q *queue) drive(ctx context.Context, duration time.Duration) {
	ticker := time.NewTicker(putInterval)
	defer ticker.Stop()
	start := time.Now()
	last, due := start, 0.0
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		now := time.Now()
		due += loadRate(float64(now.Sub(start))/float64(duration)) * now.Sub(last).Seconds()
		last = now
		for ; due >= 1; due-- {
			select {
			case q.jobs <- struct{}{}:
				q.total.Add(1)
			default:
			}
		}
	}
}

// Work takes jobs from the queue at a URL, such as "http://127.0.0.1:4729", and executes them one
// after another until ctx ends. It finishes the current job before it returns. It returns an error if
// the queue does not respond.
func Work(ctx context.Context, address, worker string) error {
	client := &http.Client{Timeout: pollWait + 3*time.Second, Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	for ctx.Err() == nil {
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, address+"/next?worker="+url.QueryEscape(worker), http.NoBody)
		if err != nil {
			return err
		}
		response, err := client.Do(request)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return err
		}
		_ = response.Body.Close()
		switch response.StatusCode {
		case http.StatusOK:
			time.Sleep(jobTime)
		case http.StatusNoContent:
		default:
			return fmt.Errorf("the queue returned %s", response.Status)
		}
	}
	return nil
}
