package round_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/daemon/daemontest"
	"github.com/hpad/hpad/policy"
)

// TestOnMissingOverRestarts checks that the duration of a metric's failure includes restarts, is
// not affected by clock steps, and is shown in all views.
func TestOnMissingOverRestarts(t *testing.T) {
	for name, step := range map[string]time.Duration{"restart": 0, "clock set back": -time.Hour, "clock set forward": 48 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			daemontest.Run(t, func(t *testing.T, w *daemontest.World) {
				w.AddWithValue("web", 6, 6, func(a *config.Autoscaler) {
					a.Spec.Metrics[0].OnMissing = &policy.OnMissing{AfterSeconds: 180, Use: policy.UseReplicas, Replicas: 8}
				})
				w.Start()
				w.Advance(time.Minute)
				began := time.Now()
				w.Source().Set("web", nil) // a result without series
				w.Advance(15 * time.Second)
				first := w.View("web").Status.Metrics[0].FirstFailureTime
				if first.Before(began) || first.After(w.Wall()) {
					t.Fatalf("start of the failure = %s, want %s or later", first, began)
				}
				w.Advance(time.Minute)
				w.Stop()
				w.StepClock(step)
				w.Advance(20 * time.Second)
				w.Start()
				w.Advance(time.Minute)
				view := w.View("web")
				if got := view.Status.Metrics[0].FirstFailureTime; !got.Equal(first.Add(step)) {
					t.Errorf("start of the failure after the restart = %s, want %s", got, first.Add(step))
				}
				if wait := view.Next.Waits[0]; wait.Replicas != 8 || !wait.Until.Equal(first.Add(step+3*time.Minute)) {
					t.Errorf("next: %+v", wait)
				}
				if got := w.Fleet().Replicas("web"); got != 6 {
					t.Fatalf("replicas before the fallback = %d", got)
				}
				w.Advance(45 * time.Second)
				view = w.View("web")
				want := []string{fmt.Sprintf("%s: 6>8", first.Sub(began)+3*time.Minute)}
				if got := w.Writes("web", began); fmt.Sprint(got) != fmt.Sprint(want) {
					t.Errorf("writes = %v, want %v", got, want)
				}
				if got := w.Condition("web", policy.ExternalMetricFallbackActive); got != "True/MetricMissing" {
					t.Errorf("ExternalMetricFallbackActive = %s", got)
				}
				if !strings.Contains(view.Evaluation.Error, "the source returned no value") || view.Evaluation.Reason != "MetricMissing" {
					t.Errorf("error = %q, reason = %s", view.Evaluation.Error, view.Evaluation.Reason)
				}
				w.Source().Value("web", 8)
				w.Advance(15 * time.Second)
				if got, failed := w.Condition("web", policy.ExternalMetricFallbackActive), w.View("web").Status.Metrics[0].FirstFailureTime; got != "False/MetricFound" || !failed.IsZero() {
					t.Errorf("ExternalMetricFallbackActive = %s, start of the failure = %s", got, failed)
				}
				w.Stop()
			})
		})
	}
}

// TestOnMissingAfterDowntime checks that the duration of a metric's failure does not include a long
// downtime of hpad.
func TestOnMissingAfterDowntime(t *testing.T) {
	daemontest.Run(t, func(t *testing.T, w *daemontest.World) {
		w.AddWithValue("web", 6, 6, func(a *config.Autoscaler) {
			a.Spec.Metrics[0].OnMissing = &policy.OnMissing{AfterSeconds: 180, Use: policy.UseMax}
		})
		w.Start()
		w.Advance(time.Minute)
		w.Source().Set("web", nil)
		w.Advance(30 * time.Second)
		w.Stop()
		w.Advance(10 * time.Minute)
		w.Start()
		w.Advance(time.Minute)
		if got := w.Fleet().Replicas("web"); got != 6 {
			t.Errorf("replicas = %d: hpad's downtime counted as a failure", got)
		}
		w.Advance(3 * time.Minute)
		if got := w.Fleet().Replicas("web"); got <= 6 {
			t.Errorf("replicas = %d after three minutes of observed failures, want more", got)
		}
		w.Stop()
	})
}

// TestLastProposalIsKept checks that the last proposal of a metric survives a kill, even if a
// different metric determined the count.
func TestLastProposalIsKept(t *testing.T) {
	daemontest.Run(t, func(t *testing.T, w *daemontest.World) {
		w.AddWithValue("web", 9, 9, func(a *config.Autoscaler) {
			a.Spec.Metrics = append(a.Spec.Metrics, a.Spec.Metrics[0])
			a.Spec.Metrics[1].OnMissing = &policy.OnMissing{AfterSeconds: 60, Use: policy.UseLast}
			a.Inputs = append(a.Inputs, config.Input{Source: "source", Query: "other"})
		})
		w.Source().Value("other", 4)
		w.Start()
		w.Advance(time.Minute)
		w.Source().Value("other", 6)
		w.Advance(20 * time.Second)
		killed := w.Store.Copied()
		w.Stop()
		w.Store = killed
		w.Source().Set("other", nil)
		w.Start()
		w.Advance(2 * time.Minute)
		w.Source().Value("web", 1)
		w.Advance(10 * time.Minute)
		if got := w.Fleet().Replicas("web"); got != 6 {
			t.Errorf("replicas = %d, want the metric's last proposal of 6", got)
		}
		w.Stop()
	})
}
