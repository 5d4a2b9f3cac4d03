package status

import (
	"context"
	"maps"
	"testing"
	"time"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/state"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/clock"
)

type values map[string][]byte

func (v values) Load(context.Context, func(string, []byte) error) error { return nil }

func (v values) Write(_ context.Context, written map[string][]byte) error {
	maps.Copy(v, written)
	return nil
}

// TestStored checks the view of an autoscaler that labels define, from the state of an owner that
// died during a write. The owner's wall clock had been stepped forward by an hour.
func TestStored(t *testing.T) {
	written := values{}
	store, err := state.OpenShared(t.Context(), t.TempDir(), written, time.Minute, state.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ahead, name := time.Hour, "fleet/web"
	through := time.Now().Add(-ahead - time.Minute).UTC().Truncate(time.Second)
	pause := func(autoscaler string, until time.Time) *policy.Pause {
		return &policy.Pause{Scope: policy.Scope{Autoscaler: autoscaler}, Direction: policy.BothDirections, Since: through, Until: until}
	}
	err = store.Commit(t.Context(), state.Changes{
		Records: map[string]state.Record{name: {
			Created: through.Add(-ahead), Through: through, Target: targets.Ref{Fleet: "fleet", Name: "web"},
			Status: policy.Status{CurrentReplicas: 1, DesiredReplicas: 1, Metrics: []policy.MetricStatus{{}}},
			Bounds: &state.Bounds{Min: 2, Max: 9}, Labels: map[string]string{"hpad.enable": "true"},
			Intention: &policy.Intention{From: 3, To: 5, Time: through},
			Replay:    &state.Replay{Replicas: 5, Period: 15 * time.Second},
		}},
		Pauses: map[policy.Scope]*policy.Pause{
			{Autoscaler: name}:    pause(name, time.Time{}),
			{Autoscaler: "other"}: pause("other", through),
		},
		LastRound: through.Add(30 * time.Second),
		Clock:     clock.State{Time: through, Offsets: []clock.Offset{{From: through, Ahead: ahead}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	stored, err := NewStored(written)
	if err != nil {
		t.Fatal(err)
	}
	if names := stored.Discovered(); len(names) != 1 || names[0] != name {
		t.Errorf("the names are %q", names)
	}
	view := api.Autoscaler{Name: name}
	stored.Add(&view, "fleet")
	if last := through.Add(30*time.Second + ahead); last.Sub(view.Evaluation.Last).Abs() >= 15*time.Second || !view.Created.Equal(through) {
		t.Errorf("created %s, evaluated %s, want %s and %s", view.Created, view.Evaluation.Last, through, last)
	}
	if s := view.Status; s.CurrentReplicas != 3 || s.DesiredReplicas != 5 || s.Metrics != nil || view.Spec.MaxReplicas != 9 || *view.Spec.MinReplicas != 2 {
		t.Errorf("the status is %+v, the bounds %+v", s, view.Spec)
	}
	if pauses := stored.Pauses(); len(pauses) != 1 || len(view.Pauses) != 1 || !pauses[0].Since.Equal(through.Add(ahead)) || !view.Pauses[0].Since.Equal(pauses[0].Since) {
		t.Errorf("the pauses are %+v and %+v", pauses, view.Pauses)
	}
	if _, err := NewStored(values{"autoscalers/x": []byte("damaged")}); err == nil {
		t.Error("a damaged record is no error")
	}
	if err := store.Close(); err != nil {
		t.Error(err)
	}
}
