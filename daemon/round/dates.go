package round

import (
	"slices"
	"strings"
	"time"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets/clock"
)

// dates contains the times of a target's instances, ordered by ID. Each time is converted from
// wall-clock time to monotonic time (see package clock) when it is first read. A later conversion
// would be ambiguous, because the wall clock repeats times after a step back.
type dates []date

// date contains the start time of an instance and the time of its last readiness change.
type date struct {
	id               string
	started, changed stamp
}

// stamp is a wall-clock time with the offset of the wall clock from monotonic time at that moment.
type stamp struct {
	wall  time.Time
	ahead time.Duration
}

func (s stamp) monotonic() time.Time { return s.wall.Add(-s.ahead) }

// of returns the instances with monotonic times, and the dates for the next reading. A time in the
// future is replaced by now.
func (d dates) of(instances []policy.Instance, scale *clock.Scale, now time.Time) (dated []policy.Instance, known dates) {
	known, dated = d.with(instances, scale, now), instances
	for i := range instances {
		date, _ := known.find(instances[i].ID)
		if date.started.ahead == 0 && date.changed.ahead == 0 {
			continue
		}
		if &dated[0] == &instances[0] { // copy, because other passes share the reading
			dated = slices.Clone(instances)
		}
		dated[i].StartedAt, dated[i].ReadinessChanged = date.started.monotonic(), date.changed.monotonic()
	}
	return dated, known
}

// with returns the dates of the given instances, or d itself if no time has changed.
func (d dates) with(instances []policy.Instance, scale *clock.Scale, now time.Time) dates {
	changed := len(d) != len(instances)
	for i := 0; i < len(instances) && !changed; i++ {
		before, found := d.find(instances[i].ID)
		changed = !found || !before.started.wall.Equal(instances[i].StartedAt) || !before.changed.wall.Equal(instances[i].ReadinessChanged)
	}
	if !changed {
		return d
	}
	next := make(dates, len(instances))
	for i := range instances {
		before, _ := d.find(instances[i].ID)
		next[i] = date{
			id:      instances[i].ID,
			started: before.started.of(instances[i].StartedAt, scale, now),
			changed: before.changed.of(instances[i].ReadinessChanged, scale, now),
		}
	}
	slices.SortFunc(next, func(a, b date) int { return strings.Compare(a.id, b.id) })
	return next
}

func (d dates) find(id string) (date, bool) {
	i, found := slices.BinarySearchFunc(d, id, func(d date, id string) int { return strings.Compare(d.id, id) })
	if !found {
		return date{}, false
	}
	return d[i], true
}

// of returns the stamp for a wall-clock time that was read at now. It returns s if the time is
// unchanged.
func (s stamp) of(wall time.Time, scale *clock.Scale, now time.Time) stamp {
	if s.wall.Equal(wall) {
		return s
	}
	return stamp{wall: wall, ahead: wall.Sub(scale.Happened(wall, now))}
}
