package demo

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// What every job takes of a worker: so much time in all, and so much of it
// computing.
const (
	jobTime = 50 * time.Millisecond
	jobCPU  = 4 * time.Millisecond
)

// lease is how long a worker may have a job until it is given to another one:
// the first one has been killed.
const lease = 5 * time.Second

// Job is one piece of work.
type Job struct {
	ID uint64 `json:"id"`
	// TimeMillis is how long the job takes, CPUMillis how much of that is spent
	// computing; both in milliseconds.
	TimeMillis int64 `json:"time_ms"`
	CPUMillis  int64 `json:"cpu_ms"`
}

// Queue holds jobs until workers take them, oldest first. Make one with
// NewQueue.
type Queue struct {
	metrics queueMetrics
	now     func() time.Time

	mu      sync.Mutex
	stats   Stats
	lastID  uint64
	waiting []waitingJob
	running map[uint64]runningJob
	// arrived is closed and replaced when there are jobs again.
	arrived chan struct{}
}

type waitingJob struct {
	job   Job
	since time.Time
}

type runningJob struct {
	waitingJob
	until time.Time
}

// Stats are what a queue has seen so far.
type Stats struct {
	// Arrived and Done count jobs; Waiting and Running are those not done yet.
	Arrived, Done, Waiting, Running int
	// Waited is the time that jobs waited until a worker took them, all together;
	// LongestWait that of one. Taken counts those jobs.
	Taken       int
	Waited      time.Duration
	LongestWait time.Duration
	// Worked is the time that workers had the jobs in hand that are done.
	Worked time.Duration
}

type queueMetrics struct {
	arrived, done prometheus.Counter
	wait          prometheus.Histogram
}

// NewQueue makes an empty queue and registers its metrics.
func NewQueue(registry prometheus.Registerer) *Queue {
	q := &Queue{
		metrics: queueMetrics{
			arrived: prometheus.NewCounter(prometheus.CounterOpts{Name: "demo_jobs_arrived_total", Help: "Jobs put into the queue."}),
			done:    prometheus.NewCounter(prometheus.CounterOpts{Name: "demo_jobs_done_total", Help: "Jobs that workers have done."}),
			wait: prometheus.NewHistogram(prometheus.HistogramOpts{
				Name: "demo_queue_wait_seconds", Help: "How long jobs waited until a worker took them.",
				Buckets: []float64{.01, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
			}),
		},
		now:     time.Now,
		running: map[uint64]runningJob{},
		arrived: make(chan struct{}),
	}
	gauge := func(name, help string, value func(Stats) int) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 { return float64(value(q.Stats())) })
	}
	registry.MustRegister(q.metrics.arrived, q.metrics.done, q.metrics.wait,
		gauge("demo_queue_waiting", "Jobs that wait for a worker.", func(s Stats) int { return s.Waiting }),
		gauge("demo_queue_running", "Jobs that a worker has in hand.", func(s Stats) int { return s.Running }),
	)
	return q
}

// Stats returns what the queue has seen so far.
func (q *Queue) Stats() Stats {
	q.mu.Lock()
	defer q.mu.Unlock()
	stats := q.stats
	stats.Waiting, stats.Running = len(q.waiting), len(q.running)
	return stats
}

// Put adds n jobs, and puts those of workers that are gone in front.
func (q *Queue) Put(n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := q.now()
	var lost []waitingJob
	for _, id := range slices.Sorted(maps.Keys(q.running)) {
		if running := q.running[id]; now.After(running.until) {
			delete(q.running, id)
			lost = append(lost, running.waitingJob)
		}
	}
	q.waiting = slices.Concat(lost, q.waiting)
	for range n {
		q.lastID++
		job := Job{ID: q.lastID, TimeMillis: jobTime.Milliseconds(), CPUMillis: jobCPU.Milliseconds()}
		q.waiting = append(q.waiting, waitingJob{job: job, since: now})
	}
	q.stats.Arrived += n
	q.metrics.arrived.Add(float64(n))
	if len(q.waiting) > 0 {
		close(q.arrived)
		q.arrived = make(chan struct{})
	}
}

// Take returns the oldest job and gives it to the caller for a while, waiting for
// one if need be. It returns false when ctx ends first.
func (q *Queue) Take(ctx context.Context) (Job, bool) {
	for {
		job, ok, arrived := q.first()
		if ok {
			return job, true
		}
		select {
		case <-arrived:
		case <-ctx.Done():
			return Job{}, false
		}
	}
}

// first gives the oldest job away. Without one it returns false, and what is closed
// when there are jobs again.
func (q *Queue) first() (Job, bool, <-chan struct{}) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) == 0 {
		return Job{}, false, q.arrived
	}
	first, now := q.waiting[0], q.now()
	q.waiting = q.waiting[1:]
	q.running[first.job.ID] = runningJob{waitingJob: first, until: now.Add(lease)}
	waited := now.Sub(first.since)
	q.stats.Taken++
	q.stats.Waited += waited
	q.stats.LongestWait = max(q.stats.LongestWait, waited)
	q.metrics.wait.Observe(waited.Seconds())
	return first.job, true, nil
}

// Done counts a job as done. One that nobody has in hand is ignored: it was
// given to another worker, which may have done it already.
func (q *Queue) Done(id uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	running, ok := q.running[id]
	if !ok {
		return
	}
	q.stats.Worked += q.now().Sub(running.until.Add(-lease))
	delete(q.running, id)
	q.stats.Done++
	q.metrics.done.Inc()
}
