package round_test

import (
	"testing"
	"time"

	"github.com/hpad/hpad/daemon/daemontest"
	"github.com/hpad/hpad/targets/targettest"
)

// TestQuarantine checks that a quarantined autoscaler shows the time of its next evaluation, and
// that a change to its configuration evaluates it immediately (R23).
func TestQuarantine(t *testing.T) {
	daemontest.Run(t, func(t *testing.T, w *daemontest.World) {
		w.AddWithValue("q", 3, 6)
		remove := w.Fleet().Inject(targettest.Fault{Call: targettest.WriteCall, Panic: "boom"})
		w.Start()
		w.Advance(time.Minute)
		got := w.View("q").Evaluation
		if got.QuarantinedUntil.IsZero() || got.Next.Before(got.QuarantinedUntil) {
			t.Errorf("evaluation = %+v, want the next at the end of the quarantine", got)
		}
		remove()
		changed := w.Config.Autoscalers["q"]
		changed.Spec.MaxReplicas = 50
		w.Reload()
		w.Advance(time.Second)
		if got := w.Fleet().Replicas("q"); got != 6 {
			t.Errorf("replicas = %d, want 6 immediately", got)
		}
		w.Stop()
	})
}
