package round_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/daemon/daemontest"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/sources"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/drain"
	"github.com/hpad/hpad/targets/drain/command"
	"github.com/hpad/hpad/targets/targettest"
)

// newRemovingWorld returns a world with a fleet that removes instances by name, and an autoscaler
// "web" that scales from 4 to 2 replicas.
func newRemovingWorld(t *testing.T, edit func(*config.Autoscaler)) *daemontest.World {
	w := daemontest.New(t)
	w.FleetKind = func(memory *targettest.Memory) targets.Fleet { return targettest.Removable{Memory: memory} }
	w.Add("web", 4, func(a *config.Autoscaler) {
		a.Spec.Behavior = &policy.Behavior{ScaleDown: &policy.ScalingRules{StabilizationWindowSeconds: new(int32(0))}}
		edit(a)
	})
	w.Source().Value("web", 2)
	return w
}

func removals(w *daemontest.World) []string {
	var all []string
	for _, removal := range (targettest.Removable{Memory: w.Fleet()}).Removals() {
		all = append(all, strings.Join(removal.IDs, " "))
	}
	return all
}

func victimIDs(victims []drain.Victim) string {
	var ids []string
	for _, victim := range victims {
		ids = append(ids, victim.ID)
	}
	return strings.Join(ids, " ")
}

// TestVictims checks that instances are removed in the configured order, and that they are
// published and recorded with the decision.
func TestVictims(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newRemovingWorld(t, func(a *config.Autoscaler) { a.Victims = drain.Newest })
		w.Start()
		defer w.Stop()
		w.Advance(10 * time.Second)
		w.Advance(5 * time.Second)
		if got := w.Fleet().Replicas("web"); got != 2 {
			t.Fatalf("%d replicas, want 2", got)
		}
		removals := removals(w)
		if len(removals) != 1 || strings.Count(removals[0], " ") != 1 {
			t.Fatalf("removals = %q, want two instances in one removal", removals)
		}
		entries := w.HistoryOf("web")
		if len(entries) == 0 || victimIDs(entries[0].Victims) != removals[0] {
			t.Errorf("history = %+v, but the removed instances are %q", entries, removals[0])
		}
	})
}

// TestVictimsByCPU checks that least-cpu removes the instances with the lowest value of the
// autoscaler's CPU metric.
func TestVictimsByCPU(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newRemovingWorld(t, func(a *config.Autoscaler) {
			a.Victims = drain.LeastCPU
			goal := int32(80)
			a.Spec.Metrics = append(a.Spec.Metrics, policy.MetricSpec{
				Type: policy.ResourceMetric, Name: "cpu",
				Target: policy.MetricTarget{Type: policy.UtilizationTarget, AverageUtilization: &goal},
			})
			a.Requests = []policy.Amount{{Resource: "cpu", Milli: 1000}}
			a.Inputs = append(a.Inputs, config.Input{Source: "source", Query: "cpu", InstanceLabel: "id", Match: config.MatchID, Window: time.Minute})
		})
		ids := instanceIDs(w, t, "web")
		w.Source().Set("cpu", func(_ context.Context, at time.Time) (sources.Vector, error) {
			var vector sources.Vector
			for i, id := range ids {
				vector.Series = append(vector.Series, sources.Series{Labels: sources.LabelsOf(map[string]string{"id": id}), Value: 0.1 * float64(1+(i+2)%4), At: at})
			}
			return vector, nil
		})
		w.Start()
		defer w.Stop()
		w.Advance(time.Minute)
		// The values are 0.3, 0.4, 0.1 and 0.2.
		if got := removals(w); len(got) == 0 || got[0] != ids[2]+" "+ids[3] {
			t.Errorf("removed instances = %q, want the third and fourth of %q", got, ids)
		}
	})
}

// instanceIDs returns the IDs of a target's instances.
func instanceIDs(w *daemontest.World, t *testing.T, name string) []string {
	t.Helper()
	ref := w.Fleet().Ref(name)
	readings, err := w.Fleet().Snapshot(t.Context(), []targets.Ref{ref})
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, instance := range readings[ref].Instances {
		ids = append(ids, instance.ID)
	}
	return ids
}

// TestDrain checks that instances are drained before their removal, that rising demand cancels
// drains first, and that drains are shown and survive a restart.
func TestDrain(t *testing.T) {
	dir := t.TempDir()
	script := filepath.Join(dir, "drain")
	// Drains end when the file "through" exists.
	text := fmt.Sprintf("#!/bin/sh\necho $HPAD_ACTION $HPAD_INSTANCE >> %[1]s/log\n[ $HPAD_ACTION != drained ] || [ -e %[1]s/through ] || exit 75\n", dir)
	if err := os.WriteFile(script, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	actions := func() string {
		log, err := os.ReadFile(filepath.Join(dir, "log"))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		lines := strings.Fields(string(log))
		return strings.Join(lines, " ")
	}
	synctest.Test(t, func(t *testing.T) {
		w := newRemovingWorld(t, func(a *config.Autoscaler) {
			a.Drain = &config.Drain{
				Kind: "command", Deadline: time.Hour, OnDeadline: drain.Terminate, Interval: 5 * time.Second,
				Config: &command.Config{Command: []string{script}, Timeout: 10 * time.Second},
			}
		})
		ids := instanceIDs(w, t, "web")
		w.Start()
		w.Advance(20 * time.Second)
		if w.Fleet().Replicas("web") != 4 || len(removals(w)) != 0 {
			t.Fatalf("replicas = %d, removals = %q during the drain", w.Fleet().Replicas("web"), removals(w))
		}
		view := w.View("web")
		if len(view.Drains) != 2 || view.Drains[0].State != drain.Draining || view.Status.CurrentReplicas != 2 || view.Instances.Deleting != 2 {
			t.Errorf("drains = %+v, replicas = %d, instances = %+v", view.Drains, view.Status.CurrentReplicas, view.Instances)
		}
		for _, id := range ids[:2] { // the oldest
			if !strings.Contains(actions(), "begin "+id) {
				t.Errorf("actions = %q, want the drain of %s", actions(), id)
			}
		}
		w.Stop()
		w.Start()
		defer w.Stop()
		w.Source().Value("web", 3)
		w.Advance(20 * time.Second)
		if got := w.Fleet().Replicas("web"); got != 4 || !strings.Contains(actions(), "undo ") {
			t.Errorf("replicas = %d, actions = %q; want one instance returned to service", got, actions())
		}
		if err := os.WriteFile(filepath.Join(dir, "through"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		w.Advance(time.Minute)
		if got := removals(w); w.Fleet().Replicas("web") != 3 || len(got) != 1 || strings.Contains(got[0], " ") {
			t.Errorf("replicas = %d, removals = %q; want one instance removed", w.Fleet().Replicas("web"), got)
		}
		if !strings.HasSuffix(actions(), "finish "+removals(w)[0]) {
			t.Errorf("actions = %q", actions())
		}
	})
}
