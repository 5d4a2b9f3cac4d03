package daemon

import (
	"slices"
	"strings"
	"time"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets/clock"
)

// dates are the times of a target's instances as hpad understood them when it first read
// them, in the order of the ids. After a step back the wall clock shows a time twice, and
// only the first reading tells which one a date is.
type dates []date

// date has when an instance started and when its readiness changed.
type date struct {
	id               string
	started, changed stamp
}

// stamp is a time by the wall clock, and the lead of the wall clock over steady time then.
type stamp struct {
	wall  time.Time
	ahead time.Duration
}

func (s stamp) steady() time.Time { return s.wall.Add(-s.ahead) }

// of returns instances with their steady times, and the dates for the next reading. A date
// in the future is now.
func (d dates) of(instances []policy.Instance, scale *clock.Scale, now time.Time) (dated []policy.Instance, known dates) {
	known, dated = d.with(instances, scale, now), instances
	for i := range instances {
		date, _ := known.find(instances[i].ID)
		if date.started.ahead == 0 && date.changed.ahead == 0 {
			continue
		}
		if &dated[0] == &instances[0] { // the reading is not ours to change
			dated = slices.Clone(instances)
		}
		dated[i].StartedAt, dated[i].ReadinessChanged = date.started.steady(), date.changed.steady()
	}
	return dated, known
}

// with returns the dates of instances: d itself if it has them and no others, as in most
// readings.
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

// of returns the stamp of a time that was read at now: s if it is of that time already.
func (s stamp) of(wall time.Time, scale *clock.Scale, now time.Time) stamp {
	if s.wall.Equal(wall) {
		return s
	}
	return stamp{wall: wall, ahead: wall.Sub(scale.Happened(wall, now))}
}

// nextTick returns the first multiple of period since the epoch after t.
func nextTick(t time.Time, period time.Duration) time.Time {
	return lastTick(t, period).Add(period)
}

// lastTick returns the last multiple of period since the epoch not after t.
func lastTick(t time.Time, period time.Duration) time.Time {
	since := t.UnixNano() % int64(period)
	if since < 0 {
		since += int64(period)
	}
	return time.Unix(0, t.UnixNano()-since).UTC()
}
