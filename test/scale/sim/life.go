package sim

import (
	"slices"
	"sort"
	"strings"
	"time"
)

// scale changes the count of a job and schedules the effects that the change has in a real cluster:
// new allocations start, surplus allocations stop, and a deployment waits until its allocations are
// healthy. The caller holds mu.
func (w *World) scale(number, count int, message string, meta []byte) (specIndex uint64, eval string) {
	now := time.Now()
	w.writes++
	if l := &w.loads[number]; l.pending && l.now == count*PerInstance {
		w.reactions = append(w.reactions, now.Sub(l.changed))
		l.pending = false
	}
	w.index++
	specIndex, eval = w.index, w.uuid()
	w.alter(number, func(j *job) {
		j.scalings = append([]scaling{{time: now, count: count, previous: j.count, message: message, meta: meta, eval: eval, index: w.index}}, j.scalings[:min(len(j.scalings), 19)]...)
		j.count, j.specIndex, j.index = count, w.index, w.index
		j.version++
	})
	w.touched(number, jobsTable)
	w.after(placing, func() { w.place(number, eval) })
	return specIndex, eval
}

// alter replaces a job with a changed copy. The caller holds mu.
func (w *World) alter(number int, change func(*job)) {
	j := *w.jobs[number]
	change(&j)
	w.jobs[number] = &j
}

// put replaces the allocation with the same ID, or inserts a new one. The caller holds mu.
func (w *World) put(a *alloc) {
	at, there := w.find(a.id)
	if there {
		w.allocs[at] = a
		return
	}
	w.allocs = slices.Insert(w.allocs, at, a)
}

func (w *World) find(id string) (at int, there bool) {
	return sort.Find(len(w.allocs), func(n int) int { return strings.Compare(id, w.allocs[n].id) })
}

// place simulates the scheduler. All allocations that it changes get the same index, as in a Nomad
// plan.
func (w *World) place(number int, eval string) {
	now := time.Now()
	w.index++
	made := false
	w.alter(number, func(j *job) {
		j.allocs = slices.Clone(j.allocs)
		taken := map[int]bool{}
		for n, old := range j.allocs {
			if old.desired != "run" {
				continue
			}
			a := *old
			if a.number < j.count {
				taken[a.number] = true
				a.version, a.healthIndex = j.version, 0
			} else {
				a.desired = "stop"
			}
			a.index, a.modified = w.index, now
			j.allocs[n] = &a
			w.put(&a)
		}
		for n := range j.count {
			if taken[n] {
				continue
			}
			made = true
			a := &alloc{
				id: w.uuid(), eval: eval, jobID: j.id, job: number, number: n, node: (number + n*7) % nodes, version: j.version, desired: "run", client: "pending",
				createIndex: w.index, index: w.index, created: now, modified: now,
			}
			j.allocs = append(j.allocs, a)
			w.put(a)
		}
		j.deployment = deployment{
			id: w.uuid(), status: "running", version: j.version, createIndex: w.index, specIndex: j.specIndex, index: w.index, created: now, total: j.count, placed: j.count,
		}
		if made {
			j.summaryIndex = w.index
		}
	})
	w.touched(number, allocsTable, deploymentsTable)
	if made {
		w.touched(number, summariesTable)
		w.after(receiving, func() { w.advance(number, true, isPending, func(a *alloc) { a.client, a.tasks = "running", received }) })
		w.after(starting, func() {
			w.advance(number, false, isReceived, func(a *alloc) { a.tasks, a.started = running, a.modified })
		})
	}
	w.after(stopping, func() {
		w.advance(number, true, isStopping, func(a *alloc) { a.client, a.tasks, a.ended = "complete", ended, a.modified })
	})
	w.after(healthy, func() { w.report(number) })
	w.after(concluding, func() { w.conclude(number) })
	w.after(collecting, func() { w.collect(number) })
}

func isPending(a *alloc) bool { return a.client == "pending" }

func isReceived(a *alloc) bool { return a.client == "running" && a.tasks == received }

func isStopping(a *alloc) bool { return a.client == "running" && a.desired == "stop" }

// advance updates the task states of the selected allocations. If summary is true, it also updates
// the job summary.
func (w *World) advance(number int, summary bool, which func(*alloc) bool, change func(*alloc)) {
	if !slices.ContainsFunc(w.jobs[number].allocs, which) {
		return
	}
	now := time.Now()
	w.index++
	w.alter(number, func(j *job) {
		j.allocs = slices.Clone(j.allocs)
		for n, old := range j.allocs {
			if !which(old) {
				continue
			}
			a := *old
			a.index, a.modified = w.index, now
			change(&a)
			j.allocs[n] = &a
			w.put(&a)
		}
		if summary {
			j.summaryIndex = w.index
		}
	})
	w.touched(number, allocsTable)
	if summary {
		w.touched(number, summariesTable)
	}
}

// report marks the running allocations of a job and its deployment as healthy.
func (w *World) report(number int) {
	w.advance(number, false, func(a *alloc) bool { return a.desired == "run" && a.tasks == running && a.healthIndex == 0 }, func(a *alloc) {
		a.healthIndex, a.healthTime = w.index, a.modified
	})
	w.alter(number, func(j *job) { j.deployment.healthy, j.deployment.index = j.deployment.total, w.index })
	w.touched(number, deploymentsTable)
}

func (w *World) conclude(number int) {
	w.index++
	w.alter(number, func(j *job) { j.deployment.status, j.deployment.index = "successful", w.index })
	w.touched(number, deploymentsTable)
}

// collect removes stopped allocations.
func (w *World) collect(number int) {
	w.index++
	w.alter(number, func(j *job) {
		j.allocs = slices.DeleteFunc(slices.Clone(j.allocs), func(a *alloc) bool {
			if a.client != "complete" {
				return false
			}
			if at, there := w.find(a.id); there {
				w.allocs = slices.Delete(w.allocs, at, at+1)
			}
			return true
		})
	})
	w.touched(number, allocsTable)
}
