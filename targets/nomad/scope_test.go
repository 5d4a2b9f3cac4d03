package nomad

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-bexpr"

	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/targettest"
)

// rejector rejects some requests to a fake server, and counts the others.
type rejector struct {
	*fakeServer

	mu sync.Mutex
	// rejects reports whether a request is rejected; nil rejects no request.
	rejects func(r *http.Request) bool
	passed  map[string]int
}

func (g *rejector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	rejected := g.rejects != nil && g.rejects(r)
	if !rejected {
		g.passed[r.URL.Path+r.URL.Query().Get("next_token")]++
	}
	g.mu.Unlock()
	if rejected {
		http.Error(w, "No cluster leader", http.StatusInternalServerError)
		return
	}
	g.fakeServer.ServeHTTP(w, r)
}

func (g *rejector) reject(rejects func(r *http.Request) bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.rejects, g.passed = rejects, map[string]int{}
}

// newRejector returns a server that has the given number of jobs with two allocations each, a fleet
// with small pages, and the fleet's targets.
func newRejector(t *testing.T, jobs int) (*rejector, *Fleet, []targets.Ref) {
	t.Helper()
	g := &rejector{fakeServer: newFakeServer(t)}
	g.reject(nil)
	var refs []targets.Ref
	for n := range jobs {
		id := fmt.Sprintf("job-%03d", n)
		for _, alloc := range g.add(id, 2).allocs {
			alloc.started = time.Now().Add(-time.Hour) // Nomad no longer waits for its health
		}
		refs = append(refs, ref(id+"/app"))
	}
	f := openFleet(t, testConfig(t, newHandler(t, g.ServeHTTP)), &targettest.Store{})
	f.readLimits.page, f.readLimits.filter = 50, 20*len("job-000%7C")
	return g, f, refs
}

// count reads targets, and returns the number of readings without error.
func count(t *testing.T, f *Fleet, refs []targets.Ref) int {
	t.Helper()
	readings, err := f.Snapshot(t.Context(), refs)
	if err != nil {
		if !errors.Is(err, targets.ErrTransient) {
			t.Errorf("Snapshot() = %v, want ErrTransient", err)
		}
		return 0
	}
	read := 0
	for _, ref := range refs {
		switch reading := readings[ref]; {
		case reading.Err != nil && !errors.Is(reading.Err, targets.ErrTransient):
			t.Errorf("%s: %v, want ErrTransient", ref, reading.Err)
		case reading.Err == nil && reading.StatusReplicas == 2:
			read++
		}
	}
	return read
}

// TestPagesContinue checks that after the reading of all allocations was interrupted, the next
// round reads the remaining pages, and then the jobs that changed in the meantime.
func TestPagesContinue(t *testing.T) {
	g, f, refs := newRejector(t, 150)
	g.reject(func(r *http.Request) bool { return r.URL.Query().Get("next_token") > "8" })
	if read := count(t, f, refs); read != 0 {
		t.Errorf("targets read from a part of the allocations = %d", read)
	}
	before := g.passed
	g.reject(nil)
	g.change("job-007", func(job *fakeJob) { job.allocs[0].client = "failed" })
	if read := count(t, f, refs); read != 150-1 {
		t.Errorf("targets read with two replicas = %d, want all but one", read)
	}
	for page := range before {
		if strings.HasPrefix(page, "/v1/allocations") && page != "/v1/allocations" && g.passed[page] > 0 {
			t.Errorf("%s was read again", page)
		}
	}
	if g.passed["/v1/allocations"] == 0 {
		t.Errorf("the changed job was not read again: %v", g.passed)
	}
}

