// Package sim simulates a Nomad cluster and a Prometheus server that exports the loads of its
// jobs. It implements the parts of both APIs that hpad and nomad-autoscaler use. Responses have a
// realistic size. Unknown requests are rejected.
package sim

import (
	"container/heap"
	"context"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"
)

// Options contains the parameters of a world.
type Options struct {
	// Jobs is the number of jobs. Each job has one group with one task.
	Jobs int
	// Single gives each job one allocation. Otherwise, jobs have 1 to 20 allocations, 5 on
	// average.
	Single bool
	// Changes is the number of load changes per second. Each change requires a different count.
	Changes float64
	// Period is the evaluation interval of nomad-autoscaler's policies.
	Period time.Duration
}

// PerInstance is the target load per instance.
const PerInstance = 10

// maxCount is the maximum count of the jobs' scaling policies.
const maxCount = 20

// stride is the distance of jobs that change one after the other, so that consecutive changes affect
// jobs with different counts. It is prime, so that every job changes.
const stride = 7919

// counts are the initial counts of jobs, in rotation: 1 to 20, 5 on average.
var counts = [...]int{1, 2, 20, 3, 4, 1, 5, 2, 6, 3, 7, 4, 1, 5, 9, 2, 3, 13, 4, 5}

// Delays after a count changes, as measured on an idle agent, plus one second for starting a task.
const (
	placing    = 50 * time.Millisecond
	receiving  = 400 * time.Millisecond
	starting   = time.Second
	stopping   = 500 * time.Millisecond
	healthy    = 2 * time.Second
	concluding = 3 * time.Second
	collecting = 2 * time.Minute
)

// Tables of Nomad's state store, each of which has its own index.
const (
	jobsTable = iota
	summariesTable
	allocsTable
	deploymentsTable
	policiesTable
	nodesTable
	tables
)

// nodes is the number of nodes in the cluster.
const nodes = 50

// World is a simulated cluster with the loads of its jobs. It is safe for concurrent use.
type World struct {
	options Options
	begun   time.Time
	random  *rand.ChaCha8

	mu    sync.RWMutex
	index uint64
	table [tables]uint64
	// watched maps tables and jobs to channels that are closed when the table, the job or its
	// children change.
	watched map[watched]chan struct{}
	// jobs is indexed by job number. allocs is sorted by ID. Jobs and allocations are immutable: a
	// change replaces them.
	jobs   []*job
	allocs []*alloc
	loads  []load
	due    timers
	wake   chan struct{}

	reactions []time.Duration
	writes    int
	// calm is true if the load changes have been stopped.
	calm bool
}

// watched identifies a table, or a job if table is -1.
type watched struct{ table, job int }

type load struct {
	now, before int
	changed     time.Time
	// pending is true while the job's count does not match its load.
	pending bool
}

type job struct {
	number      int
	id          string
	count       int
	base        int
	createIndex uint64
	// specIndex is the job's JobModifyIndex.
	specIndex, index, summaryIndex uint64
	version                        int
	submitted                      time.Time
	allocs                         []*alloc
	deployment                     deployment
	scalings                       []scaling
}

type deployment struct {
	id, status         string
	version            int
	createIndex, index uint64
	// specIndex is the job's specIndex when the deployment started.
	specIndex     uint64
	created       time.Time
	total, placed int
	healthy       int
}

type scaling struct {
	time     time.Time
	count    int
	previous int
	message  string
	meta     []byte
	eval     string
	index    uint64
}

type alloc struct {
	id, eval    string
	jobID       string
	job, number int
	node        int
	version     int
	desired     string
	client      string
	// healthIndex is the index at which the health was reported; 0 means not reported.
	healthIndex        uint64
	healthTime         time.Time
	createIndex, index uint64
	created, modified  time.Time
	// tasks is the progress of the task, which is also the number of its events.
	tasks   int
	started time.Time
	ended   time.Time
}

// Values of alloc.tasks.
const (
	unreceived = 0
	received   = 2
	running    = 3
	ended      = 6
)

type timer struct {
	at time.Time
	do func()
}

type timers []timer

