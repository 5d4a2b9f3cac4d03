package drain_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/drain"
)

// TestPick checks that unready instances go before ready instances in every order, that the order
// decides between instances of the same removal class, and that the returned reasons are correct.
func TestPick(t *testing.T) {
	at := func(second int) time.Time { return time.Date(2026, 1, 1, 0, 0, second, 0, time.UTC) }
	running := func(id string, second int, ready policy.Readiness) policy.Instance {
		return policy.Instance{ID: id, Phase: policy.PhaseRunning, Readiness: ready, StartedAt: at(second), ReadinessChanged: at(second)}
	}
	reading := targets.Reading{
		Instances: []policy.Instance{
			running("d", 40, policy.ReadinessTrue),
			running("b", 20, policy.ReadinessTrue),
			running("a", 20, policy.ReadinessFalse),
			running("c", 10, policy.ReadinessTrue),
			{ID: "young", Phase: policy.PhasePending},
			{ID: "lost", Phase: policy.PhaseUnknown, StartedAt: at(30)},
			{ID: "going", Phase: policy.PhaseRunning, Deleting: true, StartedAt: at(1)},
			{ID: "done", Phase: policy.PhaseSucceeded, StartedAt: at(1)},
			running("kept", 1, policy.ReadinessFalse),
		},
		Locations: targets.LocationList{3: {Name: "web-c"}, 8: {Protected: true}},
	}
	reading.Instances[3].ReadinessChanged = at(50) // the oldest instance became ready last
	ready := targets.Reading{Instances: slices.DeleteFunc(slices.Clone(reading.Instances), func(i policy.Instance) bool {
		return i.Readiness != policy.ReadinessTrue || i.ID == "going"
	})}
	unready := targets.Reading{Instances: []policy.Instance{running("d", 40, policy.ReadinessFalse), running("b", 20, policy.ReadinessFalse), running("c", 10, policy.ReadinessTrue)}}
	failed := reading
	failed.Instances = append([]policy.Instance{{ID: "failed", Phase: policy.PhaseFailed, StartedAt: at(35)}}, reading.Instances...)
	failed.Locations = append(targets.LocationList{{}}, reading.Locations.(targets.LocationList)...)
	facts := drain.Facts{
		CPUMilli:    map[string]int64{"a": 300, "b": 100, "c": 100, "d": 0, "kept": 0},
		Allocations: map[string]int{"a": 2, "b": 1, "d": 0, "young": 0},
	}
	for _, c := range []struct {
		order   drain.Order
		reading targets.Reading
		n       int
		want    string
		reason  string
	}{
		{drain.Oldest, reading, 9, "lost young a c b d", "its state is unknown"},
		{drain.Oldest, reading, 2, "lost young", "its state is unknown"},
		{drain.Oldest, reading, 0, "", ""},
		{drain.Oldest, reading, -1, "", ""},
		{drain.Newest, reading, 9, "lost young a d b c", "its state is unknown"},
		{drain.UnhealthyFirst, reading, 9, "lost young a c d b", "its state is unknown"},
		{drain.LeastCPU, reading, 9, "lost young a d c b", "its state is unknown"},
		{drain.EmptyNomadNodes, reading, 9, "lost young a d b c", "its state is unknown"},
		{drain.Oldest, ready, 9, "c b d", "it is the oldest, started 2026-01-01T00:00:10Z"},
		{drain.Newest, ready, 9, "d b c", "it is the newest, started 2026-01-01T00:00:40Z"},
		{drain.UnhealthyFirst, ready, 9, "c d b", "it became ready last"},
		{drain.UnhealthyFirst, unready, 2, "b d", "it is not ready"},
		{drain.LeastCPU, ready, 9, "d c b", "it uses the least cpu: 0m"},
		{drain.EmptyNomadNodes, ready, 9, "d b c", "its Nomad node is empty"},
		{drain.Oldest, failed, 2, "failed lost", "it failed"},
		{drain.Newest, failed, 2, "failed lost", "it failed"},
		{drain.UnhealthyFirst, failed, 2, "failed lost", "it failed"},
		{drain.LeastCPU, failed, 2, "failed lost", "it failed"},
	} {
		victims, err := c.order.Pick(c.reading, c.n, facts)
		if err != nil {
			t.Errorf("%s: %v", c.order, err)
		}
		var ids []string
		for _, victim := range victims {
			ids = append(ids, victim.ID)
			if victim.ID == "c" && c.reading.Locations != nil && victim.Name != "web-c" {
				t.Errorf("%s: victim %+v has no name", c.order, victim)
			}
		}
		if got := strings.Join(ids, " "); got != c.want {
			t.Errorf("%s.Pick(%d) = %s, want %s", c.order, c.n, got, c.want)
		}
		if len(victims) > 0 && victims[0].Reason != c.reason {
			t.Errorf("%s: reason = %q, want %q", c.order, victims[0].Reason, c.reason)
		}
	}
	for _, order := range []drain.Order{"", drain.Platform} {
		if victims, err := order.Pick(reading, 1, facts); err == nil {
			t.Errorf("Order(%q).Pick() = %v, want an error", order, victims)
		}
	}
}

// TestFacts checks that orders that need facts query them, and fail without them.
func TestFacts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDrainer("web-0", "web-1", "web-2")
		w := newWorld(t, 3, d)
		first := func() string {
			t.Helper()
			victims, err := w.fleet.Victims(t.Context(), w.ref, w.read(), 1)
			if err != nil || len(victims) != 1 {
				t.Fatalf("Victims(1) = %v, %v", victims, err)
			}
			return victims[0].ID + ": " + victims[0].Reason
		}
		w.configure(func(options *drain.Options) {
			options.Victims = drain.LeastCPU
			options.CPU = func(context.Context, targets.Ref) (map[string]int64, error) { return map[string]int64{"web-2": 7}, nil }
		})
		if got := first(); got != "web-2: it uses the least cpu: 7m" {
			t.Errorf("victim by the autoscaler's metric = %s", got)
		}
		d.allocations = map[string]int{"web-0": 3, "web-1": 1, "web-2": 2}
		w.configure(func(options *drain.Options) { options.Victims = drain.EmptyNomadNodes })
		if got := first(); got != "web-1: its Nomad node runs 1 allocation" {
			t.Errorf("victim by allocations = %s", got)
		}
		d.fail("allocations", errTest)
		if err := w.fleet.SetReplicas(t.Context(), w.ref, 2, "", "test decision"); !errors.Is(err, errTest) {
			t.Errorf("SetReplicas() without facts = %v, want the injected error", err)
		}
		w.expect("no instance was removed", 3, 3, 3)
		w.configure(func(options *drain.Options) { options.Drainer, options.CPU = nil, nil })
		for _, order := range []drain.Order{drain.EmptyNomadNodes, drain.LeastCPU} {
			w.configure(func(options *drain.Options) { options.Victims = order })
			if _, err := w.fleet.Victims(t.Context(), w.ref, w.read(), 1); !errors.Is(err, targets.ErrUnscalable) {
				t.Errorf("Victims() by %s without facts = %v, want ErrUnscalable", order, err)
			}
		}
	})
}
