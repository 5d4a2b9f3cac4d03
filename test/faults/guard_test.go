package faults

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/test/internal/program"
	"github.com/hpad/hpad/test/wait"
)

// condition returns a condition of an autoscaler; zero where it has none of the type.
func condition(t testing.TB, p *program.Program, name string, kind policy.ConditionType) policy.Condition {
	t.Helper()
	for _, c := range view(t, p, name).Status.Conditions {
		if c.Type == kind {
			return c
		}
	}
	return policy.Condition{}
}

// TestOnMissing has sources fail whose metrics say what to propose then, and kills hpad
// before their time has come: it comes as if nothing had been, only upwards, and ends
// with the fault.
func TestOnMissing(t *testing.T) {
	t.Parallel()
	const after = 12 * time.Second
	w := newWorld(t, 60, 2)
	victims := map[string]*victim{}
	begin := map[string]func(v *victim){
		"refuses":     func(v *victim) { v.close() },
		"hangs":       func(v *victim) { v.misbehave(hang) },
		"answers 503": func(v *victim) { v.misbehave(say(503, "text/plain", "starting")) },
	}
	more := map[string]int{}
	for fault := range begin {
		source := fmt.Sprintf("s%d", len(victims))
		v := &victim{world: w, front: newFront(t, w.prometheus)}
		w.source(source, v.front)
		for w.Truth(w.next).Count < 4 {
			w.next++
		}
		more[fault] = w.Truth(w.next).Count + 3
		v.name, v.number = w.autoscaler("steady", source, "", fmt.Sprintf("on_missing = { after = %q, use = \"replicas:%d\" }", after, more[fault]))
		victims[fault] = v
	}
	p := w.start()
	p.Passes(w.steady[0], 2)
	use := uses(t, p)
	before, since := map[string]int{}, map[string]time.Time{}
	for fault, v := range victims {
		before[fault] = w.Truth(v.number).Count
		begin[fault](v)
		w.Ask(v.number, before[fault]/2)
	}
	for fault, v := range victims {
		wait.For(t, patience, "first failure of one that "+fault, func() (string, bool) {
			status := view(t, p, v.name).Status
			since[fault] = status.Metrics[0].FirstFailureTime
			return fmt.Sprintf("%+v", status.Metrics), !since[fault].IsZero()
		})
	}
	p.Kill()
	p.Start()
	end := w.watch(t, p)
	for fault, v := range victims {
		t.Run(fault, func(t *testing.T) {
			wait.For(t, patience, "count that it is to have meanwhile", func() (string, bool) {
				now := w.Truth(v.number).Count
				return fmt.Sprintf("%d, %+v", now, view(t, p, v.name).Evaluation), now == more[fault]
			})
			writes := v.written(v.number)
			if len(writes) != 1 || writes[0].from != before[fault] {
				t.Fatalf("its count was written by %+v, want once", writes)
			}
			if waited := writes[0].at.Sub(since[fault]); waited < after || waited > after+4*period*time.Second {
				t.Errorf("that was %v after its first failure, want %v, the restart included", waited, after)
			}
			if c := condition(t, p, v.name, policy.ExternalMetricFallbackActive); c.Status != policy.ConditionTrue {
				t.Errorf("its condition is %+v", c)
			}
			v.told(t, p, regexp.MustCompile("refused|timeout of 1s|503"))
			if said := p.With(t).Says("describe", v.name); !strings.Contains(said, string(policy.ExternalMetricFallbackActive)) {
				t.Errorf("describe does not tell of it:\n%s", said)
			}
			if fault == "refuses" {
				v.listen()
			}
			v.heal()
			wait.For(t, patience, "count that follows the load again", func() (string, bool) {
				now, c := w.Truth(v.number).Count, condition(t, p, v.name, policy.ExternalMetricFallbackActive)
				return fmt.Sprintf("%d, %+v", now, c), now == before[fault]/2 && c.Status != policy.ConditionTrue
			})
		})
	}
	end()
	comesBack(t, p, use)
	p.Stop()
}

// TestBreaker has the source of a whole fleet lie: everything is idle. Its breaker keeps
// every instance, also over a kill, and ends by itself; another fleet is not held.
func TestBreaker(t *testing.T) {
	t.Parallel()
	const window = time.Minute
	w := newWorld(t, 60, 2)
	source, fleet := newFront(t, w.prometheus), newFront(t, w.nomad)
	w.source("liar", source)
	w.fleet("guarded", fleet, fmt.Sprintf("breaker = { max_removed = \"30%%\", window = %q }\n", window))
	var victims []*victim
	before := map[int]int{}
	for range 5 {
		v := &victim{world: w, front: source}
		v.name, v.number = w.autoscaler("guarded", "liar", "")
		before[v.number] = w.Truth(v.number).Count
		victims = append(victims, v)
	}
	p := w.start()
	p.Passes(w.steady[0], 2)
	p.Passes(victims[0].name, 2)
	use := uses(t, p)
	end := w.watch(t, p)
	whole := func(t testing.TB) {
		t.Helper()
		for _, v := range victims {
			if now := w.Truth(v.number).Count; now != before[v.number] || len(v.written(v.number)) > 0 {
				t.Errorf("%s has %d instances, and had %d: %+v", v.name, now, before[v.number], v.written(v.number))
			}
		}
	}
	opened := func(t testing.TB) {
		t.Helper()
		wait.For(t, patience, "breaker in all that people look at", func() (string, bool) {
			_, ready, err := p.Ask(http.MethodGet, "/-/ready")
			got, described := p.Says("get"), p.Says("describe", victims[0].name)
			explained := strings.Join(strings.Fields(p.Says("explain", victims[0].name)), " ")
			metric := p.Metric("hpad_fleet_breaker_open", "guarded")
			return fmt.Sprintf("%v, %v, metric %v\n%s\n%s\n%s\n%s", ready, err, metric, got, described, explained, p.Said()),
				err == nil && metric == 1 && strings.Contains(ready, "breaker") && strings.Contains(got, "breaker") &&
					strings.Contains(described, "BreakerOpen") && strings.Contains(explained, "breaker")
		})
	}
	source.misbehave(value("0"))
	opened(t)
	whole(t)
	end() // nobody is asked while it is killed
	p.Kill()
	p.Start()
	end = w.watch(t, p)
	p.Passes(victims[0].name, 2)
	opened(t)
	whole(t)
	source.heal()
	w.Ask(victims[0].number, before[victims[0].number]-1)
	w.Ask(w.next-1, before[w.next-1])
	wait.For(t, patience, "end of the breaker", func() (string, bool) {
		metric := p.Metric("hpad_fleet_breaker_open", "guarded")
		return fmt.Sprint(metric), metric == 0
	})
	victims[0].recovers(t, p, before[victims[0].number]-1)
	victims = victims[1:]
	whole(t)
	end()
	comesBack(t, p, use)
	p.Stop()
}
