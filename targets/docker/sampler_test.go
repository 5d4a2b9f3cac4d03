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

// meter is an engine whose containers use one core each, from its start on.
type meter struct {
	imitation
	begun time.Time

	mu sync.Mutex
	// silent sends nothing measured, hangUp nothing at all.
	silent, hangUp bool
	// wait delays every response.
	wait         time.Duration
	asked        int
	atOnce, peak int
}

func newMeter() *meter {
	m := &meter{begun: time.Now().Add(-time.Minute)}
	m.version = "1.41"
	m.answer = m.stats
	return m
}

func (m *meter) stats(w http.ResponseWriter, r *http.Request) {
	if r.URL.Query().Get("one-shot") != "1" || r.URL.Query().Get("stream") != "0" {
		answering(http.StatusBadRequest, "not as a sampler asks: "+r.URL.RawQuery)(w, r)
		return
	}
	m.mu.Lock()
	m.asked++
	m.atOnce++
	m.peak = max(m.peak, m.atOnce)
	silent, hangUp, wait := m.silent, m.hangUp, m.wait
	m.mu.Unlock()
	defer func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.atOnce--
	}()
	if wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		<-timer.C
	}
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

func (m *meter) get() (asked, peak int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.asked, m.peak
}

var web = targets.Ref{Fleet: "shop", Name: "shop/web"}

// containersOn returns so many containers of an engine.
func containersOn(e *Engine, n int) []Container {
	containers := make([]Container, n)
	for i := range containers {
		id := fmt.Sprintf("c%d", i)
		containers[i] = Container{Instance: "i-" + id, Task: "web", Engine: e, ID: id}
	}
	return containers
}

// sampled asks a sampler for one target, which has to work.
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
		t.Fatalf("Samples() of targets that were not published = %v, %v, want no entries", answer, err)
	}
	s.Publish(web, append(containersOn(e, 3), Container{Instance: "i-gone", Engine: e, ID: "gone"}))
	var got targets.Samples
	wait.Soon(t, "samples", func() bool {
		got = sampled(t, s, web)
		return len(got.Instances) == 3
	})
	if got.Err != nil {
		t.Errorf("samples with %v, want no error for a container that is gone", got.Err)
	}
	for i, sample := range got.Instances {
		if want := fmt.Sprintf("i-c%d", i); sample.ID != want {
			t.Errorf("sample %d is of %q, want %q", i, sample.ID, want)
		}
		if sample.Window <= 0 || time.Since(sample.At) > time.Minute {
			t.Errorf("sample of %v at %v", sample.Window, sample.At)
		}
		if cpu, ok := policy.TaskSample(sample.Tasks, "web", "cpu"); !ok || cpu < 999 || cpu > 1001 {
			t.Errorf("cpu %d, %v, want one core", cpu, ok)
		}
		if memory, ok := policy.TaskSample(sample.Tasks, "web", "memory"); !ok || memory != 1_000_000 {
			t.Errorf("memory %d, %v, want 1000 bytes", memory, ok)
		}
	}

	s.Withdraw(web)
	if answer, err := s.Samples([]targets.Ref{web}); err != nil || len(answer) != 0 {
		t.Errorf("Samples() of a target that was withdrawn = %v, %v, want no entry", answer, err)
	}
	wait.Soon(t, "end of sampling", func() bool { return !s.Running() })
	before, _ := m.get()
	s.Publish(web, containersOn(e, 1))
	wait.Soon(t, "sampling that begins again", func() bool { return len(sampled(t, s, web).Instances) == 1 })
	if after, _ := m.get(); after <= before {
		t.Errorf("the engine was asked %d times before and %d after", before, after)
	}
	s.Close()
	if _, err := s.Samples([]targets.Ref{web}); !errors.Is(err, targets.ErrTransient) {
		t.Errorf("Samples() after Close() = %v, want ErrTransient", err)
	}
}

