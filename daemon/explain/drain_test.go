package explain_test

import (
	"testing"
	"time"

	"github.com/hpad/hpad/daemon/explain"
	"github.com/hpad/hpad/targets/drain"
)

func TestDrainText(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 21, 18, 0, 0, 0, time.UTC)
	of := func(change func(op *drain.Operation)) drain.Operation {
		op := drain.Operation{Instance: drain.Instance{ID: "i-1", Name: "web-1"}, State: drain.Draining, Changed: at, Deadline: at.Add(time.Minute)}
		change(&op)
		return op
	}
	for _, c := range []struct {
		operation drain.Operation
		want      string
	}{
		{of(func(*drain.Operation) {}), "web-1 (i-1): draining since 2026-11-21 18:00:00 +0000, deadline 2026-11-21 18:01:00 +0000"},
		{of(func(op *drain.Operation) { op.State, op.Error = drain.Removing, "no\nanswer" }), "web-1 (i-1): removing since 2026-11-21 18:00:00 +0000; no answer"},
		{of(func(op *drain.Operation) { op.State, op.Why = drain.Undoing, "more are wanted" }), "web-1 (i-1): undoing since 2026-11-21 18:00:00 +0000; canceled: more are wanted"},
		{of(func(op *drain.Operation) { op.State, op.Outcome, op.Ended = drain.Ended, drain.Terminated, at }), "web-1 (i-1): terminated at 2026-11-21 18:00:00 +0000"},
	} {
		if got := explain.DrainText(c.operation, time.UTC); got != c.want {
			t.Errorf("DrainText(%+v) = %q, want %q", c.operation, got, c.want)
		}
	}
}
