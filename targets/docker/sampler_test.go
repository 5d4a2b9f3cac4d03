package docker

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/test/wait"
)

// meter is an engine whose containers use one core each.
type meter struct {
	fakeEngine
	begun time.Time

	mu sync.Mutex
	// silent omits the measurements. hangUp sends no responses.
	silent, hangUp bool
	reads          int
}

func newMeter() *meter {
	m := &meter{begun: time.Now().Add(-time.Minute)}
	m.version = "1.41"
	m.answer = m.stats
	return m
}

func (m *meter) stats(w http.ResponseWriter, r *http.Request) {
	if r.URL.Query().Get("one-shot") != "1" || r.URL.Query().Get("stream") != "0" {
		answering(http.StatusBadRequest, "unexpected query: "+r.URL.RawQuery)(w, r)
		return
	}
	m.mu.Lock()
	m.reads++
	silent, hangUp := m.silent, m.hangUp
	m.mu.Unlock()
	switch {
	case hangUp:
		panic(http.ErrAbortHandler)
	case strings.Contains(r.URL.Path, "/gone/"):
		answering(http.StatusNotFound, "No such container: gone")(w, r)
	case silent:
		_, _ = io.WriteString(w, `{"read":"0001-01-01T00:00:00Z"}`)
	default:
		now := time.Now()
		fmt.Fprintf(w, `{"read":%q,"cpu_stats":{"cpu_usage":{"total_usage":%d}},"memory_stats":{"usage":1000}}`, now.Format(time.RFC3339Nano), now.Sub(m.begun).Nanoseconds())
	}
}

func (m *meter) set(change func(m *meter)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change(m)
}

func (m *meter) count() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.reads
}

var web = targets.Ref{Fleet: "shop", Name: "shop/web"}

// containersOn returns n containers of an engine.
func containersOn(e *Engine, n int) []Container {
	containers := make([]Container, n)
	for i := range containers {
		id := fmt.Sprintf("c%d", i)
		containers[i] = Container{Instance: "i-" + id, Task: "web", Name: "web-" + id, Engine: e, ID: id}
	}
	return containers
}

// sampled returns the samples of one target.
func sampled(t *testing.T, s *Sampler, ref targets.Ref) targets.Samples {
	t.Helper()
	answer, err := s.Samples([]targets.Ref{ref})
	if err != nil {
		t.Fatalf("Samples() = %v", err)
	}
	return answer[ref]
}

func TestSampler(t *testing.T) {
	clearEnvironment(t)
	running := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, running) })
	m := newMeter()
	e := connect(t, serve(t, m))
	s := NewSampler(20 * time.Millisecond)
	defer s.Close()

	unknown := targets.Ref{Fleet: "shop", Name: "shop/other"}
	answer, err := s.Samples([]targets.Ref{web, unknown})
	if err != nil || len(answer) != 0 {
		t.Fatalf("Samples() of unpublished targets = %v, %v, want no entries", answer, err)
	}
	s.Publish(web, append(containersOn(e, 3), Container{Instance: "i-gone", Engine: e, ID: "gone"}))
	var got targets.Samples
	wait.Soon(t, "samples", func() bool {
		got = sampled(t, s, web)
		return len(got.Instances) == 3
	})
	if got.Err != nil {
		t.Errorf("Samples.Err = %v, want nil although a container no longer exists", got.Err)
	}
	for i, sample := range got.Instances {
		if want := fmt.Sprintf("i-c%d", i); sample.ID != want {
			t.Errorf("sample %d has ID %q, want %q", i, sample.ID, want)
		}
		if sample.Window <= 0 || time.Since(sample.At) > time.Minute {
			t.Errorf("sample has window %v and time %v", sample.Window, sample.At)
		}
		if cpu, ok := policy.TaskSample(sample.Tasks, "web", "cpu"); !ok || cpu < 999 || cpu > 1001 {
			t.Errorf("cpu = %d, %v, want one core", cpu, ok)
		}
		if memory, ok := policy.TaskSample(sample.Tasks, "web", "memory"); !ok || memory != 1_000_000 {
			t.Errorf("memory = %d, %v, want 1000 bytes", memory, ok)
		}
	}

	s.Withdraw(web)
	if answer, err := s.Samples([]targets.Ref{web}); err != nil || len(answer) != 0 {
		t.Errorf("Samples() of a withdrawn target = %v, %v, want no entry", answer, err)
	}
	wait.Soon(t, "end of sampling", func() bool { return !s.Running() })
	before := m.count()
	s.Publish(web, containersOn(e, 1))
	wait.Soon(t, "restart of sampling", func() bool { return len(sampled(t, s, web).Instances) == 1 })
	if after := m.count(); after <= before {
		t.Errorf("reads by the engine = %d before and %d after", before, after)
	}
	s.Close()
	if _, err := s.Samples([]targets.Ref{web}); !errors.Is(err, targets.ErrTransient) {
		t.Errorf("Samples() after Close() = %v, want ErrTransient", err)
	}
}

// TestSamplerErrors checks that errors of one engine are reported and do not affect another
// engine.
func TestSamplerErrors(t *testing.T) {
	clearEnvironment(t)
	bad, good := newMeter(), newMeter()
	badEngine, goodEngine := connect(t, serve(t, bad)), connect(t, serve(t, good))
	s := NewSampler(20 * time.Millisecond)
	defer s.Close()
	db := targets.Ref{Fleet: "shop", Name: "shop/db"}
	s.Publish(web, containersOn(badEngine, 3))
	s.Publish(db, containersOn(goodEngine, 1))

	wantError := func(what string) {
		t.Helper()
		wait.Soon(t, "samples of the other engine, and the error "+what, func() bool {
			answer, err := s.Samples([]targets.Ref{web, db})
			if err != nil {
				t.Fatal(err)
			}
			return len(answer[db].Instances) == 1 && answer[db].Err == nil &&
				len(answer[web].Instances) == 0 && answer[web].Err != nil && strings.Contains(answer[web].Err.Error(), what)
		})
	}
	bad.set(func(m *meter) { m.silent = true })
	wantError("the engine returned no usage data")
	wantError("container web-")
	bad.set(func(m *meter) { m.hangUp = true })
	wantError("EOF")
	s.Publish(web, []Container{{Instance: "i-1", Err: errors.New("the engine of node n1 is unknown")}})
	wantError("the engine of node n1 is unknown")

	bad.set(func(m *meter) { m.silent, m.hangUp = false, false })
	s.Publish(web, containersOn(badEngine, 3))
	wait.Soon(t, "samples after the error", func() bool {
		answer := sampled(t, s, web)
		return len(answer.Instances) == 3 && answer.Err == nil
	})
}
