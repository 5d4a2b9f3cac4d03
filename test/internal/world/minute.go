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

// Shrinking and Growing are Minute's targets in the throttled account. Before is their initial
// count. At first, their queues have 10*Before entries.
const (
	Shrinking = "shrinking"
	Growing   = "growing"
	Before    = 4
)

// Minute tests throttling. One account rejects all calls for a minute, as if another client had
// used up the quota. A second account is not throttled.
type Minute struct {
	// Fleets is the configuration of the fleets "spent" (throttled) and "spared".
	Fleets string
	// Target returns the TOML of a target in a fleet.
	Target func(fleet, name string) string
	// Spared lists the targets of fleet "spared". They have one instance each, and the fleet's
	// rate limit does not permit changing all of them at once.
	Spared []string
	// Count returns the desired count of a target on the platform.
	Count func(fleet, name string) int
	// Spend makes the account of fleet "spent" reject all calls for a duration.
	Spend func(d time.Duration)
	// Refused returns the number of rejected calls to that account. Writes returns the number of
	// its accepted changes.
	Refused, Writes func() int
	// Words is part of the platform's error message.
	Words string
	// Most is the maximum number of rejected calls that the test permits.
	Most int
}

// Run checks that hpad does not scale the targets of the throttled account and makes few calls
// during the minute, that the other account is not affected, and that scaling resumes after the
// minute.
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
	t.Logf("recovered %v after the start of throttling", time.Since(begun).Round(time.Second))
}

// holds checks that both targets and the fleet report the cause.
func (m Minute) holds(t *testing.T, w *World) {
	t.Helper()
	for _, name := range []string{Shrinking, Growing} {
		if c := w.Await(name, policy.AbleToScale, "FailedGetScale", m.Words); c.Status != policy.ConditionFalse {
			t.Errorf("got %+v of %s, want False", c, name)
		}
	}
	for _, problem := range w.Readiness().Problems {
		if strings.Contains(problem.Subject, "spent") && strings.Contains(problem.Message, m.Words) {
			return
		}
	}
	t.Errorf("got problems %+v, want one of fleet spent", w.Readiness().Problems)
}

// spares checks that the other account scales, limited only by its own rate limit.
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
				return fmt.Sprintf("the desired count is %d", got), got == count
			})
		}
		if w.Metric("hpad_platform_wait_seconds_total", prometheus.Labels{"fleet": "spared"}) >= 0.5 {
			break
		}
		if count == most {
			t.Errorf("no waits for the fleet's rate limit after %d changes of each target", most-1)
		}
	}
	for metric, labels := range map[string]prometheus.Labels{
		"hpad_platform_calls_total":    {"fleet": "spared", "result": "throttled"},
		"hpad_fleet_call_errors_total": {"fleet": "spared", "call": "snapshot", "reason": "throttled"},
	} {
		if refused := w.Metric(metric, labels); refused != 0 {
			t.Errorf("got %v throttled calls of the other account in %s, want 0", refused, metric)
		}
	}
}

// lasts checks that the counts in the throttled account do not change during the minute and that
// hpad makes few calls.
func (m Minute) lasts(t *testing.T, w *World, begun time.Time) {
	t.Helper()
	end := begun.Add(time.Minute)
	wait.For(t, 2*time.Minute, "end of the minute", func() (string, bool) {
		shrinking, growing := m.Count("spent", Shrinking), m.Count("spent", Growing)
		one, other := w.Condition(Shrinking, policy.AbleToScale), w.Condition(Growing, policy.AbleToScale)
		over := time.Now().After(end)
		if !over && (shrinking != Before || growing != Before || one.Reason != "FailedGetScale" || other.Reason != "FailedGetScale") {
			t.Fatalf("after %v: counts %d and %d, %+v, %+v; want %d each and held targets",
				time.Since(begun).Round(time.Second), shrinking, growing, one, other, Before)
		}
		return "throttling continues", over
	})
	refused := m.Refused()
	rounds := w.Metric("hpad_fleet_call_errors_total", prometheus.Labels{"fleet": "spent", "call": "snapshot", "reason": "throttled"})
	t.Logf("%d calls were rejected in %v rounds", refused, rounds)
	if refused == 0 || refused > m.Most || rounds < 20 {
		t.Errorf("got %d rejected calls in %v rounds, want 1 to %d in at least 20", refused, rounds, m.Most)
	}
}

// comesBack checks that, after the minute, each pending change is executed once, and that the
// metrics include the rejected calls.
func (m Minute) comesBack(t *testing.T, w *World) {
	t.Helper()
	for name, want := range map[string]int{Shrinking: 1, Growing: 8} {
		wait.For(t, Patience, fmt.Sprintf("%d instances of %s", want, name), func() (string, bool) {
			got := m.Count("spent", name)
			return fmt.Sprintf("the desired count is %d", got), got == want
		})
		wait.For(t, Patience, "end of the hold of "+name, func() (string, bool) {
			c := w.Condition(name, policy.AbleToScale)
			return fmt.Sprintf("it is %+v", c), c.Status == policy.ConditionTrue
		})
	}
	if writes := m.Writes(); writes != 2 {
		t.Errorf("got %d changes, want one per target", writes)
	}
	counted := w.Metric("hpad_platform_calls_total", prometheus.Labels{"fleet": "spent", "result": "throttled"})
	if refused := m.Refused(); int(counted) != refused {
		t.Errorf("got %v throttled calls, want %d", counted, refused)
	}
}
