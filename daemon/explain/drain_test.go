package explain_test

import (
	"strings"
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

// TestInstanceText checks that an instance has the name that people know, and that its ID is added
// only if they can read it.
func TestInstanceText(t *testing.T) {
	long := strings.Repeat("4f", 32)
	for _, c := range []struct{ id, name, want string }{
		{"web-1", "", "web-1"},
		{"web-1", "web-1", "web-1"},
		{"i-0abc", "ip-10-0-0-1", "ip-10-0-0-1 (i-0abc)"},
		{"0d3a4f5e-8a55-4a0a-8f0c-0d2ac2f6a2b1", "web.app[0]", "web.app[0] (0d3a4f5e-8a55-4a0a-8f0c-0d2ac2f6a2b1)"},
		{long, "shop-web-1", "shop-web-1"},
		{"k3x", "web.1.k3x", "web.1.k3x"},
	} {
		if got := explain.InstanceText(c.id, c.name); got != c.want {
			t.Errorf("InstanceText(%q, %q) = %q, want %q", c.id, c.name, got, c.want)
		}
	}
}
