package daemon

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/metrics"
	"github.com/hpad/hpad/sources"
	"github.com/hpad/hpad/targets/targettest"
)

// observed collects log entries of level info and above.
func (w *world) observed() *observer.ObservedLogs {
	core, logs := observer.New(zapcore.InfoLevel)
	w.log = zap.New(core)
	return logs
}

func messages(logs *observer.ObservedLogs) []string {
	var all []string
	for _, entry := range logs.TakeAll() {
		all = append(all, entry.Message)
	}
	return all
}

// TestProblems checks that a rejected configuration and problems of adapters are shown while they
// last.
func TestProblems(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.fed("q", 3, 3)
		withProblems := &problemSource{memorySource: w.source()}
		w.sourceKind = func(string) sources.Source { return withProblems }
		w.start()
		w.loadErr = errors.New("hpad.toml:3: unknown key")
		if _, err := w.daemon.Reload(t.Context()); err == nil {
			t.Error("an invalid file was accepted")
		}
		withProblems.problems = []string{"scrape 127.0.0.1:9100: 500"}
		want := []api.Problem{
			{Subject: "configuration", Message: "hpad.toml:3: unknown key"},
			{Subject: "source source", Message: "scrape 127.0.0.1:9100: 500"},
		}
		if got := w.daemon.Readiness().Problems; !slices.Equal(got, want) {
			t.Errorf("problems = %v, want %v", got, want)
		}
		w.loadErr, withProblems.problems = nil, nil
		if _, err := w.daemon.Reload(t.Context()); err != nil {
			t.Error(err)
		}
		if got := w.daemon.Readiness().Problems; len(got) != 0 {
			t.Errorf("problems = %v, want none", got)
		}
		w.stop()
	})
}

type problemSource struct {
	*memorySource
	problems []string
}

func (s *problemSource) Problems() []string { return s.problems }

// TestQuarantine checks that a quarantined autoscaler shows the time of its next evaluation, and
// that a change to its configuration evaluates it immediately (R23).
func TestQuarantine(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.fed("q", 3, 6)
		remove := w.fleet().Inject(targettest.Fault{Call: targettest.WriteCall, Panic: "boom"})
		w.start()
		w.advance(time.Minute)
		got := w.view("q").Evaluation
		if got.QuarantinedUntil.IsZero() || got.Next.Before(got.QuarantinedUntil) {
			t.Errorf("evaluation = %+v, want the next at the end of the quarantine", got)
		}
		remove()
		changed := w.config.Autoscalers["q"]
		changed.Spec.MaxReplicas = 50
		w.config.Autoscalers["q"] = changed
		if _, err := w.daemon.Reload(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.advance(time.Second)
		if got := w.fleet().Replicas("q"); got != 6 {
			t.Errorf("replicas = %d, want 6 immediately", got)
		}
		w.stop()
	})
}

// TestWarnings checks that a warning of a source is logged once and shown with every decision.
func TestWarnings(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		logs := w.observed()
		w.queue("q", 3)
		w.source().set("q", func(_ context.Context, at time.Time) (sources.Vector, error) {
			v := one(3, at)
			v.Warnings = []string{"metric might not be a counter"}
			return v, nil
		})
		w.start()
		w.advance(10 * time.Minute)
		if got := logs.FilterMessage("source warning").Len(); got != 1 {
			t.Errorf("the warning was logged %d times, want once", got)
		}
		if got := w.view("q").Decision.Metrics[0].Warnings; len(got) != 1 {
			t.Errorf("warnings of the decision = %q, want only this one", got)
		}
		w.stop()
	})
}

// TestAutoscalerSeriesFollowTheConfiguration checks that a reload can remove the series of
// autoscalers from the metrics and restore them.
func TestAutoscalerSeriesFollowTheConfiguration(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.fed("q", 3, 3)
		registry := prometheus.NewRegistry()
		w.metrics = metrics.New(registry)
		w.start()
		w.advance(time.Minute)
		for _, on := range []bool{true, false, true} {
			w.config.Daemon.AutoscalerSeries = on
			if _, err := w.daemon.Reload(t.Context()); err != nil {
				t.Fatal(err)
			}
			var text strings.Builder
			if err := w.metrics.Exposition(registry).WriteText(&text); err != nil {
				t.Fatal(err)
			}
			if got := strings.Contains(text.String(), `hpad_autoscaler_failing{autoscaler="q"} 0`); got != on {
				t.Errorf("autoscaler_series = %v: series exist: %v", on, got)
			}
			if !strings.Contains(text.String(), "hpad_autoscalers 1\n") {
				t.Errorf("autoscaler_series = %v: the number of autoscalers is missing", on)
			}
		}
		w.stop()
	})
}
