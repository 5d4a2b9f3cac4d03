package compose

import (
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets/targettest"
)

func TestJudge(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	at := func(ago time.Duration) time.Time { return now.Add(-ago) }
	created := at(time.Hour).Unix()
	running := func(health string) *member {
		return &member{Summary: container.Summary{State: container.StateRunning, Created: created}, health: health}
	}
	ready := record{Readiness: policy.ReadinessTrue, Changed: at(30 * time.Minute), Started: at(40 * time.Minute)}
	for _, test := range []struct {
		name   string
		member *member
		detail detail
		before record
		want   record
	}{
		{
			"no healthcheck is ready from the start",
			running(""),
			detail{started: at(time.Minute)},
			record{},
			record{Readiness: policy.ReadinessTrue, Changed: at(time.Minute), Started: at(time.Minute)},
		},
		{
			"healthy since the first success the engine remembers",
			running(container.Healthy),
			detail{started: at(time.Hour), healthySince: at(20 * time.Minute)},
			record{},
			record{Readiness: policy.ReadinessTrue, Changed: at(20 * time.Minute), Started: at(time.Hour)},
		},
		{
			"what was ready stays so, whatever the engine still remembers",
			running(container.Healthy),
			detail{started: at(40 * time.Minute), healthySince: at(time.Second)},
			ready,
			ready,
		},
		{
			"unhealthy from now on",
			running(container.Unhealthy),
			detail{started: at(40 * time.Minute)},
			ready,
			record{Readiness: policy.ReadinessFalse, Changed: now, Started: at(40 * time.Minute)},
		},
		{
			"starting since the start",
			running(container.Starting),
			detail{started: at(5 * time.Second)},
			record{},
			record{Readiness: policy.ReadinessFalse, Changed: at(5 * time.Second), Started: at(5 * time.Second)},
		},
		{
			"started again: ready anew",
			running(""),
			detail{started: at(5 * time.Second)},
			ready,
			record{Readiness: policy.ReadinessTrue, Changed: at(5 * time.Second), Started: at(5 * time.Second)},
		},
		{
			"paused from now on",
			&member{Summary: container.Summary{State: container.StatePaused, Created: created}},
			detail{started: at(40 * time.Minute)},
			ready,
			record{Readiness: policy.ReadinessFalse, Changed: now, Started: at(40 * time.Minute)},
		},
		{
			"exited when it ended",
			&member{Summary: container.Summary{State: container.StateExited, Created: created}},
			detail{started: at(40 * time.Minute), finished: at(time.Minute)},
			ready,
			record{Readiness: policy.ReadinessFalse, Changed: at(time.Minute), Started: at(40 * time.Minute)},
		},
		{
			"created and not started",
			&member{Summary: container.Summary{State: container.StateCreated, Created: created}},
			detail{},
			record{},
			record{Readiness: policy.ReadinessFalse, Changed: time.Unix(created, 0)},
		},
		{
			"an engine whose clock is ahead",
			running(""),
			detail{started: now.Add(time.Minute)},
			record{},
			record{Readiness: policy.ReadinessTrue, Changed: now, Started: now.Add(time.Minute)},
		},
		{
			"no start time: when it was first seen",
			running(""),
			detail{},
			record{},
			record{Readiness: policy.ReadinessTrue, Changed: now, Started: now},
		},
	} {
		if got := judge(test.member, &test.detail, test.before, now); !got.equal(test.want) {
			t.Errorf("%s: got %+v, want %+v", test.name, got, test.want)
		}
	}
}

// TestMemoriesForget holds that what vanished is forgotten after a day, and that
// nothing is written while nothing changes.
func TestMemoriesForget(t *testing.T) {
	store := &targettest.Store{}
	m := newMemories(store)
	k := key{"shop", "web"}
	now := time.Now()
	known := func() map[string]record {
		return map[string]record{"a": {Readiness: policy.ReadinessTrue, Changed: now}}
	}
	stored := func() string {
		text, err := store.Load(t.Context(), memoryPrefix+k.String())
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	m.keep(t.Context(), k, known(), now)
	first := stored()
	if first == "" {
		t.Fatal("nothing was stored")
	}
	if err := store.Save(t.Context(), memoryPrefix+k.String(), []byte("untouched")); err != nil {
		t.Fatal(err)
	}
	m.keep(t.Context(), k, known(), now.Add(time.Minute))
	if got := stored(); got != "untouched" {
		t.Errorf("what had not changed was stored again: %s", got)
	}
	m.keep(t.Context(), k, map[string]record{}, now.Add(time.Hour))
	if got := m.recall(k)["a"]; got.Gone.IsZero() {
		t.Errorf("a vanished container is %+v, want one that is gone", got)
	}
	m.keep(t.Context(), k, map[string]record{}, now.Add(26*time.Hour))
	if got := stored(); got != "" || len(m.recall(k)) > 0 {
		t.Errorf("after a day %q is stored and %v known, want nothing", got, m.recall(k))
	}
}
