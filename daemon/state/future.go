package state

import (
	"maps"
	"slices"
	"time"

	"github.com/hpad/hpad/policy"
)

// WithoutFuture returns the snapshot with what is later than now made now: a clock
// that was wrong must neither free a rate nor fill a window for long.
func (s Snapshot) WithoutFuture(now time.Time) Snapshot {
	s.LastRound = notAfter(s.LastRound, now)
	records := make(map[string]Record, len(s.Autoscalers))
	for name, record := range s.Autoscalers {
		records[name] = record.withoutFuture(now)
	}
	s.Autoscalers = records
	s.Pauses = slices.Clone(s.Pauses)
	for i := range s.Pauses {
		s.Pauses[i] = pauseWithoutFuture(s.Pauses[i], now)
	}
	removals := make(map[string]Removals, len(s.Removals))
	for fleet, r := range s.Removals {
		removals[fleet] = r.withoutFuture(now)
	}
	s.Removals = removals
	return s
}

// WithoutDowntime returns the snapshot with the first failures of metrics moved forward by
// how long ago the last round was, where that is longer than a break that may be: a
// metric that fails for some time is one that was seen to fail for it.
func (s Snapshot) WithoutDowntime(now time.Time, longest time.Duration) Snapshot {
	down := now.Sub(s.LastRound)
	if s.LastRound.IsZero() || down <= longest {
		return s
	}
	s.Autoscalers = maps.Clone(s.Autoscalers)
	for name, record := range s.Autoscalers {
		record.Memory.Missing = slices.Clone(record.Memory.Missing)
		for i := range record.Memory.Missing {
			if first := &record.Memory.Missing[i].FirstFailureTime; !first.IsZero() {
				*first = notAfter(first.Add(down), now)
			}
		}
		s.Autoscalers[name] = record
	}
	return s
}

// pauseWithoutFuture returns a pause that began at now at the latest, and is as long as
// before.
func pauseWithoutFuture(pause policy.Pause, now time.Time) policy.Pause {
	ahead := pause.Since.Sub(now)
	if ahead <= 0 {
		return pause
	}
	pause.Since = now
	if !pause.Until.IsZero() {
		pause.Until = pause.Until.Add(-ahead)
	}
	return pause
}

func (r Record) withoutFuture(now time.Time) Record {
	return r.moved(func(t time.Time) time.Time { return notAfter(t, now) })
}

// moved returns the record with all its times moved.
func (r Record) moved(move func(time.Time) time.Time) Record {
	r.Created, r.Through = move(r.Created), move(r.Through)
	r.Memory.Recommendations = slices.Clone(r.Memory.Recommendations)
	for i := range r.Memory.Recommendations {
		r.Memory.Recommendations[i].Time = move(r.Memory.Recommendations[i].Time)
	}
	r.Memory.ScaleUpEvents = movedEvents(r.Memory.ScaleUpEvents, move)
	r.Memory.ScaleDownEvents = movedEvents(r.Memory.ScaleDownEvents, move)
	r.Memory.Missing = slices.Clone(r.Memory.Missing)
	for i := range r.Memory.Missing {
		r.Memory.Missing[i].FirstFailureTime = move(r.Memory.Missing[i].FirstFailureTime)
	}
	r.Status.Metrics = slices.Clone(r.Status.Metrics)
	for i := range r.Status.Metrics {
		r.Status.Metrics[i].FirstFailureTime = move(r.Status.Metrics[i].FirstFailureTime)
	}
	r.Status.LastScaleTime = move(r.Status.LastScaleTime)
	r.Status.Conditions = slices.Clone(r.Status.Conditions)
	for i := range r.Status.Conditions {
		r.Status.Conditions[i].Since = move(r.Status.Conditions[i].Since)
	}
	if r.Intention != nil {
		intention := *r.Intention
		intention.Time = move(intention.Time)
		r.Intention = &intention
	}
	if r.Restore != nil {
		restore := *r.Restore
		restore.Since = move(restore.Since)
		r.Restore = &restore
	}
	if r.Hindrance != nil {
		hindrance := *r.Hindrance
		hindrance.Since = move(hindrance.Since)
		r.Hindrance = &hindrance
	}
	return r
}

func movedEvents(events []policy.ScaleEvent, move func(time.Time) time.Time) []policy.ScaleEvent {
	events = slices.Clone(events)
	for i := range events {
		events[i].Time = move(events[i].Time)
	}
	return events
}

func notAfter(t, now time.Time) time.Time {
	if t.After(now) {
		return now
	}
	return t
}
