package nomad

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/targettest"
)

// gate lets calls to a prepared server through, or keeps them until they are given up.
type gate struct {
	prepared *prepared

	mu sync.Mutex
	// kept reports whether a call is kept; cut whether the answer ends in the middle.
	kept, cut func(r *http.Request) bool
	// passed are the calls that got through, by path and the beginning of ids.
	passed map[string]int
}

func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	kept, cut := g.kept != nil && g.kept(r), g.cut != nil && g.cut(r)
	if !kept {
		g.passed[r.URL.Path+r.URL.Query().Get("prefix")]++
	}
	g.mu.Unlock()
	switch {
	case kept:
		<-r.Context().Done()
	case cut:
		g.prepared.serve(&half{ResponseWriter: w, left: 600*100 + 10}, r)
		if flusher, ok := w.(http.Flusher); ok {
			flusher.Flush()
		}
		<-r.Context().Done()
	default:
		g.prepared.serve(w, r)
	}
}

// half sends no more than so many bytes.
type half struct {
	http.ResponseWriter
	left int
}

func (h *half) Write(p []byte) (int, error) {
	sent := p[:min(len(p), h.left)]
	h.left -= len(sent)
	if _, err := h.ResponseWriter.Write(sent); err != nil {
		return 0, err
	}
	return len(p), nil
}

func (g *gate) set(kept, cut func(r *http.Request) bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.kept, g.cut, g.passed = kept, cut, map[string]int{}
}

func newGate(t *testing.T, jobs int) (*gate, *Fleet, []targets.Ref) {
	t.Helper()
	p, _, refs := newPrepared(t, jobs, realCounts)
	g := &gate{prepared: p}
	g.set(nil, nil)
	c := testConfig(t, newHandler(t, g.ServeHTTP))
	c.Timeout = time.Minute
	return g, openFleet(t, c, &targettest.Store{}), refs
}

// short is what a reading has that is cut off, where a call hangs.
const short = 2 * time.Second

// within reads targets in so much time, and returns how many were read, and what the others
// say.
func within(t *testing.T, limit time.Duration, f *Fleet, refs []targets.Ref) (read int, said string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	readings, err := f.Snapshot(ctx, refs)
	if err != nil {
		return 0, err.Error()
	}
	for _, ref := range refs {
		switch err := readings[ref].Err; {
		case err == nil:
			read++
		case !errors.Is(err, targets.ErrTransient):
			t.Errorf("%s: %v, want ErrTransient", ref, err)
		default:
			said = err.Error()
		}
	}
	return read, said
}

func isList(path string) func(r *http.Request) bool {
	return func(r *http.Request) bool { return r.URL.Path == path }
}

// TestPartsKept: a reading of many allocations that is cut off goes on where it was.
func TestPartsKept(t *testing.T) {
	const jobs = 1000 // of 5,000 allocations
	g, f, refs := newGate(t, jobs)
	g.set(func(r *http.Request) bool { return r.URL.Query().Get("prefix") >= "40" }, nil)
	if read, said := within(t, short, f, refs); read != 0 || !strings.Contains(said, "deadline exceeded") {
		t.Errorf("%d targets were read of a quarter of all allocations, %s", read, said)
	}
	before := maps.Clone(g.passed)
	g.set(nil, nil)
	readings, err := f.Snapshot(t.Context(), refs)
	if err != nil {
		t.Fatal(err)
	}
	for n, ref := range refs {
		if reading := readings[ref]; reading.Err != nil || int(reading.StatusReplicas) != realCounts[n%len(realCounts)] {
			t.Fatalf("%s: %d replicas, %v", ref, reading.StatusReplicas, reading.Err)
		}
	}
	for n := range 256 {
		part := fmt.Sprintf("/v1/allocations%02x", n)
		if before[part]+g.passed[part] != 1 {
			t.Errorf("%s was read %d times, and %d once the rest was", part, before[part], g.passed[part])
		}
	}
}

// TestPartsMoved: of a reading that was cut off, jobs that moved meanwhile are read
// again.
func TestPartsMoved(t *testing.T) {
	g, f, refs := newGate(t, 1000)
	g.set(func(r *http.Request) bool { return r.URL.Query().Get("prefix") >= "f0" }, nil)
	within(t, short, f, refs)
	g.set(nil, nil)
	g.prepared.fail(5)
	readings, err := f.Snapshot(t.Context(), refs)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := int(readings[refs[5]].StatusReplicas), realCounts[5]-1; got != want {
		t.Errorf("%d replicas of a job of which one ended after it was read in part, want %d", got, want)
	}
}

// fail has one allocation of a job end.
func (p *prepared) fail(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.index++
	job := p.jobs[n]
	ended := job.allocs[0]
	job.allocs = job.allocs[1:]
	kept := p.shards[ended.id[:2]][:0]
	for _, alloc := range p.shards[ended.id[:2]] {
		if alloc != ended {
			kept = append(kept, alloc)
		}
	}
	p.shards[ended.id[:2]] = kept
	p.list(job, p.index)
}