// TestRequests checks that the allocations of changed jobs are listed with filters, or with pages of
// all allocations if that takes fewer requests, and that no job or allocation needs its own list.
func TestRequests(t *testing.T) {
	g, f, refs := newRejector(t, 150)
	first, filtered := count(t, f, refs), 0
	for _, c := range []struct{ changed, lists, filtered int }{
		{changed: 1, lists: 1, filtered: 1},
		{changed: 60, lists: 3, filtered: 3},
		{changed: 140, lists: 7, filtered: 7},
		{changed: 150, lists: 6, filtered: 0}, // 300 allocations, 50 in a page
	} {
		for n := range c.changed {
			g.change(fmt.Sprintf("job-%03d", n), func(job *fakeJob) {
				for _, alloc := range job.allocs {
					alloc.id = fmt.Sprintf("%d-%s", c.changed, alloc.id) // replaced
				}
			})
		}
		g.counted()
		filtered = 0
		g.reject(func(r *http.Request) bool {
			if strings.HasPrefix(r.URL.Query().Get("filter"), "(JobID matches") && r.URL.Path == "/v1/allocations" {
				filtered++
			}
			return false
		})
		if read := count(t, f, refs); read != first || filtered != c.filtered {
			t.Errorf("%d changed jobs: targets read = %d with %d filtered lists, want %d with %d", c.changed, read, filtered, first, c.filtered)
		}
		calls := g.counted()
		for path, n := range calls {
			if want := map[string]int{"/v1/jobs": calls[path], "/v1/deployments": 1, "/v1/allocations": c.lists}[path]; n != want && !strings.HasPrefix(path, "/v1/job/job-") {
				t.Errorf("%d changed jobs: calls of %s = %d, want %d", c.changed, path, n, want)
			}
			if strings.HasSuffix(path, "/allocations") && path != "/v1/allocations" || strings.HasPrefix(path, "/v1/job/") && n > 1 {
				t.Errorf("%d changed jobs: calls of %s = %d", c.changed, path, n)
			}
		}
	}
}

// TestLimit checks that a read that reaches its limit returns the changed jobs that it has read
// completely, that only the others fail, and that the next read begins with those.
func TestLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := unserved(t)
		var refs []targets.Ref
		for n := range 100 {
			id := fmt.Sprintf("job-%03d", n)
			i.add(id, 1).allocs[0].started = time.Now().Add(-time.Hour)
			refs = append(refs, ref(id+"/app"))
		}
		var mu sync.Mutex
		var filters []string
		hangs := 0 // the number of the list that hangs
		open := newPiped(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			hang := false
			if r.URL.Path == "/v1/allocations" {
				mu.Lock()
				if !r.URL.Query().Has("next_token") {
					filters = append(filters, r.URL.Query().Get("filter"))
				}
				hang = len(filters) == hangs
				mu.Unlock()
			}
			if hang {
				<-r.Context().Done()
				return
			}
			i.ServeHTTP(w, r)
		}))
		f := open(readLimits{againAfter: time.Hour, page: 50, filter: 20 * len("job-000%7C")}, &targettest.Store{})
		snapshot := func(hanging int) map[targets.Ref]targets.Reading {
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			defer cancel()
			mu.Lock()
			filters, hangs = nil, hanging
			mu.Unlock()
			readings, err := f.Snapshot(ctx, refs)
			if err != nil {
				t.Fatal(err)
			}
			return readings
		}
		snapshot(0)
		time.Sleep(time.Minute)
		for n := range 60 {
			i.change(fmt.Sprintf("job-%03d", n), func(job *fakeJob) { job.count = 2 })
		}
		var failed []string
		for ref, reading := range snapshot(3) {
			id := jobOf(ref)
			switch changed := id < "job-060"; {
			case reading.Err != nil && changed && errors.Is(reading.Err, targets.ErrTransient):
				failed = append(failed, id)
			case reading.Err != nil || changed != (reading.SpecReplicas == 2 && reading.StatusReplicas == 2):
				t.Errorf("%s: %d of %d replicas, %v", ref, reading.StatusReplicas, reading.SpecReplicas, reading.Err)
			}
		}
		if len(failed) != 20 {
			t.Errorf("failed jobs = %d, want the 20 jobs of the third list", len(failed))
		}
		for ref, reading := range snapshot(0) {
			if reading.Err != nil {
				t.Errorf("%s: %v", ref, reading.Err)
			}
		}
		slices.Sort(failed)
		mu.Lock()
		defer mu.Unlock()
		if want := "(JobID matches `^(?:" + strings.Join(failed, "|") + ")$`) and"; !strings.HasPrefix(filters[0], want) {
			t.Errorf("first list of the next read has the filter %s, want %s", filters[0], want)
		}
	})
}

// TestUnchangedServed checks that while allocations cannot be read, targets of unchanged jobs are
// read from the cache.
func TestUnchangedServed(t *testing.T) {
	g, f, refs := newRejector(t, 130)
	if read := count(t, f, refs); read != 130 {
		t.Fatalf("targets read = %d", read)
	}
	for _, id := range []string{"job-003", "job-009"} {
		g.change(id, func(job *fakeJob) { job.allocs[0].client = "unknown" })
	}
	g.reject(func(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, "/allocations") })
	if read := count(t, f, refs); read != 128 {
		t.Errorf("targets read = %d, want 128", read)
	}
	g.reject(func(r *http.Request) bool { return r.URL.Path == "/v1/jobs" && r.URL.Query().Has("next_token") })
	if read := count(t, f, refs); read != 130 {
		t.Errorf("targets read after allocations became readable = %d, want all", read)
	}
}

