package policy_test

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/hpad/hpad/policy"
)

func (w *world) at(later time.Time) *world {
	by := later.Sub(w.Now)
	moved := *w
	moved.Now = later
	moved.Observation.Pauses = slices.DeleteFunc(slices.Clone(w.Observation.Pauses), func(p policy.Pause) bool { return p.Ended(later) })
	moved.Observation.Instances = slices.Clone(w.Observation.Instances)
	for i := range moved.Observation.Instances {
		instance := &moved.Observation.Instances[i]
		if !instance.StartedAt.IsZero() {
			instance.StartedAt = instance.StartedAt.Add(by)
		}
		instance.ReadinessChanged = instance.ReadinessChanged.Add(by)
	}
	moved.Observation.Metrics = slices.Clone(w.Observation.Metrics)
	for i := range moved.Observation.Metrics {
		reading := &moved.Observation.Metrics[i]
		reading.Samples = slices.Clone(reading.Samples)
		for j := range reading.Samples {
			reading.Samples[j].At = reading.Samples[j].At.Add(by)
		}
	}
	return &moved
}

func (w *world) recommending(count int32) *world {
	recommended := *w
	recommended.Spec.Metrics = []policy.MetricSpec{queueMetric(1000)}
	recommended.Observation.StatusReplicas = count
	recommended.Observation.Metrics = []policy.Reading{{ValuesMilli: []int64{int64(count) * 1000}}}
	return &recommended
}

func (w *world) after(d policy.Decision) *world {
	left, outcome := *w, policy.Outcome{}
	if d.Write {
		outcome = policy.Outcome{Kind: policy.Written, Reached: d.DesiredReplicas}
		left.Observation.SpecReplicas = d.DesiredReplicas
		left.Observation.Restore = nil
	}
	settled := policy.Settle(d, outcome, w.Now)
	left.Memory, left.Status = settled.Memory, settled.Status
	return &left
}

func (w *world) next(d policy.Decision) policy.Next {
	return policy.LookAhead(w.Settings, w.Spec, w.Memory, w.Status, d.Explained(), w.Observation.SpecReplicas)
}

func (w *world) changes(t *rapid.T, at time.Time, says func(desired int32) bool) {
	count := w.Observation.SpecReplicas
	until := at
	if at.IsZero() {
		until = w.Now.Add(2 * time.Hour)
	}
	early := []time.Time{w.Now, until.Add(-time.Nanosecond), until.Add(-time.Second)}
	for range 3 {
		early = append(early, w.Now.Add(time.Duration(rapid.Int64Range(0, int64(2*time.Hour)).Draw(t, "early"))))
	}
	for _, instant := range early {
		if instant.Before(w.Now) || !instant.Before(until) {
			continue
		}
		if d := w.at(instant).decide(); d.Write && says(d.DesiredReplicas) {
			t.Fatalf("%d -> %d at %s after the pass, want %s", count, d.DesiredReplicas, instant.Sub(w.Now), at.Sub(w.Now))
		}
	}
	if at.IsZero() {
		return
	}
	if d := w.at(at).decide(); !d.Write || !says(d.DesiredReplicas) {
		t.Fatalf("%d -> %d (%s) at %s after the pass", count, d.DesiredReplicas, d.Case, at.Sub(w.Now))
	}
	passing := w
	for tick := w.Now.Add(15 * time.Second); tick.Before(at); tick = tick.Add(15 * time.Second) {
		passing = passing.at(tick)
		d := passing.decide()
		if d.Write && says(d.DesiredReplicas) {
			t.Fatalf("%d -> %d by a pass %s after the first, want %s", count, d.DesiredReplicas, tick.Sub(w.Now), at.Sub(w.Now))
		}
		settled := policy.Settle(d, policy.Outcome{}, tick)
		passing.Memory, passing.Status = settled.Memory, settled.Status
	}
	if d := passing.at(at).decide(); !d.Write || !says(d.DesiredReplicas) {
		t.Fatalf("%d -> %d (%s) by a pass %s after the first", count, d.DesiredReplicas, d.Case, at.Sub(w.Now))
	}
}