func (t timers) Len() int           { return len(t) }
func (t timers) Less(i, j int) bool { return t[i].at.Before(t[j].at) }
func (t timers) Swap(i, j int)      { t[i], t[j] = t[j], t[i] }
func (t *timers) Push(x any)        { *t = append(*t, x.(timer)) }
func (t *timers) Pop() any {
	last := (*t)[len(*t)-1]
	*t = (*t)[:len(*t)-1]
	return last
}

// New returns a world whose jobs have been running for an hour.
func New(options Options) *World {
	now := time.Now()
	w := &World{
		options: options, begun: now, index: 1000, random: rand.NewChaCha8([32]byte{1}),
		watched: map[watched]chan struct{}{}, wake: make(chan struct{}, 1), loads: make([]load, options.Jobs),
	}
	long := now.Add(-time.Hour)
	for number := range options.Jobs {
		base := counts[number%len(counts)]
		if options.Single {
			base = 1
		}
		j := &job{number: number, id: JobID(number), count: base, base: base, submitted: long}
		w.index++
		j.createIndex, j.specIndex = w.index, w.index
		j.deployment = deployment{id: w.uuid(), status: "successful", createIndex: w.index, specIndex: w.index, created: long, total: base, placed: base, healthy: base}
		for n := range base {
			w.index++
			j.allocs = append(j.allocs, &alloc{
				id: w.uuid(), eval: w.uuid(), jobID: j.id, job: number, number: n, node: (number + n*7) % nodes, desired: "run", client: "running", createIndex: w.index, index: w.index,
				healthIndex: w.index, healthTime: long, created: long, modified: long, tasks: running, started: long,
			})
		}
		w.index++
		j.index, j.summaryIndex, j.deployment.index = w.index, w.index, w.index
		w.jobs = append(w.jobs, j)
		w.allocs = append(w.allocs, j.allocs...)
		w.loads[number] = load{now: base * PerInstance, before: base * PerInstance, changed: long}
	}
	slices.SortFunc(w.allocs, func(a, b *alloc) int { return strings.Compare(a.id, b.id) })
	for n := range w.table {
		w.table[n] = w.index
	}
	return w
}

// JobID returns the ID of a job.
func JobID(number int) string { return fmt.Sprintf("shop-%06d", number) }

// Base returns the initial count of a job if Single is false.
func Base(number int) int { return counts[number%len(counts)] }

// uuid returns a new ID. The caller holds mu or has exclusive access.
func (w *World) uuid() string {
	var raw [16]byte
	_, _ = w.random.Read(raw[:])
	text := hex.EncodeToString(raw[:])
	return text[:8] + "-" + text[8:12] + "-" + text[12:16] + "-" + text[16:20] + "-" + text[20:]
}

// Run processes timers and load changes until ctx ends.
func (w *World) Run(ctx context.Context) {
	if w.options.Changes > 0 {
		go w.change(ctx)
	}
	clock := time.NewTimer(time.Hour)
	defer clock.Stop()
	for {
		w.mu.Lock()
		for len(w.due) > 0 && !w.due[0].at.After(time.Now()) {
			heap.Pop(&w.due).(timer).do()
		}
		wait := time.Hour
		if len(w.due) > 0 {
			wait = time.Until(w.due[0].at)
		}
		w.mu.Unlock()
		clock.Reset(wait)
		select {
		case <-ctx.Done():
			return
		case <-clock.C:
		case <-w.wake:
		}
	}
}

// after schedules a call of do. The caller holds mu, and do is called with mu held.
func (w *World) after(wait time.Duration, do func()) {
	heap.Push(&w.due, timer{at: time.Now().Add(wait), do: do})
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// change changes the loads of one job after another, at random times, because regular changes would
// always have the same distance from the ticks of hpad.
func (w *World) change(ctx context.Context) {
	mean := time.Duration(float64(time.Second) / w.options.Changes)
	timer := time.NewTimer(rand.N(2 * mean))
	defer timer.Stop()
	for number := 0; ; number++ {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			timer.Reset(rand.N(2 * mean))
			w.mu.Lock()
			w.changeLoad(number * stride % len(w.jobs))
			w.mu.Unlock()
		}
	}
}

