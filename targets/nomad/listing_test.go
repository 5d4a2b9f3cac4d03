package nomad

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hpad/hpad/targets"
)

// listedBy makes the scheduler of an imitation idle and gives its job "web" such
// allocations.
func listedBy(i *imitation, allocs ...*imitatedAlloc) {
	i.mu.Lock()
	i.lazy = true
	i.mu.Unlock()
	i.change("web", func(job *imitatedJob) {
		for n, alloc := range allocs {
			alloc.number, alloc.created, alloc.started = n, time.Now(), time.Now()
			job.allocs = append(job.allocs, alloc)
		}
	})
}

// TestListsNamed: the lists are of the jobs in use while these are few enough for a
// URL, and of the whole namespace beyond.
func TestListsNamed(t *testing.T) {
	i := newImitation(t)
	var refs []targets.Ref
	for n := range maxFiltered + 1 {
		id := fmt.Sprintf("job-%d", n)
		i.add(id, 1).deployment = "Deployment is running"
		refs = append(refs, ref(id+"/app"))
	}
	i.add("other", 1).deployment = "Deployment is running"
	f := newFleet(t, i)
	for count, want := range map[int]int{1: 1, maxFiltered: maxFiltered, maxFiltered + 1: maxFiltered + 2} {
		readings, err := f.Snapshot(t.Context(), refs[:count])
		if err != nil || len(readings) != count || readings[refs[0]].StatusReplicas != 1 {
			t.Fatalf("Snapshot() of %d jobs = %v, %v", count, readings, err)
		}
		for _, list := range []string{"/v1/jobs", "/v1/allocations", "/v1/deployments"} {
			if i.listed[list] != want {
				t.Errorf("%s listed %d entries for %d jobs, want %d", list, i.listed[list], count, want)
			}
			if named := strings.Contains(i.filters[list], "ID == "); named != (count <= maxFiltered) {
				t.Errorf("%s for %d jobs is filtered by %q", list, count, i.filters[list])
			}
		}
	}
}

// TestStopped: of a job that was stopped no instance counts, also before Nomad's
// scheduler got to it, and also where it was stopped, or run again, between the two
// calls of a reading.
func TestStopped(t *testing.T) {
	stop := func(i *imitation, stopped bool) {
		i.change("web", func(job *imitatedJob) { job.stopped = stopped })
	}
	for name, prepare := range map[string]func(i *imitation){
		"stopped": func(i *imitation) { stop(i, true) },
		"stopped after the list": func(i *imitation) {
			i.rival.Before(func() { stop(i, true) }, "GET /v1/job/web")
		},
		"run again after the list": func(i *imitation) {
			stop(i, true)
			i.rival.Before(func() { stop(i, false) }, "GET /v1/job/web")
		},
	} {
		t.Run(name, func(t *testing.T) {
			i := newImitation(t)
			i.add("web", 3)
			listedBy(i)
			prepare(i)
			reading := readOne(t, newFleet(t, i), "web/app")
			if reading.Hold == nil || reading.Hold.Reason != JobStopped {
				t.Errorf("hold %+v, want %s", reading.Hold, JobStopped)
			}
			if reading.SpecReplicas != 3 || reading.StatusReplicas != 0 || len(reading.Instances) != 3 {
				t.Errorf("spec %d, status %d of %d instances, want 3, 0 of 3", reading.SpecReplicas, reading.StatusReplicas, len(reading.Instances))
			}
			for _, instance := range reading.Instances {
				if !instance.Deleting {
					t.Errorf("instance %s of a stopped job is not leaving", instance.ID)
				}
			}
		})
	}
}