// TestSettledServed: while allocations cannot be read, targets to which nothing
// happened are, and only those of jobs that moved are not.
func TestSettledServed(t *testing.T) {
	g, f, refs := newGate(t, 100)
	if _, err := f.Snapshot(t.Context(), refs); err != nil {
		t.Fatal(err)
	}
	g.prepared.fail(3)
	g.prepared.fail(9)
	g.set(isList("/v1/allocations"), nil)
	if read, said := within(t, short, f, refs); read != 98 || !strings.Contains(said, `list jobs of namespace "default": temporary failure`) {
		t.Errorf("%d targets were read, want 98; the others say: %s", read, said)
	}
	g.set(nil, nil)
	readings, err := f.Snapshot(t.Context(), refs)
	if err != nil {
		t.Fatal(err)
	}
	for _, ref := range refs {
		if reading := readings[ref]; reading.Err != nil {
			t.Errorf("%s was not read at last: %v", ref, reading.Err)
		}
	}
}

// TestJobByJob: jobs are read one by one, with what is reserved for their allocations;
// one that cannot be read, or an allocation of it, leaves the others as they are.
func TestJobByJob(t *testing.T) {
	g, f, refs := newGate(t, 100)
	f.reach.filtered = 0
	before, err := f.Snapshot(t.Context(), refs)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		kept func(r *http.Request) bool
	}{
		{"the list of a job", isList("/v1/job/job-000015/allocations")},
		{"what its allocation reserves", func(r *http.Request) bool {
			return r.URL.Query().Get("prefix") == g.prepared.jobs[15].allocs[0].id
		}},
	} {
		g.prepared.fail(15)
		g.prepared.fail(9)
		g.set(c.kept, nil)
		if read, said := within(t, short, f, refs); read != 99 || !strings.Contains(said, `list jobs of namespace "default": temporary failure`) {
			t.Errorf("%s: %d targets were read, want 99; the other says: %s", c.name, read, said)
		}
	}
	g.set(nil, nil)
	readings, err := f.Snapshot(t.Context(), refs)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{15, 9} {
		was, is := before[refs[n]], readings[refs[n]]
		if is.Err != nil || !cmp.Equal(was.Instances[2:], is.Instances) || is.Locations.At(0).Name != was.Locations.At(2).Name {
			t.Errorf("%s: %+v, want all but the first two of %+v", refs[n], is, was)
		}
	}
	if g.passed["/v1/allocations"] > 0 || g.passed["/v1/job/job-000015/allocations"] != 1 {
		t.Errorf("calls: %v, want none for all allocations", g.passed)
	}
}

// TestListCutOff: a list of jobs that does not end serves those that are in it.
func TestListCutOff(t *testing.T) {
	g, f, refs := newGate(t, 200)
	if _, err := f.Snapshot(t.Context(), refs); err != nil {
		t.Fatal(err)
	}
	g.set(nil, isList("/v1/jobs"))
	if read, said := within(t, short, f, refs); read < 80 || read > 120 || !strings.Contains(said, "deadline exceeded") {
		t.Errorf("%d targets were read by half a list, %s", read, said)
	}
}

// TestSpecificationsKept: specifications that were read stay so when the others could
// not be, and across a restart; the store has nothing else of them.
func TestSpecificationsKept(t *testing.T) {
	const jobs = 100
	p, _, refs := newPrepared(t, jobs, realCounts)
	for _, job := range p.jobs {
		job.spec = append(job.spec[:len(job.spec)-1], `,"Meta":{"secret":"hunter2"},"Payload":"aHVudGVyMg=="}`...)
	}
	g := &gate{prepared: p}
	g.set(func(r *http.Request) bool { return strings.HasPrefix(r.URL.Path, "/v1/job/job-00005") }, nil)
	c := testConfig(t, newHandler(t, g.ServeHTTP))
	c.Timeout = time.Minute
	store := &targettest.Store{}
	f := openFleet(t, c, store)
	if read, said := within(t, short, f, refs); read != jobs-10 || !strings.Contains(said, `read job "job-00005`) {
		t.Errorf("%d targets were read, want 90: %s", read, said)
	}
	g.set(nil, nil)
	if read, said := within(t, time.Minute, f, refs); read != jobs || len(g.passed) != 10+3 {
		t.Errorf("%d targets were read, by the calls %v, want 10 jobs, two lists and a sweep: %s", read, g.passed, said)
	}
	_ = f.Close()

	entries, err := store.List(t.Context(), specificationPrefix)
	if err != nil || len(entries) == 0 {
		t.Fatalf("%d entries, %v", len(entries), err)
	}
	for key, text := range entries {
		if strings.Contains(string(text), "hunter2") || strings.Contains(string(text), "aHVudGVyMg") || !json.Valid(text) {
			t.Errorf("%s is stored as %s", key, text)
		}
	}
	read := func(store targets.Store, c *Config) int {
		g.set(nil, nil)
		again := openFleet(t, c, store)
		defer func() { _ = again.Close() }()
		if read, said := within(t, time.Minute, again, refs); read != jobs {
			t.Errorf("%d targets were read after a restart, want all: %s", read, said)
		}
		specs := 0
		for path := range g.passed {
			if strings.HasPrefix(path, "/v1/job/") {
				specs++
			}
		}
		return specs
	}
	if n := read(store, c); n != 0 {
		t.Errorf("%d jobs were read after a restart, want none", n)
	}

	for _, job := range p.jobs[:7] { // other jobs, which happen to have the same indexes
		job.text = replace(job.text, "SubmitTime", "1795265758149547620")
	}
	if n := read(store, c); n != 7 {
		t.Errorf("%d jobs were read of a cluster of which 7 are others, want these", n)
	}
	for key := range entries {
		if err := store.Save(t.Context(), key, []byte(`{"garbled`)); err != nil {
			t.Fatal(err)
		}
	}
	if n := read(store, c); n != jobs {
		t.Errorf("%d jobs were read by a garbled store, want all", n)
	}
}
