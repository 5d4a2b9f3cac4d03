package systemd

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/targettest"
)

// TestConcurrentWriters checks that after random changes by hpad and operators, and restarts of
// hpad and the manager, the running instances match the count, except for failed instances.
func TestConcurrentWriters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// The deadline of a test uses a clock outside of the bubble.
		rapid.Check(struct{ testing.TB }{t}, func(rt *rapid.T) { concurrentWriters(t, rt) })
	})
}

func concurrentWriters(t *testing.T, rt *rapid.T) {
	m := newFakeManager("worker@.service")
	var store targettest.Store
	config := &Config{}
	config.SetDefaults()
	var f *Fleet
	open := func() {
		if f != nil {
			_ = f.Close()
		}
		f = newFleet("vm", config, targets.Env{Store: &store}, m)
		if err := f.Start(t.Context()); err != nil {
			rt.Fatal(err)
		}
	}
	open()
	defer func() { _ = f.Close() }()
	read := func() targets.Reading {
		readings, err := f.Snapshot(t.Context(), []targets.Ref{workerRef})
		synctest.Wait()
		if err != nil || readings[workerRef].Err != nil {
			rt.Fatalf("Snapshot() = %v, %v", readings[workerRef].Err, err)
		}
		return readings[workerRef]
	}
	index := rapid.IntRange(1, 6)
	unit := func() string { return workers(index.Draw(rt, "index"))[0] }
	rt.Repeat(map[string]func(*rapid.T){
		"": func(rt *rapid.T) {
			m.mu.Lock()
			defer m.mu.Unlock()
			rt.Logf("%d units, %d calls", len(m.units), len(m.calls))
		},
		"read": func(*rapid.T) { read() },
		"scale": func(rt *rapid.T) {
			n := int32(rapid.IntRange(0, 6).Draw(rt, "n"))
			before := read()
			err := f.SetReplicas(t.Context(), workerRef, n, before.Version, "")
			if after := read(); err == nil && after.SpecReplicas != n {
				rt.Fatalf("spec %d replicas after SetReplicas(%d)", after.SpecReplicas, n)
			}
		},
		"start": func(*rapid.T) {
			u := unit()
			m.mu.Lock()
			defer m.mu.Unlock()
			if was := m.units[u]; was == nil || was.ActiveState == "failed" {
				delete(m.units, u)
				_ = m.begin(u, true)
			}
		},
		"stop": func(*rapid.T) {
			u := unit()
			m.mu.Lock()
			defer m.mu.Unlock()
			m.end(u)
		},
		"fail": func(*rapid.T) {
			u := unit()
			m.mu.Lock()
			defer m.mu.Unlock()
			if was := m.units[u]; was != nil && was.ActiveState != "failed" {
				was.ActiveState, was.JobId, was.JobType = "failed", 0, ""
			}
		},
		"reset": func(*rapid.T) {
			u := unit()
			m.mu.Lock()
			defer m.mu.Unlock()
			if was := m.units[u]; was != nil && was.ActiveState == "failed" {
				delete(m.units, u)
			}
		},
		"slow":   func(*rapid.T) { m.set(func() { m.slow = !m.slow }) },
		"reboot": func(*rapid.T) { m.reboots() },
		"reopen": func(*rapid.T) { open() },
		"wait":   func(*rapid.T) { pass(time.Second) },
	})

	var last targets.Reading
	for range 4 {
		pass(backoff.First)
		last = read()
	}
	var wanted, failing []string
	for _, instance := range last.Instances {
		switch {
		case instance.Deleting:
			rt.Errorf("%s is still stopping", instance.ID)
		case instance.Phase == policy.PhaseFailed:
			failing = append(failing, instance.ID)
		default:
			wanted = append(wanted, instance.ID)
		}
	}
	slices.Sort(wanted)
	if got := m.active(); !slices.Equal(got, wanted) || int(last.StatusReplicas) != len(got) {
		rt.Errorf("got active units %q and %q in the reading, %d status replicas", got, wanted, last.StatusReplicas)
	}
	if missing := int(last.SpecReplicas) - len(wanted); missing < 0 || missing > len(failing) {
		rt.Errorf("got %d spec replicas, %d running and %d failed", last.SpecReplicas, len(wanted), len(failing))
	}
	open()
	if again := read(); again.SpecReplicas != last.SpecReplicas || again.Version != last.Version {
		rt.Errorf("got %s after a restart, want %s", brief(again), brief(last))
	}
}

func brief(r targets.Reading) string {
	return fmt.Sprintf("spec %d, status %d, version %s", r.SpecReplicas, r.StatusReplicas, r.Version)
}
