package status_test

import (
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/daemontest"
	"github.com/hpad/hpad/daemon/metrics"
	"github.com/hpad/hpad/targets/targettest"
)

// TestDisabledIsShown checks that an autoscaler disabled by a count of 0 is listed as a problem,
// and that hpad logs when it is disabled, after a restart, and when it is enabled again.
func TestDisabledIsShown(t *testing.T) {
	daemontest.Run(t, func(t *testing.T, w *daemontest.World) {
		w.Add("web", 3)
		w.Add("fine", 3)
		w.Source().Value("web", 3)
		w.Source().Value("fine", 3)
		logs := w.Observed()
		w.Start()
		w.Advance(time.Minute)
		if got := w.Problems(); len(got) != 0 {
			t.Errorf("problems before = %q", got)
		}
		logs.TakeAll()

		want := []string{"autoscaler web: " + api.Disabled}
		set := func(replicas int32) {
			w.Fleet().Change("web", func(target *targettest.MemoryTarget) { target.Replicas = replicas })
			w.Advance(time.Minute)
		}
		set(0)
		if got := daemontest.Messages(logs); !slices.Equal(got, []string{"count changed by external writer", "autoscaling is disabled"}) {
			t.Errorf("log = %q", got)
		}
		if readiness := w.Daemon.Readiness(); !readiness.Ready || !slices.Equal(w.Problems(), want) {
			t.Errorf("ready = %v with problems %q, want true with %q", readiness.Ready, w.Problems(), want)
		}
		if got := w.Daemon.Line(); got != "2 autoscalers, 0 failing, 1 off" {
			t.Errorf("status line = %q", got)
		}

		w.Stop()
		logs.TakeAll()
		w.Start()
		w.Advance(time.Minute)
		if got := sorted(daemontest.Messages(logs)); !slices.Equal(got, []string{"autoscaling is disabled", "started"}) {
			t.Errorf("log after a restart = %q", got)
		}
		logs.TakeAll()
		set(3)
		if got := daemontest.Messages(logs); !slices.Equal(got, []string{"count changed by external writer", "autoscaling is enabled again"}) {
			t.Errorf("log at the end = %q", got)
		}
		if got := w.Problems(); len(got) != 0 {
			t.Errorf("problems after = %q", got)
		}
		w.Stop()
	})
}

// TestDryRunIsShown checks that a dry run is listed as a problem of the daemon, is exported as a
// metric, and is logged at startup.
func TestDryRunIsShown(t *testing.T) {
	for _, dry := range []bool{true, false} {
		daemontest.Run(t, func(t *testing.T, w *daemontest.World) {
			w.DryRun = dry
			registry := prometheus.NewRegistry()
			w.Metrics = metrics.New(registry)
			w.AddWithValue("web", 3, 3)
			logs := w.Observed()
			w.Start()
			w.Advance(time.Minute)
			var problems []string
			logged := []string{"started"}
			want := 0.0
			if dry {
				problems, logged, want = []string{"daemon: " + api.DryRun}, append(logged, api.DryRun), 1
			}
			if got := daemontest.Messages(logs); !slices.Equal(got, logged) {
				t.Errorf("log = %q, want %q", got, logged)
			}
			if readiness := w.Daemon.Readiness(); !readiness.Ready || !slices.Equal(w.Problems(), problems) {
				t.Errorf("ready = %v with problems %q, want true with %q", readiness.Ready, w.Problems(), problems)
			}
			if got := gauge(t, registry, "hpad_dry_run"); got != want {
				t.Errorf("hpad_dry_run = %v, want %v", got, want)
			}
			w.Stop()
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
