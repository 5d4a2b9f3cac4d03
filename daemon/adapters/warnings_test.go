package adapters_test

import (
	"context"
	"testing"
	"time"

	"github.com/hpad/hpad/daemon/daemontest"
	"github.com/hpad/hpad/sources"
)

// TestWarnings checks that a warning of a source is logged once and shown with every decision.
func TestWarnings(t *testing.T) {
	daemontest.Run(t, func(t *testing.T, w *daemontest.World) {
		logs := w.Observed()
		w.Add("q", 3)
		w.Source().Set("q", func(_ context.Context, at time.Time) (sources.Vector, error) {
			v := daemontest.Vector(3, at)
			v.Warnings = []string{"metric might not be a counter"}
			return v, nil
		})
		w.Start()
		w.Advance(10 * time.Minute)
		if got := logs.FilterMessage("source warning").Len(); got != 1 {
			t.Errorf("the warning was logged %d times, want once", got)
		}
		if got := w.View("q").Decision.Metrics[0].Warnings; len(got) != 1 {
			t.Errorf("warnings of the decision = %q, want only this one", got)
		}
		w.Stop()
	})
}
