package world

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/test/wait"
)

const (
	Shrinking = "shrinking"
	Growing   = "growing"
	Before    = 4
)

// Minute is an account whose calls are throttled for a minute, and another account that works.
type Minute struct {
	// Fleets is the configuration of the fleets "spent" (throttled) and "spared".
	Fleets string
	// Target returns a target of a fleet, as TOML has it.
	Target          func(fleet, name string) string
	Spared          []string
	Count           func(fleet, name string) int
	Spend           func(d time.Duration)
	Refused, Writes func() int
	// Words is part of the platform's error message.
	Words string
	Most  int
}

// Run checks that the targets of the throttled account are held with few calls, that the other
// account still scales, and that the first one recovers.
func (m Minute) Run(t *testing.T, l *Load) {
	var text strings.Builder
	text.WriteString(m.Fleets + l.Source())
	for _, name := range []string{Shrinking, Growing} {
		l.Queue(name, 10*Before)
		text.WriteString(Queued(name, m.Target("spent", name), 1, 10))
	}
	for _, name := range m.Spared {
		l.Queue(name, 10)
		text.WriteString(Queued(name, m.Target("spared", name), 1, 10))
	}
	w := New(t, text.String())
	w.Await(Shrinking, policy.ScalingActive, "ValidMetricFound", "")
	w.Passes(Shrinking, 2)

	begun := time.Now()
	m.Spend(time.Minute)
	l.Queue(Shrinking, 10)
	l.Queue(Growing, 80)
	m.holds(t, w)
	m.spares(t, w, l)
	m.lasts(t, w, begun)
	m.comesBack(t, w)
	t.Logf("all is well again %v after the account began to refuse calls", time.Since(begun).Round(time.Second))
}

func (m Minute) holds(t *testing.T, w *World) {
	t.Helper()
	for _, name := range []string{Shrinking, Growing} {
		if c := w.Await(name, policy.AbleToScale, "FailedGetScale", m.Words); c.Status != policy.ConditionFalse {
			t.Errorf("%+v of %s, want that it is False", c, name)
		}
	}
	for _, problem := range w.Readiness().Problems {
		if strings.Contains(problem.Subject, "spent") && strings.Contains(problem.Message, m.Words) {
			return
		}
	}
	t.Errorf("problems are %+v, want one of fleet spent", w.Readiness().Problems)
}

// spares checks that the other account scales and is limited only by its own rate limit.
func (m Minute) spares(t *testing.T, w *World, l *Load) {
	t.Helper()
	const most = 8
	for count := 2; count <= most; count++ {
		for _, name := range m.Spared {
			l.Queue(name, float64(10*count))
		}
		for _, name := range m.Spared {
			wait.For(t, Patience, fmt.Sprintf("%d instances of %s", count, name), func() (string, bool) {
				got := m.Count("spared", name)
				return fmt.Sprintf("%d are wanted", got), got == count
			})
		}
		if w.Metric("hpad_platform_wait_seconds_total", prometheus.Labels{"fleet": "spared"}) >= 0.5 {
			break
		}
		if count == most {
			t.Errorf("after %d changes of each target no waiting for the fleet's own limit is counted", most-1)
		}
	}
	for metric, labels := range map[string]prometheus.Labels{
		"hpad_platform_calls_total":    {"fleet": "spared", "result": "throttled"},
		"hpad_fleet_call_errors_total": {"fleet": "spared", "call": "snapshot", "reason": "throttled"},
	} {
		if refused := w.Metric(metric, labels); refused != 0 {
			t.Errorf("%v calls of the other account are counted as throttled in %s", refused, metric)
		}
	}
}

func (m Minute) lasts(t *testing.T, w *World, begun time.Time) {
	t.Helper()
	end := begun.Add(time.Minute)
	wait.For(t, 2*time.Minute, "end of the minute", func() (string, bool) {
		shrinking, growing := m.Count("spent", Shrinking), m.Count("spent", Growing)
		one, other := w.Condition(Shrinking, policy.AbleToScale), w.Condition(Growing, policy.AbleToScale)
		over := time.Now().After(end)
		if !over && (shrinking != Before || growing != Before || one.Reason != "FailedGetScale" || other.Reason != "FailedGetScale") {
			t.Fatalf("%v into the minute: counts %d and %d, %+v, %+v; want %d each and that it is held",
				time.Since(begun).Round(time.Second), shrinking, growing, one, other, Before)
		}
		return "it goes on", over
	})
	refused := m.Refused()
	rounds := w.Metric("hpad_fleet_call_errors_total", prometheus.Labels{"fleet": "spent", "call": "snapshot", "reason": "throttled"})
	t.Logf("%d calls were refused in %v rounds", refused, rounds)
	if refused == 0 || refused > m.Most || rounds < 20 {
		t.Errorf("%d calls were refused in %v rounds of a minute, want one to %d in more than 20", refused, rounds, m.Most)
	}
}

func (m Minute) comesBack(t *testing.T, w *World) {
	t.Helper()
	for name, want := range map[string]int{Shrinking: 1, Growing: 8} {
		wait.For(t, Patience, fmt.Sprintf("%d instances of %s", want, name), func() (string, bool) {
			got := m.Count("spent", name)
			return fmt.Sprintf("%d are wanted", got), got == want
		})
		wait.For(t, Patience, "end of the hold of "+name, func() (string, bool) {
			c := w.Condition(name, policy.AbleToScale)
			return fmt.Sprintf("it is %+v", c), c.Status == policy.ConditionTrue
		})
	}
	if writes := m.Writes(); writes != 2 {
		t.Errorf("%d changes, want one of each target", writes)
	}
	counted := w.Metric("hpad_platform_calls_total", prometheus.Labels{"fleet": "spent", "result": "throttled"})
	if refused := m.Refused(); int(counted) != refused {
		t.Errorf("%v calls are counted as throttled, the platform refused %d", counted, refused)
	}
}
