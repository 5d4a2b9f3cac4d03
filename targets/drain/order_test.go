package drain_test

import (
	"strings"
	"testing"
	"time"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/drain"
)

// TestPick: each order takes whom it says, and why.
func TestPick(t *testing.T) {
	at := func(second int) time.Time { return time.Date(2026, 1, 1, 0, 0, second, 0, time.UTC) }
	running := func(id string, second int, ready policy.Readiness) policy.Instance {
		return policy.Instance{ID: id, Phase: policy.PhaseRunning, Readiness: ready, StartedAt: at(second)}
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
		{drain.Oldest, reading, 9, "c a b lost d young", "it is the oldest, started 2026-01-01T00:00:10Z"},
		{drain.Oldest, reading, 2, "c a", "it is the oldest, started 2026-01-01T00:00:10Z"},
		{drain.Oldest, reading, 0, "", ""},
		{drain.Oldest, reading, -1, "", ""},
		{drain.Newest, reading, 9, "young d lost a b c", "it is the newest"},
		{drain.UnhealthyFirst, reading, 9, "lost a young c b d", "its state is not known"},
		{drain.LeastCPU, reading, 9, "d c b a lost young", "it uses the least cpu: 0m"},
		{drain.EmptyNomadNodes, reading, 9, "d young b a c lost", "its Nomad node is empty"},
		{drain.Oldest, failed, 2, "failed c", "it failed"},
		{drain.Newest, failed, 2, "failed young", "it failed"},
		{drain.UnhealthyFirst, failed, 2, "failed lost", "it failed"},
		{drain.LeastCPU, failed, 2, "failed d", "it failed"},
	} {
		victims, err := c.order.Pick(c.reading, c.n, facts)
		if err != nil {
			t.Errorf("%s: %v", c.order, err)
		}
		var ids []string
		for _, victim := range victims {
			ids = append(ids, victim.ID)
			if victim.ID == "c" && victim.Name != "web-c" {
				t.Errorf("%s: %+v lacks its name", c.order, victim)
			}
		}
		if got := strings.Join(ids, " "); got != c.want {
			t.Errorf("%s takes %d: %s, want %s", c.order, c.n, got, c.want)
		}
		if len(victims) > 0 && victims[0].Reason != c.reason {
			t.Errorf("%s: reason %q, want %q", c.order, victims[0].Reason, c.reason)
		}
	}
	for _, order := range []drain.Order{"", drain.Platform, "biggest"} {
		if victims, err := order.Pick(reading, 1, facts); err == nil {
			t.Errorf("%q takes %v, want an error", order, victims)
		}
	}
	if err := drain.Order("biggest").Validate(); err == nil || !strings.Contains(err.Error(), `"biggest" is no order of victims: want one of platform, oldest,`) {
		t.Errorf("Validate() = %v", err)
	}
	for _, order := range append(drain.Orders(), "") {
		if err := order.Validate(); err != nil {
			t.Errorf("%q: %v", order, err)
		}
	}
}
