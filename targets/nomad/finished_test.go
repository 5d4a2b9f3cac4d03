package nomad

import (
	"errors"
	"testing"

	"github.com/hpad/hpad/targets"
)

// TestFinishedWork holds dead jobs, and batch jobs with finished work, and no others.
func TestFinishedWork(t *testing.T) {
	runs := func() *imitatedAlloc { return &imitatedAlloc{desired: "run", client: "running"} }
	complete := func() *imitatedAlloc { return &imitatedAlloc{desired: "run", client: "complete"} }
	for name, c := range map[string]struct {
		kind, status string
		count        int
		allocs       []*imitatedAlloc
		want         string
	}{
		"batch, all complete":                {"batch", "dead", 3, []*imitatedAlloc{complete(), complete(), complete()}, AllocationsComplete},
		"batch, some complete":               {"batch", "running", 3, []*imitatedAlloc{complete(), runs(), runs()}, AllocationsComplete},
		"batch, complete in another version": {"batch", "running", 2, []*imitatedAlloc{{desired: "run", client: "complete"}, {desired: "run", client: "running", version: 9}}, AllocationsComplete},
		"batch, none complete":               {"batch", "running", 2, []*imitatedAlloc{runs(), runs()}, ""},
		"batch, scaled in":                   {"batch", "running", 1, []*imitatedAlloc{runs(), {desired: "stop", client: "complete"}}, ""},
		"batch, some failed":                 {"batch", "running", 2, []*imitatedAlloc{runs(), {desired: "run", client: "failed"}}, ""},
		"batch, allocations collected":       {"batch", "dead", 3, nil, JobDead},
		"batch, all failed":                  {"batch", "dead", 1, []*imitatedAlloc{{desired: "run", client: "failed"}}, JobDead},
		"batch, scaled to zero":              {"batch", "dead", 0, []*imitatedAlloc{{desired: "stop", client: "complete"}}, ""},
		"service, some complete":             {"service", "running", 2, []*imitatedAlloc{complete(), runs()}, ""},
		"service, all complete":              {"service", "dead", 2, []*imitatedAlloc{complete(), complete()}, JobDead},
		"service, all failed":                {"service", "dead", 1, []*imitatedAlloc{{desired: "run", client: "failed"}}, JobDead},
		"service, scaled to zero":            {"service", "dead", 0, []*imitatedAlloc{{desired: "stop", client: "complete"}}, ""},
		"service, not placed":                {"service", "pending", 2, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			i := newImitation(t)
			i.add("web", 0)
			listedBy(i, c.allocs...)
			i.change("web", func(job *imitatedJob) { job.kind, job.status, job.count = c.kind, c.status, c.count })
			f := newFleet(t, i)
			reading := readOne(t, f, "web/app")
			got := ""
			if reading.Hold != nil {
				got = reading.Hold.Reason
			}
			if got != c.want || int(reading.SpecReplicas) != c.count {
				t.Errorf("count %d, hold %+v, want %d and %q", reading.SpecReplicas, reading.Hold, c.count, c.want)
			}
			if err := f.SetReplicas(t.Context(), ref("web/app"), 5, reading.Version, "test"); errors.Is(err, targets.ErrHeld) != (c.want == AllocationsComplete) {
				t.Errorf("SetReplicas() = %v", err)
			}
		})
	}
}

// TestFinishesBeforeWrite holds a write if work finishes after the reading, and lists the
// allocations only when the job changed.
func TestFinishesBeforeWrite(t *testing.T) {
	i := newImitation(t)
	i.add("web", 0).kind = "batch"
	listedBy(i, &imitatedAlloc{id: "one0", desired: "run", client: "running"}, &imitatedAlloc{id: "two0", desired: "run", client: "running"})
	i.change("web", func(job *imitatedJob) { job.count = 2 })
	f := newFleet(t, i)
	reading := readOne(t, f, "web/app")
	i.mu.Lock()
	i.jobs["web"].allocs[0].client = "complete"
	i.mu.Unlock()
	err := f.SetReplicas(t.Context(), ref("web/app"), 5, reading.Version, "test")
	if held, ok := errors.AsType[*targets.HeldError](err); !ok || held.Hold.Reason != AllocationsComplete || len(i.scaled) != 0 {
		t.Errorf("SetReplicas() = %v after %d writes, want that it is held", err, len(i.scaled))
	}
	i.counted()
	for range 3 {
		if reading := readOne(t, f, "web/app"); reading.Hold == nil || reading.Hold.Reason != AllocationsComplete {
			t.Errorf("hold %+v", reading.Hold)
		}
	}
	if calls := i.counted()["/v1/job/web/allocations"]; calls != 1 {
		t.Errorf("the allocations were listed %d times, want once", calls)
	}
}
