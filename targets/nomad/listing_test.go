package nomad

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/test/wait"
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

// TestListsPresent: the lists have the allocations that are there, or that failed and
// have no successor, and the deployments that are under way, and no others of the many
// that Nomad remembers.
func TestListsPresent(t *testing.T) {
	i := newImitation(t)
	i.add("web", 0).ended = []string{"successful", "failed", "cancelled"}
	listedBy(i,
		&imitatedAlloc{id: "runs", desired: "run", client: "running"},
		&imitatedAlloc{id: "begins", desired: "run", client: "pending"},
		&imitatedAlloc{id: "silent", desired: "run", client: "unknown"},
		&imitatedAlloc{id: "stops", desired: "stop", client: "running", gone: time.Now().Add(time.Hour)},
		&imitatedAlloc{id: "failed", desired: "run", client: "failed"},
		&imitatedAlloc{id: "failed-replaced", desired: "run", client: "failed", next: "runs"},
		&imitatedAlloc{id: "failed-stopped", desired: "stop", client: "failed"},
		&imitatedAlloc{id: "complete", desired: "run", client: "complete"},
		&imitatedAlloc{id: "lost", desired: "stop", client: "lost"},
	)
	i.change("web", func(job *imitatedJob) { job.count = 3 })
	reading := readOne(t, newFleet(t, i), "web/app")
	seen := map[string]bool{}
	for _, instance := range reading.Instances {
		seen[instance.ID] = instance.Deleting
	}
	want := map[string]bool{"runs": false, "begins": false, "silent": false, "stops": true, "failed": false}
	if diff := cmp.Diff(want, seen); diff != "" || reading.StatusReplicas != 3 {
		t.Errorf("%d replicas, instances and whether they are leaving (-want +got):\n%s", reading.StatusReplicas, diff)
	}
	if reading.Hold != nil {
		t.Errorf("hold %+v by deployments that are over", reading.Hold)
	}
	if diff := cmp.Diff(map[string]int{"/v1/jobs": 1, "/v1/allocations": 5, "/v1/deployments": 0, "/v1/nodes": 1}, i.listed); diff != "" {
		t.Errorf("entries of the lists (-want +got):\n%s", diff)
	}
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

// TestJobUnread: a job that cannot be read, or is gone since the list, says so, and
// touches no other; one job is read once for all of its groups.
func TestJobUnread(t *testing.T) {
	i := newImitation(t)
	for _, id := range []string{"web", "shut", "gone"} {
		i.add(id, 1)
	}
	i.mu.Lock()
	i.forbidden["/v1/job/shut"] = true
	i.mu.Unlock()
	i.rival.Before(func() {
		i.mu.Lock()
		defer i.mu.Unlock()
		delete(i.jobs, "gone")
	}, "GET /v1/job/gone")
	f := newFleet(t, i)
	readings, err := f.Snapshot(t.Context(), []targets.Ref{ref("web/app"), ref("web/api"), ref("shut/app"), ref("gone/app"), {Fleet: "other", Name: "web/app"}})
	if err != nil {
		t.Fatal(err)
	}
	if r := readings[ref("web/app")]; r.Err != nil || r.SpecReplicas != 1 {
		t.Errorf("a job beside others: %d replicas, %v", r.SpecReplicas, r.Err)
	}
	for name, want := range map[targets.Ref]struct {
		class         error
		reason, words string
	}{
		ref("web/api"):                    {targets.ErrUnscalable, GroupNotFound, "api"},
		ref("shut/app"):                   {targets.ErrForbidden, "", `read job "shut"`},
		ref("gone/app"):                   {targets.ErrTargetNotFound, JobNotFound, `read job "gone"`},
		{Fleet: "other", Name: "web/app"}: {targets.ErrTargetNotFound, "", "another fleet"},
	} {
		got := readings[name].Err
		if !errors.Is(got, want.class) || targets.Reason(got) != want.reason || !strings.Contains(got.Error(), want.words) {
			t.Errorf("%s: Err = %v with reason %q, want %v, %q with %q", name, got, targets.Reason(got), want.class, want.reason, want.words)
		}
	}
	if calls := i.counted(); calls["/v1/job/web"] != 1 {
		t.Errorf("a job was read %d times for two groups, want once", calls["/v1/job/web"])
	}
}

// TestSampled: the use of allocations that run, and stay, is read.
func TestSampled(t *testing.T) {
	i := newImitation(t)
	i.add("web", 0)
	listedBy(i,
		&imitatedAlloc{id: "runs", desired: "run", client: "running"},
		&imitatedAlloc{id: "begins", desired: "run", client: "pending"},
		&imitatedAlloc{id: "goes", desired: "stop", client: "running", gone: far()},
	)
	i.change("web", func(job *imitatedJob) { job.count = 2 })
	f := newFleet(t, i)
	readOne(t, f, "web/app")
	i.counted()
	wait.Soon(t, "sample", func() bool {
		samples, err := f.Samples(t.Context(), []targets.Ref{ref("web/app")})
		return err == nil && len(samples[ref("web/app")].Instances) == 1
	})
	for path := range i.counted() {
		if path != "/v1/client/allocation/runs/stats" {
			t.Errorf("%s was asked for, want what runs alone", path)
		}
	}
}