func TestNextHolds(t *testing.T) {
	counted := map[string]int{}
	property := func(t *rapid.T) {
		w := drawWorld(t)
		w.Observation.Hold = nil
		w.Settings.OutageHold = 0 // TestOutageInterplay: the passes of an outage extend the windows
		if chance(t, 4, "paused") {
			w.Observation.Pauses = []policy.Pause{{Direction: rapid.SampledFrom([]policy.Direction{policy.Up, policy.Down, policy.BothDirections}).Draw(t, "direction")}}
			if rapid.Bool().Draw(t, "ends") {
				w.Observation.Pauses[0].Until = w.Now.Add(time.Duration(rapid.IntRange(1, 4000).Draw(t, "paused for")) * time.Second)
			}
		}
		if chance(t, 4, "with mode") {
			w.Settings.Mode = rapid.SampledFrom([]policy.Mode{policy.ModeRecommend, policy.ModeUpOnly, policy.ModeDownOnly, policy.ModeOff}).Draw(t, "mode")
		}
		d := w.decide()
		left := w.after(d)
		next, count := left.next(d), left.Observation.SpecReplicas
		says := func(desired int32) bool { return desired == next.Replicas && desired != count }
		switch {
		case d.Case == policy.CaseUnreadable:
			return
		case d.Write && d.Recommendation != nil:
			left = left.recommending(*d.Recommendation)
		case d.Write:
			return
		}
		if d.Case == policy.CaseMetricsFailed && d.Restore == nil {
			counted["unknown"]++
			if !next.At.IsZero() {
				t.Fatalf("At = %s although the metrics failed, want zero", next.At)
			}
		}
		if next.At.IsZero() {
			says = func(desired int32) bool { return desired != count }
			counted["never"]++
		} else {
			counted["then"]++
			if next.At.After(w.Now) {
				counted["later"]++
			}
		}
		left.changes(t, next.At, says)
		for _, way := range []struct {
			move *policy.Move
			sign int32
		}{{next.Up, 1}, {next.Down, -1}} {
			if way.move == nil {
				continue
			}
			counted["move"]++
			recommended := left.recommending(count + way.sign)
			recommended.changes(t, way.move.At, func(desired int32) bool { return way.sign*(desired-count) > 0 })
		}
	}
	for range 4 {
		rapid.Check(t, property)
	}
	for _, what := range []string{"unknown", "never", "then", "later", "move"} {
		if counted[what] < 100 {
			t.Errorf("%d cases of %q, want at least 100; all cases: %v", counted[what], what, counted)
		}
	}
}

func (w *world) valued(metric int, result policy.MetricResult, value int64, least bool) (*world, bool) {
	valued := *w
	valued.Observation.Metrics = slices.Clone(w.Observation.Metrics)
	reading := &valued.Observation.Metrics[metric]
	reading.Samples = slices.Clone(reading.Samples)
	switch result.Type {
	case policy.ObjectMetric:
		reading.ValueMilli = &value
		return &valued, true
	case policy.ExternalMetric:
		reading.ValuesMilli = []int64{value}
		return &valued, true
	}
	var ready []int
	for i := range reading.Samples {
		for j := range reading.Samples {
			reading.Samples[j].Milli = 0
		}
		reading.Samples[i].Milli = 1_000_000_000
		if found := valued.decide().Metrics[metric].Current.AverageValueMilli; found != nil && *found > 0 {
			ready = append(ready, i)
		}
		reading.Samples[i].Milli = 0
	}
	if result.TargetType == policy.AverageValueTarget {
		for i := range reading.Samples {
			reading.Samples[i].Milli = value
		}
		if !least && len(ready) > 0 {
			reading.Samples[ready[0]].Milli += int64(len(ready)) - 1
		}
		return &valued, len(ready) > 0
	}
	var requested int64
	for _, i := range ready {
		if i < len(w.Observation.Instances) {
			requested += w.Observation.Instances[i].Tasks[0].Requests[0].Milli
		}
	}
	if len(ready) == 0 || requested == 0 {
		return nil, false
	}
	usage := (value*requested + 99) / 100
	if !least {
		usage = ((value+1)*requested+99)/100 - 1
	}
	reading.Samples[ready[0]].Milli = usage
	return &valued, usage*100/requested == value
}

