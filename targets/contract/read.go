package contract

import (
	"errors"
	"fmt"
	"maps"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
)

func readsAll[T TB](t *trial[T]) {
	f := t.open()
	for i, ref := range t.Refs {
		f.settle(ref, t.counts[i])
	}
	readings, err := f.Snapshot(t.Context(), t.Refs)
	if err != nil || len(readings) != len(t.Refs) {
		t.Fatalf("Snapshot() of %d targets = %d readings, %v", len(t.Refs), len(readings), err)
	}
	for i, ref := range t.Refs {
		if got := readings[ref].SpecReplicas; got != t.counts[i] {
			t.Errorf("%s: spec replicas = %d, want %d", ref, got, t.counts[i])
		}
	}
	if none, err := f.Snapshot(t.Context(), nil); err != nil || len(none) != 0 {
		t.Errorf("Snapshot() of no targets = %v, %v, want nothing", none, err)
	}
}

func readsUnknown[T TB](t *trial[T]) {
	f := t.open()
	readings, err := f.Snapshot(t.Context(), []targets.Ref{t.Missing, t.Refs[0]})
	if err != nil {
		t.Fatalf("Snapshot() with an unknown target = %v, want an error for that target alone", err)
	}
	if got := readings[t.Missing].Err; !errors.Is(got, targets.ErrTargetNotFound) {
		t.Errorf("%s: Err = %v, want ErrTargetNotFound", t.Missing, got)
	}
	if got := readings[t.Refs[0]]; got.Err != nil || got.SpecReplicas != t.counts[0] {
		t.Errorf("%s: replicas = %d, %v, want %d", t.Refs[0], got.SpecReplicas, got.Err, t.counts[0])
	}
}

func keepsInstances[T TB](t *trial[T]) {
	f := t.open()
	first := f.settle(t.Refs[0], t.counts[0])
	again := f.read(t.Refs[0])
	if !maps.Equal(ids(first), ids(again)) {
		t.Errorf("instances changed from %v to %v without a change of the target", ids(first), ids(again))
	}
	if first.Version != again.Version {
		t.Errorf("version changed from %q to %q without a change of the target", first.Version, again.Version)
	}
	started := map[string]policy.Instance{}
	for _, instance := range first.Instances {
		started[instance.ID] = instance
	}
	for _, instance := range again.Instances {
		before := started[instance.ID]
		if !instance.StartedAt.Equal(before.StartedAt) || !instance.ReadinessChanged.Equal(before.ReadinessChanged) {
			t.Errorf("instance %q: start and readiness change = %v and %v, then %v and %v", instance.ID,
				before.StartedAt, before.ReadinessChanged, instance.StartedAt, instance.ReadinessChanged)
		}
	}
}

func detectsExternalChange[T TB](t *trial[T]) {
	f := t.open()
	before := f.settle(t.Refs[0], 2)
	t.SetCount(t.T, t.Refs[0], 3)
	after := f.settle(t.Refs[0], 3)
	if before.Version != "" && before.Version == after.Version {
		t.Errorf("version = %q before and after an external change", before.Version)
	}
}

func followsReadiness[T TB](t *trial[T]) {
	f := t.open()
	before := f.settle(t.Refs[0], 2)
	id := before.Instances[0].ID
	find := func() policy.Instance {
		for _, instance := range f.read(t.Refs[0]).Instances {
			if instance.ID == id {
				return instance
			}
		}
		t.Fatalf("instance %q no longer exists", id)
		return policy.Instance{}
	}
	changed := before.Instances[0].ReadinessChanged
	for _, want := range []policy.Readiness{policy.ReadinessFalse, policy.ReadinessTrue} {
		t.SetReady(t.T, t.Refs[0], id, want == policy.ReadinessTrue)
		var got policy.Instance
		t.poll(fmt.Sprintf("%q to have readiness %v", id, want), func() (string, bool) {
			got = find()
			return fmt.Sprintf("readiness is %v", got.Readiness), got.Readiness == want
		})
		if !got.ReadinessChanged.After(changed) {
			t.Errorf("readiness changed to %v, but ReadinessChanged is still %v", want, got.ReadinessChanged)
		}
		changed = got.ReadinessChanged
	}
}
