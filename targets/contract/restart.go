package contract

import (
	"fmt"

	"github.com/hpad/hpad/policy"
)

func restartsAfterUp[T TB](t *trial[T]) {
	f := t.open()
	f.settle(t.Refs[0], 1)
	f.scale(t.Refs[0], 3)
	f.close()
	again := t.open()
	t.awaitExactly(again, 3)
	if last := again.settle(t.Refs[0], 3); last.SpecReplicas != 3 {
		t.Errorf("spec replicas after a restart = %d, want 3", last.SpecReplicas)
	}
}

func restartsAfterDown[T TB](t *trial[T]) {
	f := t.open()
	f.settle(t.Refs[0], 4)
	if t.SlowStop != nil {
		t.SlowStop(t.T, t.Refs[0])
	}
	f.scale(t.Refs[0], 1)
	survivors := ids(f.read(t.Refs[0]))
	f.close()
	again := t.open()
	t.awaitExactly(again, 1)
	last := again.settle(t.Refs[0], 1)
	if t.Survive && !t.kind.Bare && !survivors[last.Instances[0].ID] {
		t.Errorf("instance %q was created after a restart, want one of %v", last.Instances[0].ID, survivors)
	}
}

// awaitExactly waits until a target has n instances after a restart, and fails if there are ever
// more.
func (t *trial[T]) awaitExactly(f *fleet[T], n int32) {
	t.Helper()
	t.poll(fmt.Sprintf("%d replicas of %s", n, t.Refs[0]), func() (string, bool) {
		reading := f.read(t.Refs[0])
		if reading.SpecReplicas != n || reading.StatusReplicas > n {
			t.Fatalf("spec = %d and status = %d after a restart, want at most %d", reading.SpecReplicas, reading.StatusReplicas, n)
		}
		return fmt.Sprintf("status is %d", reading.StatusReplicas), reading.StatusReplicas == n
	})
}

func keepsReadiness[T TB](t *trial[T]) {
	f := t.open()
	before := map[string]policy.Instance{}
	for _, instance := range f.settle(t.Refs[0], t.counts[0]).Instances {
		before[instance.ID] = instance
	}
	f.close()
	for _, instance := range t.open().settle(t.Refs[0], t.counts[0]).Instances {
		old, ok := before[instance.ID]
		if !ok {
			t.Errorf("instance %q was created after a restart", instance.ID)
			continue
		}
		if !instance.StartedAt.Equal(old.StartedAt) || !instance.ReadinessChanged.Equal(old.ReadinessChanged) {
			t.Errorf("instance %q: start and readiness change = %v and %v before a restart, then %v and %v", instance.ID,
				old.StartedAt, old.ReadinessChanged, instance.StartedAt, instance.ReadinessChanged)
		}
	}
}
