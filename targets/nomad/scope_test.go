package nomad

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/targettest"
)

// gate rejects some requests to an imitation, and counts the others.
type gate struct {
	*imitation

	mu sync.Mutex
	// rejects reports whether a request is rejected; nil rejects no request.
	rejects func(r *http.Request) bool
	passed  map[string]int
}

func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
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
	g.imitation.ServeHTTP(w, r)
}

func (g *gate) reject(rejects func(r *http.Request) bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.rejects, g.passed = rejects, map[string]int{}
}

// newGate returns jobs with two allocations each, and a fleet with small pages.
func newGate(t *testing.T, jobs int) (*gate, *Fleet, []targets.Ref) {
	t.Helper()
	g := &gate{imitation: newImitation(t)}
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
	f.reach.page = 50
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

// TestPagesContinue interrupts the reading of all allocations. The next round reads the
// other pages, and then the jobs that changed meanwhile.
func TestPagesContinue(t *testing.T) {
	g, f, refs := newGate(t, 150)
	g.reject(func(r *http.Request) bool { return r.URL.Query().Get("next_token") > "8" })
	if read := count(t, f, refs); read != 0 {
		t.Errorf("%d targets were read from a part of the allocations", read)
	}
	before := g.passed
	g.reject(nil)
	g.change("job-007", func(job *imitatedJob) { job.allocs[0].client = "failed" })
	if read := count(t, f, refs); read != 150-1 {
		t.Errorf("%d targets were read with two replicas, want all but one", read)
	}
	for page := range before {
		if strings.HasPrefix(page, "/v1/allocations") && page != "/v1/allocations" && g.passed[page] > 0 {
			t.Errorf("%s was read again", page)
		}
	}
	if g.passed["/v1/job/job-007/allocations"]+g.passed["/v1/allocations"] == 0 {
		t.Errorf("the job that changed was not read again: %v", g.passed)
	}
}

// TestUnchangedServed: while allocations cannot be read, targets of unchanged jobs are read
// from the cache.
func TestUnchangedServed(t *testing.T) {
	g, f, refs := newGate(t, 130)
	if read := count(t, f, refs); read != 130 {
		t.Fatalf("%d targets were read", read)
	}
	for _, id := range []string{"job-003", "job-009"} {
		g.change(id, func(job *imitatedJob) { job.allocs[0].client = "unknown" })
	}
	g.reject(func(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, "/allocations") })
	if read := count(t, f, refs); read != 128 {
		t.Errorf("%d targets were read, want 128", read)
	}
	g.reject(func(r *http.Request) bool { return r.URL.Path == "/v1/jobs" && r.URL.Query().Has("next_token") })
	if read := count(t, f, refs); read != 130 {
		t.Errorf("%d targets were read once allocations could be, want all", read)
	}
}

// TestVerify: a restart that changes no index is found when the job's turn comes.
func TestVerify(t *testing.T) {
	g, f, refs := newGate(t, 130)
	f.reach.mostAgain = 20
	count(t, f, refs)
	g.imitation.mu.Lock()
	restarted := time.Now().Add(-time.Hour / 2).UTC()
	for _, job := range g.jobs {
		for _, alloc := range job.allocs {
			alloc.started = restarted
		}
	}
	g.imitation.mu.Unlock()
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
		t.Errorf("the restarts of %d jobs were found in 7 rounds, want all 130", found)
	}
}

// TestCurrent: a cached set is used while the stamp of its job stays the same; with stale,
// only if it was read so long after a change that each server had it.
func TestCurrent(t *testing.T) {
	now, then := time.Now(), stamp{modified: 7, summary: 8}
	moved := now.Add(-time.Hour)
	for name, c := range map[string]struct {
		stale, want bool
		change      func(set *allocSet)
	}{
		"unchanged":             {false, true, func(*allocSet) {}},
		"changed":               {false, false, func(set *allocSet) { set.stamp.summary-- }},
		"deployed":              {false, false, func(set *allocSet) { set.deployed = true }},
		"not settled":           {false, false, func(set *allocSet) { set.settled = false }},
		"stale, read too early": {true, false, func(set *allocSet) { set.read = moved.Add(staleness - 1) }},
		"stale, read later":     {true, true, func(set *allocSet) { set.read = moved.Add(staleness) }},
	} {
		v := &scopeReading{session: &session{config: &Config{Stale: c.stale}}}
		set := &allocSet{stamp: then, read: now, since: moved, built: true, settled: true}
		c.change(set)
		if got := v.current(set, then); got != c.want || v.current(nil, then) {
			t.Errorf("%s: current() = %t, want %t", name, got, c.want)
		}
	}
}
