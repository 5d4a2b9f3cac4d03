package round_test

import (
	"testing"
	"time"

	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/daemon/daemontest"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets/targettest"
)

// TestPrecedence checks the order of precedence in docs/operations.md. The bounds of the autoscaler
// are 2 and 20.
func TestPrecedence(t *testing.T) {
	for _, c := range []struct {
		name   string
		dryRun bool
		pause  policy.Direction // "" for no pause
		mode   policy.Mode
		// current is the count, and value is the value of the metric. fails adds a failing metric.
		current int32
		value   float64
		fails   bool
		want    int32
		heldBy  policy.HeldBy
		reason  policy.Case
	}{
		{name: "a dry run over bounds", dryRun: true, current: 30, value: 5, want: 30, reason: policy.CaseAboveMax},
		{name: "a dry run over metrics", dryRun: true, current: 5, value: 8, want: 5, reason: policy.CaseMetrics},
		{name: "a dry run with a pause", dryRun: true, pause: policy.Down, current: 5, value: 8, want: 5, reason: policy.CaseMetrics},
		{name: "a pause over recommend", pause: policy.BothDirections, mode: policy.ModeRecommend, current: 5, value: 8, want: 5, heldBy: policy.HeldByPause, reason: policy.CaseMetrics},
		{name: "a pause over up-only", pause: policy.Up, mode: policy.ModeUpOnly, current: 5, value: 8, want: 5, heldBy: policy.HeldByPause, reason: policy.CaseMetrics},
		{name: "a pause over max", pause: policy.Down, current: 30, value: 5, want: 30, heldBy: policy.HeldByPause, reason: policy.CaseAboveMax},
		{name: "a pause over min", pause: policy.BothDirections, current: 1, value: 5, want: 1, heldBy: policy.HeldByPause, reason: policy.CaseBelowMin},
		{name: "a pause of the other direction", pause: policy.Up, current: 30, value: 5, want: 20, reason: policy.CaseAboveMax},
		{name: "off over a pause", pause: policy.BothDirections, mode: policy.ModeOff, current: 5, value: 8, want: 5, reason: policy.CaseOff},
		{name: "recommend over max", mode: policy.ModeRecommend, current: 30, value: 5, want: 30, heldBy: policy.HeldByMode, reason: policy.CaseAboveMax},
		{name: "off over max", mode: policy.ModeOff, current: 30, value: 5, want: 30, reason: policy.CaseOff},
		{name: "max within up-only", mode: policy.ModeUpOnly, current: 30, value: 5, want: 20, reason: policy.CaseAboveMax},
		{name: "min within down-only", mode: policy.ModeDownOnly, current: 1, value: 1, want: 2, reason: policy.CaseBelowMin},
		{name: "down-only over metrics", mode: policy.ModeDownOnly, current: 5, value: 8, want: 5, heldBy: policy.HeldByMode, reason: policy.CaseMetrics},
		{name: "max over a failing metric", current: 30, value: 5, fails: true, want: 20, reason: policy.CaseAboveMax},
		{name: "a failing metric over windows", current: 8, value: 5, fails: true, want: 8, reason: policy.CaseMetricsFailed},
		{name: "rates after a failing metric", current: 5, value: 20, fails: true, want: 10, reason: policy.CaseMetrics},
		{name: "max over windows", current: 30, value: 30, want: 20, reason: policy.CaseAboveMax},
		{name: "windows", current: 8, value: 5, want: 8, reason: policy.CaseMetrics},
		{name: "rates", current: 5, value: 20, want: 10, reason: policy.CaseMetrics},
	} {
		for _, compat := range []string{"", "strict"} {
			t.Run(c.name+" "+compat, func(t *testing.T) {
				daemontest.Run(t, func(t *testing.T, w *daemontest.World) {
					w.DryRun, w.Config.Daemon.Compat = c.dryRun, compat
					low := int32(2)
					w.AddWithValue("web", 5, 5, func(a *config.Autoscaler) {
						a.Spec.MinReplicas, a.Spec.MaxReplicas = &low, 20
						if c.fails {
							metric := a.Spec.Metrics[0]
							metric.Name = "broken"
							a.Spec.Metrics = append(a.Spec.Metrics, metric)
							a.Inputs = append(a.Inputs, config.Input{Source: "source", Query: "broken"})
						}
					})
					a := w.Config.Autoscalers["web"]
					a.SyncPeriod, a.Mode = 15*time.Second, c.mode
					w.Fleet().Remove("web") // the test adds it again with the count
					w.Start()
					if c.pause != "" {
						w.Pause(policy.Scope{}, c.pause, 0)
					}
					w.Source().Value("web", c.value)
					w.Fleet().Add("web", targettest.MemoryTarget{Replicas: c.current, Age: time.Hour})
					w.Advance(15 * time.Second)
					w.WantCount("web", c.want)
					d := w.View("web").Decision
					if d.Case != c.reason || d.HeldBy != c.heldBy {
						t.Errorf("decision = %s held by %q, want %s held by %q: %s", d.Case, d.HeldBy, c.reason, c.heldBy, d.Message)
					}
					w.Stop()
				})
			})
		}
	}
}