// TestSamplerSaysWhy: what keeps containers from having samples is reported, and one
// engine's trouble is none of another's.
func TestSamplerSaysWhy(t *testing.T) {
	clearEnvironment(t)
	bad, good := newMeter(), newMeter()
	badEngine, goodEngine := connect(t, serve(t, bad)), connect(t, serve(t, good))
	s := NewSampler(20 * time.Millisecond)
	defer s.Close()
	db := targets.Ref{Fleet: "shop", Name: "shop/db"}
	s.Publish(web, containersOn(badEngine, 3))
	s.Publish(db, containersOn(goodEngine, 1))

	says := func(what string) {
		t.Helper()
		wait.Soon(t, "samples of the other engine, and an error that says "+what, func() bool {
			answer, err := s.Samples([]targets.Ref{web, db})
			if err != nil {
				t.Fatal(err)
			}
			return len(answer[db].Instances) == 1 && answer[db].Err == nil &&
				len(answer[web].Instances) == 0 && answer[web].Err != nil && strings.Contains(answer[web].Err.Error(), what)
		})
	}
	bad.set(func(m *meter) { m.silent = true })
	says("the engine measures nothing of it")
	bad.set(func(m *meter) { m.hangUp = true })
	says("EOF")
	s.Publish(web, []Container{{Instance: "i-1", Err: errors.New("no engine of node n1 is known")}})
	says("no engine of node n1 is known")

	bad.set(func(m *meter) { m.silent, m.hangUp = false, false })
	s.Publish(web, containersOn(badEngine, 3))
	wait.Soon(t, "samples once the trouble is over", func() bool {
		answer := sampled(t, s, web)
		return len(answer.Instances) == 3 && answer.Err == nil
	})
}

func TestPairs(t *testing.T) {
	at := time.Date(2026, 11, 21, 13, 0, 0, 0, time.UTC)
	const validity = 35 * time.Second
	first := counters{started: at, read: at.Add(time.Minute), cpu: 1_000_000_000, memory: 1}
	next := func(change func(c *counters)) counters {
		c := first
		c.read, c.cpu = c.read.Add(15*time.Second), c.cpu+15_000_000_000
		change(&c)
		return c
	}
	for _, test := range []struct {
		name   string
		second counters
		want   bool
	}{
		{"follows", next(func(*counters) {}), true},
		{"started again", next(func(c *counters) { c.started = at.Add(65 * time.Second) }), false},
		{"the counter went back", next(func(c *counters) { c.cpu = 1 }), false},
		{"the clock went back", next(func(c *counters) { c.read = at }), false},
		{"too much time passed", next(func(c *counters) { c.read = at.Add(time.Hour) }), false},
		{"measured no second time", first, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			var known measured
			known.add(first, first.read, validity)
			if !known.sample.at.IsZero() {
				t.Fatal("one reading makes a sample")
			}
			known.add(test.second, test.second.read, validity)
			if got := !known.sample.at.IsZero(); got != test.want {
				t.Fatalf("a sample is %v, want %v", got, test.want)
			}
			// What follows on the second reading is a sample in any case.
			third := test.second
			third.read = third.read.Add(15 * time.Second)
			third.cpu += 7_500_000_000
			known.add(third, third.read, validity)
			if got := known.sample; got.window != 15*time.Second || !got.at.Equal(third.read) || got.usage[0].Milli != 500 {
				t.Errorf("sample %+v, want half a core over 15s", got)
			}
			known.add(third, third.read, validity)
			if known.sample.at.IsZero() {
				t.Error("a reading that was measured no second time takes the sample away")
			}
		})
	}

	t.Run("a clock ahead", func(t *testing.T) {
		var known measured
		now := first.read.Add(-time.Second)
		known.add(first, now, validity)
		known.add(next(func(*counters) {}), now, validity)
		if got := known.sample; !got.at.Equal(now) {
			t.Errorf("sample at %v, want it no later than %v", got.at, now)
		}
	})
}

// TestOldSamplesAreMissing: what was not learned for two intervals and five
// seconds is no sample.
func TestOldSamplesAreMissing(t *testing.T) {
	s := NewSampler(15 * time.Second)
	for age, want := range map[time.Duration]bool{34 * time.Second: true, 36 * time.Second: false} {
		got, err := s.sampleOf(Container{Instance: "i-1"}, measured{sample: sample{learned: time.Now().Add(-age)}})
		if err != nil || (got != nil) != want {
			t.Errorf("sampleOf() what was learned %v ago = %+v, %v, want a sample: %v", age, got, err, want)
		}
	}
}
