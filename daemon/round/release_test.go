package round_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/daemon/daemontest"
	"github.com/hpad/hpad/sources"
	"github.com/hpad/hpad/targets/targettest"
)

// collected returns the given number of series with a label "id", which use memory from budget.
func collected(ctx context.Context, budget *sources.Budget, series int, at time.Time) (sources.Vector, error) {
	c, err := budget.Collect(ctx, sources.Query{Labels: []string{"id"}})
	if err != nil {
		return sources.Vector{}, err
	}
	for i := range series {
		if err := c.Label([]byte("id"), fmt.Append(nil, i)); err != nil {
			return sources.Vector{}, err
		}
		if err := c.Add(3, at); err != nil {
			c.Release()
			return sources.Vector{}, err
		}
	}
	return c.Vector(nil), nil
}

// TestResultsAreReleased checks that a query result is released after the last pass has read it, or
// when it arrives after all passes have timed out. It must not be retained during the writes of the
// round.
func TestResultsAreReleased(t *testing.T) {
	daemontest.Run(t, func(t *testing.T, w *daemontest.World) {
		budget := sources.NewBudget(16<<20, "")
		var delay atomic.Int64
		w.Source().Set("shared", func(ctx context.Context, at time.Time) (sources.Vector, error) {
			vector, err := collected(ctx, budget, 10, at)
			time.Sleep(time.Duration(delay.Load())) // ignores the context
			return vector, err
		})
		shared := func(a *config.Autoscaler) {
			a.Inputs[0].Query, a.Inputs[0].Select = "shared", sources.Labels{{Name: "id", Value: "1"}}
			a.Spec.Metrics, a.Inputs = append(a.Spec.Metrics, a.Spec.Metrics[0]), append(a.Inputs, a.Inputs[0])
		}
		w.Add("steady", 3, shared)
		w.Add("stuck", 1, shared) // its metric requests 3 replicas
		w.Add("hasty", 3, shared, func(a *config.Autoscaler) { a.SyncPeriod = time.Second })
		remove := w.Fleet().Inject(targettest.Fault{Call: targettest.WriteCall, Target: "stuck", Hang: true})
		w.Start()
		w.Advance(100 * time.Millisecond)
		held := func(when string, want bool) {
			t.Helper()
			if used := budget.Usage().Used; (used > 0) != want {
				t.Errorf("%s: retained bytes = %d, want more than 0: %t", when, used, want)
			}
		}
		held("while a write hangs", false)
		w.Advance(time.Minute + 100*time.Millisecond)
		held("while its autoscaler is late", false)
		delay.Store(int64(800 * time.Millisecond))
		w.Advance(time.Minute) // a tick of all autoscalers
		held("until the result arrives", true)
		w.Advance(550 * time.Millisecond)
		held("while hasty has timed out and others wait", true)
		w.Advance(100 * time.Millisecond)
		held("after the other passes read it", false)
		delay.Store(int64(12 * time.Second)) // longer than any timeout
		w.Advance(14 * time.Second)
		w.Advance(11 * time.Second)
		held("after all passes timed out", true)
		delay.Store(0)
		w.Advance(14 * time.Second)
		held("after late results", false)
		if got := w.View("steady").Evaluation.Error; got != "" {
			t.Errorf("the autoscaler steady failed: %s", got)
		}
		remove()
		w.Stop()
		held("at the end", false)
	})
}
