package daemon

import (
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/metrics"
	"github.com/hpad/hpad/targets/targettest"
)

// TestDisabledIsShown checks that an autoscaler disabled by a count of 0 is listed as a problem,
// and that hpad logs when it is disabled, after a restart, and when it is enabled again.
func TestDisabledIsShown(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.queue("web", 3)
		w.queue("fine", 3)
		w.source().value("web", 3)
		w.source().value("fine", 3)
		logs := w.observed()
		w.start()
		w.advance(time.Minute)
		if got := w.problems(); len(got) != 0 {
			t.Errorf("problems before = %q", got)
		}
		logs.TakeAll()

		want := []string{"autoscaler web: " + api.Disabled}
		set := func(replicas int32) {
			w.fleet().Change("web", func(target *targettest.MemoryTarget) { target.Replicas = replicas })
			w.advance(time.Minute)
		}
		set(0)
		if got := messages(logs); !slices.Equal(got, []string{"count changed by external writer", "autoscaling is disabled"}) {
			t.Errorf("log = %q", got)
		}
		if readiness := w.daemon.Readiness(); !readiness.Ready || !slices.Equal(w.problems(), want) {
			t.Errorf("ready = %v with problems %q, want true with %q", readiness.Ready, w.problems(), want)
		}
		if got := w.daemon.Line(); got != "2 autoscalers, 0 failing, 1 off" {
			t.Errorf("status line = %q", got)
		}

		w.stop()
		logs.TakeAll()
		w.start()
		w.advance(time.Minute)
		if got := sorted(messages(logs)); !slices.Equal(got, []string{"autoscaling is disabled", "started"}) {
			t.Errorf("log after a restart = %q", got)
		}
		logs.TakeAll()
		set(3)
		if got := messages(logs); !slices.Equal(got, []string{"count changed by external writer", "autoscaling is enabled again"}) {
			t.Errorf("log at the end = %q", got)
		}
		if got := w.problems(); len(got) != 0 {
			t.Errorf("problems after = %q", got)
		}
		w.stop()
	})
}

// TestDryRunIsShown checks that a dry run is listed as a problem of the daemon, is exported as a
// metric, and is logged at startup.
func TestDryRunIsShown(t *testing.T) {
	for _, dry := range []bool{true, false} {
		inWorld(t, func(t *testing.T, w *world) {
			w.dryRun = dry
			registry := prometheus.NewRegistry()
			w.metrics = metrics.New(registry)
			w.fed("web", 3, 3)
			logs := w.observed()
			w.start()
			w.advance(time.Minute)
			var problems []string
			logged := []string{"started"}
			want := 0.0
			if dry {
				problems, logged, want = []string{"daemon: " + api.DryRun}, append(logged, api.DryRun), 1
			}
			if got := messages(logs); !slices.Equal(got, logged) {
				t.Errorf("log = %q, want %q", got, logged)
			}
			if readiness := w.daemon.Readiness(); !readiness.Ready || !slices.Equal(w.problems(), problems) {
				t.Errorf("ready = %v with problems %q, want true with %q", readiness.Ready, w.problems(), problems)
			}
			if got := gauge(t, registry, "hpad_dry_run"); got != want {
				t.Errorf("hpad_dry_run = %v, want %v", got, want)
			}
			w.stop()
		})
	}
}

func sorted(messages []string) []string { return slices.Sorted(slices.Values(messages)) }

// gauge returns the value of a gauge without labels.
func gauge(t *testing.T, registry *prometheus.Registry, name string) float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() == name {
			return family.Metric[0].GetGauge().GetValue()
		}
	}
	t.Fatalf("metric %s not found", name)
	return 0
}
