package round_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/daemon/daemontest"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/sources"
)

// TestFormula checks that a formula sets the count, also after an outage of its source, and that it
// needs no samples of the fleet.
func TestFormula(t *testing.T) {
	daemontest.Run(t, func(t *testing.T, w *daemontest.World) {
		w.AddWithValue("web", 2, 6, func(a *config.Autoscaler) {
			text := "0.5 * " + a.Spec.Metrics[0].Name
			a.Spec.Metrics = append(slices.Clone(a.Spec.Metrics), policy.MetricSpec{
				Type: policy.ExternalMetric, Name: "formula", Formula: text,
				Target: policy.MetricTarget{Type: policy.AverageValueTarget, AverageValueMilli: new(int64(1000))},
			})
			a.Inputs = append(slices.Clone(a.Inputs), config.Input{Query: text})
		})
		w.Start()
		w.Advance(time.Minute)
		if got := w.Fleet().Replicas("web"); got != 3 {
			t.Errorf("%d replicas, want 3", got)
		}
		w.Source().Set("web", func(context.Context, time.Time) (sources.Vector, error) {
			return sources.Vector{}, errors.New("outage")
		})
		w.Advance(time.Minute)
		if got := w.View("web").Decision; got.Case != policy.CaseMetricsFailed || got.DesiredReplicas != 3 {
			t.Errorf("decision during the outage: %s, %d replicas", got.Case, got.DesiredReplicas)
		}
		w.Source().Value("web", 10)
		w.Advance(time.Minute)
		if got := w.Fleet().Replicas("web"); got != 5 {
			t.Errorf("%d replicas after the outage, want 5", got)
		}
	})
}
