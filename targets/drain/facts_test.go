package drain_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/drain"
	"github.com/hpad/hpad/targets/targettest"
)

// TestFacts: orders that go by facts ask whoever knows them, and take nobody while
// they cannot be had.
func TestFacts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDrainer("web-0", "web-1", "web-2")
		w := newWorld(t, 3, d)
		w.platform.Change("web", func(target *targettest.MemoryTarget) {
			target.Usage = func(_ time.Time, instance policy.Instance, _ int) []policy.TaskUsage {
				milli := map[string]int64{"web-0": 500, "web-1": 50, "web-2": 300}[instance.ID]
				return []policy.TaskUsage{
					{Task: "app", Usage: []policy.Amount{{Resource: "cpu", Milli: milli}, {Resource: "memory", Milli: 1}}},
					{Task: "log", Usage: []policy.Amount{{Resource: "cpu", Milli: 1}}},
				}
			}
		})
		first := func() string {
			t.Helper()
			victims, err := w.fleet.Victims(t.Context(), w.ref, w.read(), 1)
			if err != nil || len(victims) != 1 {
				t.Fatalf("Victims(1) = %v, %v", victims, err)
			}
			return victims[0].ID + ": " + victims[0].Reason
		}
		w.configure(func(options *drain.Options) { options.Victims = drain.LeastCPU })
		if got := first(); got != "web-1: it uses the least cpu: 51m" {
			t.Errorf("by the fleet's samples: %s", got)
		}
		w.configure(func(options *drain.Options) {
			options.CPU = func(context.Context, targets.Ref) (map[string]int64, error) { return map[string]int64{"web-2": 7}, nil }
		})
		if got := first(); got != "web-2: it uses the least cpu: 7m" {
			t.Errorf("by the autoscaler's metric: %s", got)
		}
		d.allocations = map[string]int{"web-0": 3, "web-1": 1, "web-2": 2}
		w.configure(func(options *drain.Options) { options.Victims = drain.EmptyNomadNodes })
		if got := first(); got != "web-1: its Nomad node runs 1 allocation" {
			t.Errorf("by allocations: %s", got)
		}
		d.fail("allocations", errSpoiled)
		if err := w.fleet.SetReplicas(t.Context(), w.ref, 2, "", "the test asks"); !errors.Is(err, errSpoiled) {
			t.Errorf("SetReplicas() without the facts = %v", err)
		}
		w.expect("nobody was taken", 3, 3, 3)
		w.configure(func(options *drain.Options) { options.Drainer = nil })
		if _, err := w.fleet.Victims(t.Context(), w.ref, w.read(), 1); !errors.Is(err, targets.ErrUnscalable) {
			t.Errorf("Victims() with nobody who knows = %v", err)
		}
	})
}
