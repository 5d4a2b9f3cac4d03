package daemon

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/policy"
)

// TestOnMissingOverRestarts checks that the duration of a metric's failure includes restarts, is
// not affected by clock steps, and is shown in all views.
func TestOnMissingOverRestarts(t *testing.T) {
	for name, step := range map[string]time.Duration{"restart": 0, "clock set back": -time.Hour, "clock set forward": 48 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.fed("web", 6, 6, func(a *config.Autoscaler) {
					a.Spec.Metrics[0].OnMissing = &policy.OnMissing{AfterSeconds: 180, Use: policy.UseReplicas, Replicas: 8}
				})
				w.start()
				w.advance(time.Minute)
				began := time.Now()
				w.source().set("web", nil) // a result without series
				w.advance(15 * time.Second)
				first := w.view("web").Status.Metrics[0].FirstFailureTime
				if first.Before(began) || first.After(w.wall()) {
					t.Fatalf("start of the failure = %s, want %s or later", first, began)
				}
				w.advance(time.Minute)
				w.stop()
				w.stepClock(step)
				w.advance(20 * time.Second)
				w.start()
				w.advance(time.Minute)
				view := w.view("web")
				if got := view.Status.Metrics[0].FirstFailureTime; !got.Equal(first.Add(step)) {
					t.Errorf("start of the failure after the restart = %s, want %s", got, first.Add(step))
				}
				if wait := view.Next.Waits[0]; wait.Replicas != 8 || !wait.Until.Equal(first.Add(step+3*time.Minute)) {
					t.Errorf("next: %+v", wait)
				}
				if got := w.fleet().Replicas("web"); got != 6 {
					t.Fatalf("replicas before the fallback = %d", got)
				}
				w.advance(45 * time.Second)
				view = w.view("web")
				want := []string{fmt.Sprintf("%s: 6>8", first.Sub(began)+3*time.Minute)}
				if got := w.writes("web", began); fmt.Sprint(got) != fmt.Sprint(want) {
					t.Errorf("writes = %v, want %v", got, want)
				}
				if got := w.condition("web", policy.ExternalMetricFallbackActive); got != "True/MetricMissing" {
					t.Errorf("ExternalMetricFallbackActive = %s", got)
				}
				if !strings.Contains(view.Evaluation.Error, "the source returned no value") || view.Evaluation.Reason != "MetricMissing" {
					t.Errorf("error = %q, reason = %s", view.Evaluation.Error, view.Evaluation.Reason)
				}
				w.source().value("web", 8)
				w.advance(15 * time.Second)
				if got, failed := w.condition("web", policy.ExternalMetricFallbackActive), w.view("web").Status.Metrics[0].FirstFailureTime; got != "False/MetricFound" || !failed.IsZero() {
					t.Errorf("ExternalMetricFallbackActive = %s, start of the failure = %s", got, failed)
				}
				w.stop()
			})
		})
	}
}

// TestOnMissingAfterDowntime checks that the duration of a metric's failure does not include a long
// downtime of hpad.
func TestOnMissingAfterDowntime(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.fed("web", 6, 6, func(a *config.Autoscaler) {
			a.Spec.Metrics[0].OnMissing = &policy.OnMissing{AfterSeconds: 180, Use: policy.UseMax}
		})
		w.start()
		w.advance(time.Minute)
		w.source().set("web", nil)
		w.advance(30 * time.Second)
		w.stop()
		w.advance(10 * time.Minute)
		w.start()
		w.advance(time.Minute)
		if got := w.fleet().Replicas("web"); got != 6 {
			t.Errorf("replicas = %d: hpad's downtime counted as a failure", got)
		}
		w.advance(3 * time.Minute)
		if got := w.fleet().Replicas("web"); got <= 6 {
			t.Errorf("replicas = %d after three minutes of observed failures, want more", got)
		}
		w.stop()
	})
}

// TestLastProposalIsKept checks that the last proposal of a metric survives a kill, even if a
// different metric determined the count.
func TestLastProposalIsKept(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.fed("web", 9, 9, func(a *config.Autoscaler) {
			a.Spec.Metrics = append(a.Spec.Metrics, a.Spec.Metrics[0])
			a.Spec.Metrics[1].OnMissing = &policy.OnMissing{AfterSeconds: 60, Use: policy.UseLast}
			a.Inputs = append(a.Inputs, config.Input{Source: "source", Query: "other"})
		})
		w.source().value("other", 4)
		w.start()
		w.advance(time.Minute)
		w.source().value("other", 6)
		w.advance(20 * time.Second)
		killed := w.store.copied()
		w.stop()
		w.store = killed
		w.source().set("other", nil)
		w.start()
		w.advance(2 * time.Minute)
		w.source().value("web", 1)
		w.advance(10 * time.Minute)
		if got := w.fleet().Replicas("web"); got != 6 {
			t.Errorf("replicas = %d, want the metric's last proposal of 6", got)
		}
		w.stop()
	})
}
