package records_test

import (
	"testing"
	"time"

	"github.com/hpad/hpad/daemon/records"
	"github.com/hpad/hpad/daemon/state"
	"github.com/hpad/hpad/policy"
)

// TestLowestCount checks the lowest count that a target can have after each kind of record.
func TestLowestCount(t *testing.T) {
	for name, test := range map[string]struct {
		record state.Record
		want   int32
	}{
		"unknown":         {state.Record{}, 7},
		"known":           {state.Record{ExpectedReplicas: new(int32(4))}, 4},
		"open scale-down": {state.Record{Intention: &policy.Intention{From: 5, To: 2}, ExpectedReplicas: new(int32(5))}, 2},
		"open scale-up":   {state.Record{Intention: &policy.Intention{From: 2, To: 5}, ExpectedReplicas: new(int32(2))}, 2},
	} {
		if got := records.LowestCount(&test.record, 7); got != test.want {
			t.Errorf("%s: lowest count = %d, want %d", name, got, test.want)
		}
	}
}

// TestExpectedReplicas checks the expected count after each outcome of a pass.
func TestExpectedReplicas(t *testing.T) {
	read, unread := policy.Decision{CurrentReplicas: 3}, policy.Decision{Case: policy.CaseUnreadable}
	for name, test := range map[string]struct {
		decision  policy.Decision
		intention *policy.Intention
		outcome   policy.Outcome
		want      int32 // 0 means unknown
	}{
		"read":            {decision: read, want: 3},
		"not read":        {decision: unread, want: 9},
		"written":         {decision: read, outcome: policy.Outcome{Kind: policy.Written, Reached: 6}, want: 6},
		"unknown outcome": {decision: read, intention: &policy.Intention{From: 3, To: 6}, outcome: policy.Outcome{Kind: policy.WriteFailed}},
	} {
		record := state.Record{Intention: test.intention, ExpectedReplicas: new(int32(9))}
		records.SetExpectedReplicas(&record, &test.decision, test.outcome)
		if got := record.ExpectedReplicas; test.want == 0 && got != nil || test.want > 0 && (got == nil || *got != test.want) {
			t.Errorf("%s: expected count = %v, want %d", name, got, test.want)
		}
	}
}

// TestFollows checks that the store can derive a record from the record of the previous tick, unless
// any data that a restart needs has changed.
func TestFollows(t *testing.T) {
	const period = 15 * time.Second
	start := time.Unix(0, 0)
	before := state.Record{Through: start, Replay: &state.Replay{Replicas: 3, Period: period}}
	for name, change := range map[string]func(*state.Record){
		"":                   func(*state.Record) {},
		"a missed tick":      func(r *state.Record) { r.Through = start.Add(2 * period) },
		"recommendation":     func(r *state.Record) { r.Replay = &state.Replay{Replicas: 4, Period: period} },
		"intention":          func(r *state.Record) { r.Intention = &policy.Intention{} },
		"expected count":     func(r *state.Record) { r.ExpectedReplicas = new(int32(3)) },
		"restoration":        func(r *state.Record) { r.Restore = &policy.PendingRestoration{} },
		"accepted counts":    func(r *state.Record) { r.LastCounts = &state.Counts{} },
		"rejected readings":  func(r *state.Record) { r.ImplausibleReadings = 1 },
		"bounds":             func(r *state.Record) { r.Bounds = &state.Bounds{} },
		"obstacle":           func(r *state.Record) { r.Obstacle = &state.Obstacle{Cause: "a"} },
		"configuration":      func(r *state.Record) { r.Digest = "a" },
		"desired count":      func(r *state.Record) { r.Status.DesiredReplicas = 4 },
		"condition":          func(r *state.Record) { r.Status.Conditions = []policy.Condition{{Type: policy.ScalingActive}} },
		"first ready time":   func(r *state.Record) { r.Memory.NoReadySince = start },
		"first start":        func(r *state.Record) { r.NeverStarted = !r.NeverStarted },
		"stop by a schedule": func(r *state.Record) { r.Memory.Stopped = !r.Memory.Stopped },
	} {
		after := before
		after.Through = start.Add(period)
		change(&after)
		if got, want := records.Follows(&after, &before, period), name == ""; got != want {
			t.Errorf("Follows with changed %q = %t, want %t", name, got, want)
		}
	}
}
