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
	r.Created, r.Through = notAfter(r.Created, now), notAfter(r.Through, now)
	r.Memory.Recommendations = slices.Clone(r.Memory.Recommendations)
	for i := range r.Memory.Recommendations {
		r.Memory.Recommendations[i].Time = notAfter(r.Memory.Recommendations[i].Time, now)
	}
	r.Memory.ScaleUpEvents = pastEvents(r.Memory.ScaleUpEvents, now)
	r.Memory.ScaleDownEvents = pastEvents(r.Memory.ScaleDownEvents, now)
	r.Memory.Missing = slices.Clone(r.Memory.Missing)
	for i := range r.Memory.Missing {
		r.Memory.Missing[i].FirstFailureTime = notAfter(r.Memory.Missing[i].FirstFailureTime, now)
	}
	r.Status.Metrics = slices.Clone(r.Status.Metrics)
	for i := range r.Status.Metrics {
		r.Status.Metrics[i].FirstFailureTime = notAfter(r.Status.Metrics[i].FirstFailureTime, now)
	}
	r.Status.LastScaleTime = notAfter(r.Status.LastScaleTime, now)
	r.Status.Conditions = slices.Clone(r.Status.Conditions)
	for i := range r.Status.Conditions {
		r.Status.Conditions[i].Since = notAfter(r.Status.Conditions[i].Since, now)
	}
	if r.Intention != nil {
		intention := *r.Intention
		intention.Time = notAfter(intention.Time, now)
		r.Intention = &intention
	}
	if r.Restore != nil {
		restore := *r.Restore
		restore.Since = notAfter(restore.Since, now)
		r.Restore = &restore
	}
	if r.Hindrance != nil {
		hindrance := *r.Hindrance
		hindrance.Since = notAfter(hindrance.Since, now)
		r.Hindrance = &hindrance
	}
	return r
}

func pastEvents(events []policy.ScaleEvent, now time.Time) []policy.ScaleEvent {
	events = slices.Clone(events)
	for i := range events {
		events[i].Time = notAfter(events[i].Time, now)
	}
	return events
}

func notAfter(t, now time.Time) time.Time {
	if t.After(now) {
		return now
	}
	return t
}
