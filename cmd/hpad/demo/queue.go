package demo

import (
	"context"
	"math"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Queue counts the jobs that wait for a worker. Use NewQueue to create a Queue. It is safe for
// concurrent use.
type Queue struct {
	mu sync.Mutex
	// waiting is the number of jobs that no worker has taken. total is the number of all jobs.
	waiting, total int
	// arrived is closed and replaced when jobs arrive.
	arrived chan struct{}
}

// NewQueue returns an empty queue and registers its metrics.
func NewQueue(registry prometheus.Registerer) *Queue {
	q := &Queue{arrived: make(chan struct{})}
	registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "demo_queue_waiting", Help: "Jobs that wait for a worker."},
		func() float64 { waiting, _ := q.counts(); return float64(waiting) }))
	return q
}

func (q *Queue) counts() (waiting, total int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.waiting, q.total
}

// Put adds n jobs.
func (q *Queue) Put(n int) {
	if n <= 0 {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting, q.total = q.waiting+n, q.total+n
	close(q.arrived)
	q.arrived = make(chan struct{})
}

// Take removes a job. If the queue is empty, it waits for a job until ctx ends. It returns false if
// no job arrived.
func (q *Queue) Take(ctx context.Context) bool {
	for {
		ok, arrived := q.tryTake()
		if ok {
			return true
		}
		select {
		case <-arrived:
		case <-ctx.Done():
			return false
		}
	}
}

// tryTake removes a job and returns true. If the queue is empty, it returns a channel that is
// closed when jobs arrive.
func (q *Queue) tryTake() (bool, <-chan struct{}) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.waiting == 0 {
		return false, q.arrived
	}
	q.waiting--
	return true, nil
}

// pollWait is the maximum time that a request waits for a job.
const pollWait = 2 * time.Second

// nextPath is the URL path from which workers take jobs. The status is 200 if there is a job, and
// otherwise 204.
const nextPath = "/jobs/next"

// NewHandler serves a queue to workers, and the metrics of the registry at /metrics.
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

// MinDuration is the shortest duration in which a fleet can grow and shrink.
const MinDuration = 30 * time.Second

// The load varies between these rates, in jobs per second. A worker executes 20 jobs per second, so
// the target of 70% requires 1 to 8 workers.
const (
	lowRate  = 8
	highRate = 110
)

// The shape of the load, as fractions of its duration. The low load at the end lasts long enough
// for the fleet to shrink.
const (
	riseStart = 0.08
	riseEnd   = 0.25
	fallStart = 0.48
	fallEnd   = 0.62
)

// loadRate returns the load in jobs per second after an elapsed time.
func loadRate(elapsed, duration time.Duration) float64 {
	height, at := 0.0, float64(elapsed)/float64(duration)
	switch {
	case at <= riseStart || at >= fallEnd:
	case at < riseEnd:
		height = slope((at - riseStart) / (riseEnd - riseStart))
	case at <= fallStart:
		height = 1
	default:
		height = slope((fallEnd - at) / (fallEnd - fallStart))
	}
	return lowRate + (highRate-lowRate)*height
}

// slope rises smoothly from 0 to 1 while at rises from 0 to 1.
func slope(at float64) float64 { return (1 - math.Cos(math.Pi*at)) / 2 }

// loadOver reports whether the load has ended.
func loadOver(elapsed, duration time.Duration) bool {
	return float64(elapsed) >= fallEnd*float64(duration)
}

// putInterval is the interval at which jobs are added to the queue.
const putInterval = 20 * time.Millisecond

// drive adds jobs to the queue at the rate of the load until ctx ends.
func drive(ctx context.Context, queue *Queue, duration time.Duration) {
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
		due += loadRate(now.Sub(start), duration) * now.Sub(last).Seconds()
		last = now
		whole := math.Floor(due)
		queue.Put(int(whole))
		due -= whole
	}
}
