package round_test

import (
	"slices"
	"testing"
	"time"

	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/daemon/daemontest"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/targettest"
)

// runFinite runs a daemon with a target whose instances end by themselves, and one unit of work for
// each instance. restore reports whether external changes are reverted.
func runFinite(t *testing.T, count int32, do func(t *testing.T, w *daemontest.World)) {
	t.Helper()
	daemontest.Run(t, func(t *testing.T, w *daemontest.World) {
		w.Config.Daemon.ScaleToZero = true
		w.AddWithValue("web", count, float64(count), func(a *config.Autoscaler) {
			a.Spec.MinReplicas, a.OnForeignChange = new(int32(0)), config.RestoreForeignChange
		})
		w.Fleet().Change("web", func(target *targettest.MemoryTarget) {
			target.Edit = func(reading *targets.Reading) { reading.Finite, reading.Min = true, &reading.SpecReplicas }
		})
		w.Start()
		do(t, w)
	})
}

// TestFiniteEnds checks that instances that end are neither an external change nor maintenance, and
// that they are replaced as long as there is work.
func TestFiniteEnds(t *testing.T) {
	runFinite(t, 6, func(t *testing.T, w *daemontest.World) {
		w.Advance(time.Minute)
		w.ChangeReplicas(4)
		w.Advance(20 * time.Second)
		w.WantCount("web", 6)
		w.Source().Value("web", 1)
		w.ChangeReplicas(2)
		w.Advance(time.Minute)
		w.WantCount("web", 2)
		w.Source().Value("web", 0)
		w.ChangeReplicas(0)
		w.Advance(time.Minute)
		w.WantCount("web", 0)
		if got := w.View("web").Decision.Case; got != policy.CaseMetrics {
			t.Errorf("case = %s, want the metrics", got)
		}
		w.Source().Value("web", 3)
		w.Advance(20 * time.Second)
		w.WantCount("web", 3)
		for _, entry := range w.HistoryOf("web") {
			if entry.Decision.Foreign != nil {
				t.Errorf("an ended instance is an external change: %+v", entry.Decision)
			}
		}
	})
}

// TestFiniteForeign checks that a higher count is an external change, which is not reverted.
func TestFiniteForeign(t *testing.T) {
	runFinite(t, 3, func(t *testing.T, w *daemontest.World) {
		w.Advance(time.Minute)
		w.ChangeReplicas(5)
		w.Advance(time.Minute)
		w.WantCount("web", 5)
		if got := w.Condition("web", policy.ForeignWriter); got != "True/CountChanged" {
			t.Errorf("ForeignWriter = %s", got)
		}
	})
}

// TestFiniteUnknownOutcome checks that a lower count after a write without a response does not count
// as proof of the write.
func TestFiniteUnknownOutcome(t *testing.T) {
	runFinite(t, 3, func(t *testing.T, w *daemontest.World) {
		w.Advance(time.Minute)
		w.Fleet().Inject(targettest.Fault{Call: targettest.WriteCall, Times: 1, Err: targets.ErrUnknownOutcome})
		w.Source().Value("web", 5)
		w.Advance(15 * time.Second)
		w.ChangeReplicas(2)
		w.Advance(15 * time.Second)
		w.WantCount("web", 4) // R57: twice the count
		if got := w.Reasons("web"); !slices.Contains(got, "SuccessfulRescale x1") {
			t.Errorf("events = %q, want one rescale", got)
		}
	})
}