// changeLoad changes the load of a job between its base count and another count. The caller holds
// mu.
func (w *World) changeLoad(number int) {
	j := w.jobs[number]
	wanted := j.base
	if j.count == j.base {
		wanted = other(j.base)
	}
	w.want(number, wanted)
}

// want sets the load of a job so that it requires the given count, unless its previous change is
// still pending. The caller holds mu.
func (w *World) want(number, count int) {
	j, l := w.jobs[number], &w.loads[number]
	if w.calm || l.pending || j.deployment.status == "running" {
		return
	}
	*l = load{now: count * PerInstance, before: l.now, changed: time.Now(), pending: true}
}

// Burst changes the loads of the given number of jobs, evenly distributed over the given time. It
// doubles each load, or halves it if the count would exceed maxCount. Bursts with consecutive
// numbers affect different jobs.
func (w *World) Burst(ctx context.Context, number, jobs int, over time.Duration) {
	ticker := time.NewTicker(over / time.Duration(jobs))
	defer ticker.Stop()
	for i := range jobs {
		w.mu.Lock()
		which := (len(w.jobs)/2 + number*jobs + i) * stride % len(w.jobs)
		wanted := 2 * w.jobs[which].count
		if wanted > maxCount {
			wanted = w.jobs[which].count / 2
		}
		w.want(which, wanted)
		w.mu.Unlock()
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// other returns a count that differs from base by more than any tolerance: a lower count, or 2 if
// base is 1.
func other(base int) int {
	if base == 1 {
		return 2
	}
	return base - max(1, base/3)
}

// touched notifies the watchers of tables and of a job. The caller holds mu and has already
// increased the index.
func (w *World) touched(number int, changed ...int) {
	for _, table := range changed {
		w.table[table] = w.index
		w.notify(watched{table: table})
		if table == summariesTable { // the list of jobs contains the summaries
			w.notify(watched{table: jobsTable})
		}
	}
	w.notify(watched{table: -1, job: number})
}

func (w *World) notify(what watched) {
	if waiting := w.watched[what]; waiting != nil {
		close(waiting)
		delete(w.watched, what)
	}
}

// watch returns a channel that is closed at the next change. The caller holds mu.
func (w *World) watch(what watched) <-chan struct{} {
	waiting := w.watched[what]
	if waiting == nil {
		waiting = make(chan struct{})
		w.watched[what] = waiting
	}
	return waiting
}

// Reactions returns the delays from load changes to the matching writes and the number of writes,
// both since the previous call, and the number of jobs whose count does not match their load.
func (w *World) Reactions() (reactions []time.Duration, writes, waiting int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	reactions, writes = w.reactions, w.writes
	w.reactions, w.writes = nil, 0
	for _, l := range w.loads {
		if l.pending {
			waiting++
		}
	}
	return reactions, writes, waiting
}

// Load returns the current load of a job.
func (w *World) Load(number int) int {
	w.mu.RLock()
	defer w.mu.RUnlock()
	return w.loads[number].now
}

// Ask sets the load of a job so that it requires the given count.
func (w *World) Ask(number, count int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	l := &w.loads[number]
	*l = load{now: count * PerInstance, before: l.now, changed: time.Now(), pending: count != w.jobs[number].count}
}

// Calm stops the load changes.
func (w *World) Calm() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calm = true
}

// Truth is the actual state of a simulated job.
type Truth struct {
	// Wanted is the count that the load requires. Count is the current count.
	Wanted, Count int
	// Healthy is the number of running, healthy allocations. Others is the number of all other
	// allocations.
	Healthy, Others int
	// Deploying is true while a deployment is active.
	Deploying bool
}

// Truth returns the actual state of a job.
func (w *World) Truth(number int) Truth {
	w.mu.RLock()
	defer w.mu.RUnlock()
	j := w.jobs[number]
	t := Truth{Wanted: w.loads[number].now / PerInstance, Count: j.count, Deploying: j.deployment.status == "running"}
	for _, a := range j.allocs {
		switch {
		case a.client == "complete":
		case a.client == "running" && a.desired == "run" && a.healthIndex > 0:
			t.Healthy++
		default:
			t.Others++
		}
	}
	return t
}