// TestReadAgain checks that the next repeated reading of a job detects a restart that changed no
// index.
func TestReadAgain(t *testing.T) {
	g, f, refs := newRejector(t, 130)
	f.readLimits.againAfter = 0
	count(t, f, refs)
	g.fakeServer.mu.Lock()
	restarted := time.Now().Add(-time.Hour / 2).UTC()
	for _, job := range g.jobs {
		for _, alloc := range job.allocs {
			alloc.started = restarted
		}
	}
	g.fakeServer.mu.Unlock()
	found := 0
	for range 7 { // of 20 jobs each
		readings, err := f.Snapshot(t.Context(), refs)
		if err != nil {
			t.Fatal(err)
		}
		found = 0
		for _, reading := range readings {
			if len(reading.Instances) > 0 && reading.Instances[0].StartedAt.Equal(restarted) {
				found++
			}
		}
	}
	if found != 130 {
		t.Errorf("jobs with detected restarts after 7 rounds = %d, want all 130", found)
	}
}

// TestCurrent checks that a cached set is current while the indexes of its job are unchanged. With
// stale = true, the set must also have been read long enough after the last change.
func TestCurrent(t *testing.T) {
	now, then := time.Now(), jobIndexes{modified: 7, summary: 8}
	moved := now.Add(-time.Hour)
	for name, c := range map[string]struct {
		stale, want bool
		change      func(set *allocSet)
	}{
		"unchanged":             {false, true, func(*allocSet) {}},
		"changed":               {false, false, func(set *allocSet) { set.jobIndexes.summary-- }},
		"deployed":              {false, false, func(set *allocSet) { set.deploying = true }},
		"not tracked":           {false, false, func(set *allocSet) { set.tracked = false }},
		"not built, changing":   {false, false, func(set *allocSet) { set.built, set.allocs = false, []*alloc{{}} }},
		"stale, read too early": {true, false, func(set *allocSet) { set.read = moved.Add(staleness - 1) }},
		"stale, read later":     {true, true, func(set *allocSet) { set.read = moved.Add(staleness) }},
	} {
		r := &scopeReading{session: &session{config: &Config{Stale: c.stale}}}
		set := &allocSet{jobIndexes: then, read: now, since: moved, built: true, tracked: true}
		c.change(set)
		if got := r.current(set, then); got != c.want || r.current(nil, then) {
			t.Errorf("%s: current() = %t, want %t", name, got, c.want)
		}
	}
}

// listedBy disables the scheduler of a fake server and sets the allocations of its job "web".
func listedBy(i *fakeServer, allocs ...*fakeAlloc) {
	i.mu.Lock()
	i.lazy = true
	i.mu.Unlock()
	i.change("web", func(job *fakeJob) {
		for n, alloc := range allocs {
			alloc.number, alloc.created, alloc.started = n, time.Now(), time.Now()
			job.allocs = append(job.allocs, alloc)
		}
	})
}

// TestListFilters checks that list calls filter by the jobs in use if the filter fits in a URL, and
// list the whole namespace otherwise.
func TestListFilters(t *testing.T) {
	const most = 20
	i := newFakeServer(t)
	var refs []targets.Ref
	for n := range most + 1 {
		id := fmt.Sprintf("job-%02d", n)
		i.add(id, 1).deployment = "Deployment is running"
		refs = append(refs, ref(id+"/app"))
	}
	i.add("other", 1).deployment = "Deployment is running"
	f := newFleet(t, i)
	f.readLimits.filter = most * len("job-00%7C")
	for count, want := range map[int]int{1: 1, most: most, most + 1: most + 2} {
		readings, err := f.Snapshot(t.Context(), refs[:count])
		if err != nil || len(readings) != count || readings[refs[0]].StatusReplicas != 1 {
			t.Fatalf("Snapshot() of %d jobs = %v, %v", count, readings, err)
		}
		for _, list := range []string{"/v1/jobs", "/v1/allocations", "/v1/deployments"} {
			if i.listed[list] != want {
				t.Errorf("%s: listed entries = %d for %d jobs, want %d", list, i.listed[list], count, want)
			}
			if named := strings.Contains(i.filters[list], "ID matches "); named != (count <= most) {
				t.Errorf("%s: filter for %d jobs = %q", list, count, i.filters[list])
			}
		}
	}
}

