package demo

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Queue holds jobs until workers take them, oldest first. A job has no content; the queue
// stores only its arrival. Create one with NewQueue. Its methods may be called concurrently.
type Queue struct {
	wait prometheus.Histogram

	mu sync.Mutex
	// waiting has the arrival times of the waiting jobs.
	waiting []time.Time
	stats   Stats
	// arrived is closed and replaced when jobs arrive.
	arrived chan struct{}
}

// Stats counts the jobs of a queue since its start.
type Stats struct {
	Arrived, Taken, Waiting int
	// Waited is the sum of the waiting times of all taken jobs, LongestWait the longest.
	Waited, LongestWait time.Duration
}

// NewQueue returns an empty queue and registers its metrics.
func NewQueue(registry prometheus.Registerer) *Queue {
	q := &Queue{
		wait: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "demo_queue_wait_seconds", Help: "Time from the arrival of a job until a worker takes it.",
			Buckets: []float64{.01, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
		}),
		arrived: make(chan struct{}),
	}
	registry.MustRegister(q.wait,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "demo_queue_waiting", Help: "Jobs that wait for a worker."},
			func() float64 { return float64(q.Stats().Waiting) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "demo_jobs_arrived_total", Help: "Jobs that arrived in the queue."},
			func() float64 { return float64(q.Stats().Arrived) }),
	)
	return q
}

// Stats returns the current counts.
func (q *Queue) Stats() Stats {
	q.mu.Lock()
	defer q.mu.Unlock()
	stats := q.stats
	stats.Waiting = len(q.waiting)
	return stats
}

// Put adds n jobs.
func (q *Queue) Put(n int) {
	if n <= 0 {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now()
	for range n {
		q.waiting = append(q.waiting, now)
	}
	q.stats.Arrived += n
	close(q.arrived)
	q.arrived = make(chan struct{})
}

// Take removes the oldest job. It waits for a job until ctx ends, and returns false if there
// is none by then.
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

// tryTake removes the oldest job. If the queue is empty, it returns a channel that is closed
// when jobs arrive.
func (q *Queue) tryTake() (bool, <-chan struct{}) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) == 0 {
		return false, q.arrived
	}
	waited := time.Since(q.waiting[0])
	q.waiting = q.waiting[1:]
	q.stats.Taken++
	q.stats.Waited += waited
	q.stats.LongestWait = max(q.stats.LongestWait, waited)
	q.wait.Observe(waited.Seconds())
	return true, nil
}
