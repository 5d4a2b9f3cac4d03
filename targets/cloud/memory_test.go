package cloud

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/targettest"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func loaded(t *testing.T, store targets.Store, now time.Time) *Memory {
	t.Helper()
	m := NewMemory(store)
	if m.Load(now); m.Failure() != nil {
		t.Fatal(m.Failure())
	}
	return m
}

func TestMemoryNotes(t *testing.T) {
	at := func(minutes int) time.Time { return noon.Add(time.Duration(minutes) * time.Minute) }
	type step struct {
		name    string
		minute  int
		seen    Member
		started time.Time
		ready   policy.Readiness
		changed time.Time
	}
	for _, c := range []struct {
		name  string
		steps []step
	}{
		{"boots", []step{
			{"first reading", 0, Member{Readiness: policy.ReadinessFalse}, at(0), policy.ReadinessFalse, at(0)},
			{"still booting", 1, Member{Readiness: policy.ReadinessFalse}, at(0), policy.ReadinessFalse, at(0)},
			{"ready", 2, Member{Readiness: policy.ReadinessTrue}, at(0), policy.ReadinessTrue, at(2)},
			{"still ready", 3, Member{Readiness: policy.ReadinessTrue}, at(0), policy.ReadinessTrue, at(2)},
			{"health not reported, was ready", 4, Member{}, at(0), policy.ReadinessTrue, at(2)},
			{"unhealthy", 5, Member{Readiness: policy.ReadinessFalse}, at(0), policy.ReadinessFalse, at(5)},
			{"health not reported", 6, Member{}, at(0), policy.ReadinessNotKnown, at(6)},
		}},
		{"existing instance", []step{
			{"first reading", 10, Member{Launched: at(-100), Readiness: policy.ReadinessTrue, Since: at(-100)}, at(-100), policy.ReadinessTrue, at(-100)},
			{"unhealthy since a reported time", 12, Member{Readiness: policy.ReadinessFalse, Since: at(11)}, at(-100), policy.ReadinessFalse, at(11)},
			{"healthy since an outdated time", 13, Member{Readiness: policy.ReadinessTrue, Since: at(-100)}, at(-100), policy.ReadinessTrue, at(13)},
			{"unhealthy since a future time", 14, Member{Readiness: policy.ReadinessFalse, Since: at(2000)}, at(-100), policy.ReadinessFalse, at(14)},
		}},
		{"restarts", []step{
			{"first reading", 0, Member{Launched: at(-5), Readiness: policy.ReadinessTrue, Since: at(-5)}, at(-5), policy.ReadinessTrue, at(-5)},
			{"rebooted", 3, Member{Launched: at(2), Readiness: policy.ReadinessTrue, Since: at(2)}, at(2), policy.ReadinessTrue, at(2)},
			{"rebooted, health not reported", 5, Member{Launched: at(4)}, at(4), policy.ReadinessNotKnown, at(5)},
		}},
		{"start time reported later", []step{
			{"first reading", 0, Member{Readiness: policy.ReadinessTrue}, at(0), policy.ReadinessTrue, at(0)},
			{"start time reported, health not reported", 1, Member{Launched: at(-5)}, at(-5), policy.ReadinessTrue, at(0)},
			{"same start time", 2, Member{Launched: at(-5)}, at(-5), policy.ReadinessTrue, at(0)},
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			store := &targettest.Store{}
			m := loaded(t, store, noon)
			for _, s := range c.steps {
				s.seen.ID = "i-1"
				got := m.Update(&s.seen, at(s.minute))
				if !got.Started().Equal(s.started) || got.Readiness != s.ready || !got.Changed.Equal(s.changed) {
					t.Errorf("%s: started %v, %v since %v, want %v, %v since %v", s.name, got.Started(), got.Readiness, got.Changed, s.started, s.ready, s.changed)
				}
				m.Save(at(s.minute))
				m = loaded(t, store, at(s.minute)) // each step in a new process
			}
		})
	}
}

func TestMemoryLearns(t *testing.T) {
	store := &targettest.Store{}
	m := loaded(t, store, noon)
	m.learn("i-0", noon, &Facts{}) // unknown instance
	if _, ok := m.Recall("i-0"); ok {
		t.Error("Recall() of an unknown instance succeeded")
	}
	m.Update(&Member{ID: "i-1", Readiness: policy.ReadinessTrue}, noon)
	facts := &Facts{Name: "web-1", Addresses: []string{"10.0.0.1"}, Labels: map[string]string{"role": "web"}}
	m.learn("i-1", noon.Add(-time.Hour), facts)
	m.Save(noon)
	if err := m.Failure(); err != nil {
		t.Fatal(err)
	}
	got, ok := loaded(t, store, noon).Recall("i-1")
	if !ok || !got.Started().Equal(noon.Add(-time.Hour)) {
		t.Errorf("record after a restart = %t, started %v", ok, got.Started())
	}
	if diff := cmp.Diff(facts, got.Facts); diff != "" {
		t.Errorf("facts (-want +got):\n%s", diff)
	}
}
