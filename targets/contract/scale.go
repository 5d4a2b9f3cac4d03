package contract

import (
	"errors"
	"fmt"
	"maps"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
)

func scalesUp[T TB](t *trial[T]) {
	f := t.open()
	before := f.settle(t.Refs[0], 1)
	f.scale(t.Refs[0], 3)
	if got := f.read(t.Refs[0]).SpecReplicas; got != 3 {
		t.Errorf("spec replicas immediately after the write = %d, want 3", got)
	}
	after := ids(f.settle(t.Refs[0], 3))
	for id := range ids(before) {
		if !after[id] {
			t.Errorf("a scale-up removed instance %q: %v", id, after)
		}
	}
	f.checkOthers()
}

func scalesDown[T TB](t *trial[T]) {
	f := t.open()
	before := ids(f.settle(t.Refs[0], 3))
	f.scale(t.Refs[0], 1)
	t.checkVictims(f, before, 1)
	for id := range ids(f.settle(t.Refs[0], 1)) {
		if !before[id] {
			t.Errorf("instance %q was created by a scale-down", id)
		}
	}
	f.checkOthers()
}

// checkOthers checks that the targets other than the first still have their initial counts.
func (f *fleet[T]) checkOthers() {
	f.t.Helper()
	for i, ref := range f.t.Refs[1:] {
		f.settle(ref, f.t.counts[i+1])
	}
}

func removesByName[T TB](t *trial[T]) {
	f := t.open()
	remover, ok := f.Fleet.(targets.Remover)
	if !ok {
		t.Fatalf("%T is not a Remover", f.Fleet)
	}
	before := f.settle(t.Refs[0], 3)
	victim := before.Instances[1].ID
	for _, want := range []error{nil, targets.ErrConflict} { // the second call has an outdated version
		if err := remover.Remove(t.Context(), t.Refs[0], []string{victim}, before.Version, "contract suite"); !errors.Is(err, want) || (err == nil) != (want == nil) {
			t.Fatalf("Remove(%q) = %v, want %v", victim, err, want)
		}
	}
	if got := f.read(t.Refs[0]).SpecReplicas; got != 2 {
		t.Errorf("spec replicas immediately after the removal = %d, want 2", got)
	}
	after := f.settle(t.Refs[0], 2)
	for id := range ids(after) {
		if id == victim || !ids(before)[id] {
			t.Errorf("instances after the removal of %q = %v", victim, ids(after))
		}
	}
	if err := remover.Remove(t.Context(), t.Refs[0], []string{victim}, after.Version, "contract suite"); err != nil {
		t.Errorf("Remove() of an instance that no longer exists = %v", err)
	}
	f.settle(t.Refs[0], 2)
}

// checkVictims checks the reading directly after a scale-down to n against the contract: the
// victims are terminating, are excluded from the count, and existed before.
func (t *trial[T]) checkVictims(f *fleet[T], before map[string]bool, n int32) {
	t.Helper()
	reading := f.read(t.Refs[0])
	if reading.SpecReplicas != n || reading.StatusReplicas != n {
		t.Errorf("spec = %d and status = %d immediately after the write, want %d", reading.SpecReplicas, reading.StatusReplicas, n)
	}
	for _, instance := range reading.Instances {
		if !before[instance.ID] {
			t.Errorf("instance %q was created by a scale-down", instance.ID)
		}
	}
}

func takesUnreadyFirst[T TB](t *trial[T]) {
	f := t.open()
	before := f.settle(t.Refs[0], 3)
	unready := before.Instances[0].ID
	t.SetReady(t.T, t.Refs[0], unready, false)
	t.poll(fmt.Sprintf("an unready instance %q", unready), func() (string, bool) {
		for _, instance := range f.read(t.Refs[0]).Instances {
			if instance.ID == unready {
				return fmt.Sprintf("readiness is %v", instance.Readiness), instance.Readiness != policy.ReadinessTrue
			}
		}
		return "the instance no longer exists", false
	})
	f.scale(t.Refs[0], 2)
	if after := ids(f.settle(t.Refs[0], 2)); after[unready] {
		t.Errorf("remaining instances = %v of %v, want the ready instances", after, ids(before))
	}
}

func scalesToZero[T TB](t *trial[T]) {
	f := t.open()
	f.settle(t.Refs[0], 2)
	f.scale(t.Refs[0], 0)
	f.settle(t.Refs[0], 0)
	f.scale(t.Refs[0], 2)
	f.settle(t.Refs[0], 2)
}

func treatsCountsAsAbsolute[T TB](t *trial[T]) {
	f := t.open()
	f.settle(t.Refs[0], 1)
	for range 3 {
		f.scale(t.Refs[0], 3)
	}
	first := ids(f.settle(t.Refs[0], 3))
	f.scale(t.Refs[0], 3)
	if again := ids(f.settle(t.Refs[0], 3)); !maps.Equal(first, again) {
		t.Errorf("writing the same count twice changed the instances to %v from %v", again, first)
	}
	if err := f.SetReplicas(t.Context(), t.Refs[0], 2, "", "contract suite"); err != nil {
		t.Fatalf("SetReplicas() without a version = %v", err)
	}
	f.settle(t.Refs[0], 2)
}

func skipsEqualCount[T TB](t *trial[T]) {
	f := t.open()
	before := f.settle(t.Refs[0], 2)
	writes := t.writes()
	f.scale(t.Refs[0], 2)
	after := f.read(t.Refs[0])
	if got := t.writes(); got != writes {
		t.Errorf("writes of an unchanged count = %d, want 0", got-writes)
	}
	if after.Version != before.Version || !maps.Equal(ids(before), ids(after)) {
		t.Errorf("writing the same count changed the version from %q to %q and the instances from %v to %v", before.Version, after.Version, ids(before), ids(after))
	}
}

// writes returns the number of writes that the platform received, or 0 if it is unknown.
func (t *trial[T]) writes() int {
	if t.Writes == nil {
		return 0
	}
	return t.Writes()
}

func stopsVictims[T TB](t *trial[T]) {
	f := t.open()
	before := ids(f.settle(t.Refs[0], 4))
	t.SlowStop(t.T, t.Refs[0])
	f.scale(t.Refs[0], 1)
	t.checkVictims(f, before, 1)
	if got := deleting(f.read(t.Refs[0])); got != 3 {
		t.Errorf("terminating instances immediately after the write = %d, want 3", got)
	}
	// A write while the victims stop must not revive them.
	survivors := ids(f.read(t.Refs[0]))
	f.scale(t.Refs[0], 2)
	for id := range ids(f.settle(t.Refs[0], 2)) {
		if before[id] && !survivors[id] {
			t.Errorf("victim %q was revived", id)
		}
	}
}

func deleting(reading targets.Reading) int {
	count := 0
	for _, instance := range reading.Instances {
		if instance.Deleting {
			count++
		}
	}
	return count
}
