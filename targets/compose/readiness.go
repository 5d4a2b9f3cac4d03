package compose

import (
	"time"

	"github.com/docker/docker/api/types/container"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets/clock"
	"github.com/hpad/hpad/targets/memory"
)

// instanceRecord is the stored record of a container. The engine keeps only the last few health
// checks; without the record, all containers would look new after a restart of hpad.
type instanceRecord struct {
	Readiness policy.Readiness `json:"r"`
	// Changed is the time of the last change of Readiness.
	Changed time.Time `json:"c"`
	// Started is the time of the last start, or of the first reading that found the container
	// running.
	Started time.Time `json:"s"`
	// Stopped is the time of an end that looks like a failure but followed a signal in the
	// engine's events, otherwise zero.
	Stopped time.Time `json:"a,omitzero"`
}

// nextRecord returns the record of a container after a reading.
func nextRecord(m *member, d *detail, before instanceRecord, now time.Time) instanceRecord {
	started, restarted := memory.StartTime(d.started, before.Started, m.runs(), now)
	next := instanceRecord{Started: started, Readiness: policy.ReadinessFalse}
	if d.signalled {
		next.Stopped = d.finished
	}
	var since time.Time
	switch {
	case m.State == container.StatePaused:
		since = now
	case m.State != container.StateRunning:
		since = clock.Later(d.finished, time.Unix(m.Created, 0))
	case m.health == container.Healthy:
		next.Readiness = policy.ReadinessTrue
		since = clock.Later(d.healthySince, next.Started)
	case m.health == "": // no health check
		next.Readiness = policy.ReadinessTrue
		since = next.Started
	case m.health == container.Starting:
		since = next.Started
	default:
		since = now
	}
	next.Changed = memory.ReadinessChange(restarted || next.Readiness != before.Readiness, before.Changed, since, now)
	return next
}