func TestThresholdsHold(t *testing.T) {
	counted := map[policy.MetricType]int{}
	property := func(t *rapid.T) {
		w := drawWorld(t)
		w.Observation.Hold = &policy.Hold{}
		d := w.decide()
		left := w.after(d)
		next := left.next(d)
		for _, way := range []struct {
			move *policy.Move
			sign int32
		}{{next.Up, 1}, {next.Down, -1}} {
			if way.move == nil {
				continue
			}
			for _, threshold := range way.move.Metrics {
				result := d.Metrics[threshold.Metric]
				for by, past := range map[int64]bool{0: false, int64(way.sign): true} {
					valued, ok := left.valued(threshold.Metric, result, threshold.Value+by, way.sign > 0)
					if !ok {
						continue
					}
					counted[result.Type]++
					got := valued.decide().Metrics[threshold.Metric]
					if got.Partial != "" && got.Error != "" && way.sign > 0 && !past {
						continue // the proposal is lower, but a partial result does not scale down
					}
					if got.Error != "" || (way.sign*(got.Proposal-d.CurrentReplicas) > 0) != past || past && got.Proposal != threshold.Proposal {
						t.Fatalf("%s %s at %d%+d proposes %d, current count %d (%q, rule %s; result was %+v), threshold %+v, direction %d",
							result.Type, result.Name, threshold.Value, by, got.Proposal, d.CurrentReplicas, got.Error, got.Rule, result, threshold, way.sign)
					}
				}
			}
		}
	}
	for range 4 {
		rapid.Check(t, property)
	}
	for _, kind := range []policy.MetricType{
		policy.ResourceMetric, policy.ContainerResourceMetric, policy.InstancesMetric, policy.ObjectMetric, policy.ExternalMetric,
	} {
		if counted[kind] < 30 {
			t.Errorf("only %d values of %s were tested; all values: %v", counted[kind], kind, counted)
		}
	}
}

// TestNextAfterCommand checks that a partial result or a failed metric does not predict a scale-down
// from a count that an operator has set.
func TestNextAfterCommand(t *testing.T) {
	value := []int64{30_000}
	for name, c := range map[string]struct {
		readings []policy.Reading
		known    bool
	}{
		"complete": {[]policy.Reading{{ValuesMilli: value}, {ValuesMilli: value}}, true},
		"partial":  {[]policy.Reading{{ValuesMilli: value}, {ValuesMilli: value, Partial: "a store is missing"}}, false},
		"failed":   {[]policy.Reading{{ValuesMilli: value}, {Error: "timeout"}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := &world{
				Spec: policy.Default(policy.Spec{MaxReplicas: 9, Metrics: []policy.MetricSpec{queueMetric(10_000), queueMetric(10_000)}}),
				Now:  time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC),
			}
			w.Observation = policy.Observation{
				SpecReplicas: 3, StatusReplicas: 3, Metrics: c.readings, Command: &policy.Command{Replicas: 5},
			}
			next := w.after(w.decide()).next(w.decide())
			if known := !next.At.IsZero(); known != c.known || next.Count != 5 {
				t.Errorf("next = %+v, want a predicted change: %t", next, c.known)
			}
			failed := slices.ContainsFunc(next.Waits, func(wait policy.Wait) bool { return wait.Reason == "FailedGetExternalMetric" })
			if failed == c.known {
				t.Errorf("waits = %+v, want a wait for a metric: %t", next.Waits, !c.known)
			}
		})
	}
}