// TestStopped checks that all instances of a stopped job are Deleting, even before the scheduler
// acts, and even if the job was stopped or started between the two calls of a reading.
func TestStopped(t *testing.T) {
	stop := func(i *fakeServer, stopped bool) {
		i.change("web", func(job *fakeJob) { job.stopped = stopped })
	}
	for name, prepare := range map[string]func(i *fakeServer){
		"stopped": func(i *fakeServer) { stop(i, true) },
		"stopped after the list": func(i *fakeServer) {
			i.rival.Before(func() { stop(i, true) }, "GET /v1/job/web")
		},
		"started after the list": func(i *fakeServer) {
			stop(i, true)
			i.rival.Before(func() { stop(i, false) }, "GET /v1/job/web")
		},
	} {
		t.Run(name, func(t *testing.T) {
			i := newFakeServer(t)
			i.add("web", 3)
			listedBy(i)
			prepare(i)
			reading := readOne(t, newFleet(t, i), "web/app")
			if reading.Hold == nil || reading.Hold.Reason != JobStopped {
				t.Errorf("hold = %+v, want %s", reading.Hold, JobStopped)
			}
			if reading.SpecReplicas != 3 || reading.StatusReplicas != 0 || len(reading.Instances) != 3 {
				t.Errorf("spec = %d and status = %d with %d instances, want 3 and 0 with 3", reading.SpecReplicas, reading.StatusReplicas, len(reading.Instances))
			}
			for _, instance := range reading.Instances {
				if !instance.Deleting {
					t.Errorf("instance %s of a stopped job is not Deleting", instance.ID)
				}
			}
		})
	}
}

// pass returns the documents that a filter accepts, as Nomad does. A field that the
// documents lack is an error.
func pass(expression string, documents []map[string]any) ([]map[string]any, error) {
	if expression == "" {
		return documents, nil
	}
	filter, err := bexpr.CreateEvaluator(expression)
	if err != nil {
		return nil, fmt.Errorf("failed to read filter expression: %w", err)
	}
	passed := []map[string]any{}
	for _, document := range documents {
		passes, err := filter.Evaluate(document)
		if err != nil {
			return nil, err
		}
		if passes {
			passed = append(passed, document)
		}
	}
	return passed, nil
}

// oddIDs are job IDs that Nomad accepts and that need special treatment in filters.
var oddIDs = []string{
	`"`, `a"b`, `a\"b`, `a\b`, "a`b", "a`\"b", "a\nb", "a\rb", "a\x1b[2Jb", "é", "/a/b", "/a~1b", `"or"ID!="`, "`or`ID!=`", "\ufeffa", "\u202eb",
	strings.Repeat("x", 33_000),
}

// TestFilterOddIDs checks that jobs with special characters in their IDs are read together with
// ordinary jobs, and that filters are short.
func TestFilterOddIDs(t *testing.T) {
	for name, ordinary := range map[string]int{"few": 1, "many": 30} {
		t.Run(name, func(t *testing.T) {
			i := newFakeServer(t)
			ids := append([]string{}, oddIDs...)
			for n := range ordinary {
				ids = append(ids, fmt.Sprintf("job-%d", n))
			}
			for n, id := range ids {
				i.add(id, n+1).queued = 1
			}
			i.add("other", 1)
			f := newFleet(t, i)
			var refs []targets.Ref
			for _, id := range ids {
				refs = append(refs, ref((&Target{Job: id, Group: "app"}).Name()))
			}
			check := func(refs []targets.Ref, ids []string, first int) {
				t.Helper()
				readings, err := f.Snapshot(t.Context(), refs)
				if err != nil {
					t.Fatal(err)
				}
				for n, id := range ids {
					r := readings[refs[n]]
					if want := first + n + 1; r.Err != nil || int(r.SpecReplicas) != want || len(r.Instances) != want {
						t.Errorf("job %.20q: count = %d with %d instances, %v, want %d", id, r.SpecReplicas, len(r.Instances), r.Err, want)
					}
				}
			}
			check(refs, ids, 0)
			for n := range refs {
				check(refs[n:n+1], ids[n:n+1], n)
			}
			readings, err := f.Snapshot(t.Context(), []targets.Ref{ref(`ot"her/app`), ref("other/app")})
			if err != nil || !errors.Is(readings[ref(`ot"her/app`)].Err, targets.ErrTargetNotFound) || readings[ref("other/app")].Err != nil {
				t.Errorf("readings of a missing and an existing job = %v, %v", readings, err)
			}
			for path, longest := range i.longest {
				if longest > 8<<10 {
					t.Errorf("filter of %s = %d bytes in the URL", path, longest)
				}
			}
		})
	}
}
