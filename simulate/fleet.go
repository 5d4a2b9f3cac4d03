package simulate

import (
	"slices"
	"time"

	"github.com/hpad/hpad/policy"
)

// batch is a group of instances that start or drain until an instant.
type batch struct {
	count int32
	until time.Time
}

// fleet is a simulated target.
type fleet struct {
	replicas           int32
	starting, draining []batch
	startup, drain     time.Duration
}

// at ends the starts and drains that are complete, and returns the numbers of instances.
func (f *fleet) at(now time.Time) (ready, starting, draining int32) {
	ended := func(b batch) bool { return !b.until.After(now) }
	f.starting, f.draining = slices.DeleteFunc(f.starting, ended), slices.DeleteFunc(f.draining, ended)
	for _, b := range f.starting {
		starting += b.count
	}
	for _, b := range f.draining {
		draining += b.count
	}
	return max(0, f.replicas-starting), starting, draining
}

// scale changes the count. A scale-down first removes the instances that started last.
func (f *fleet) scale(to int32, now time.Time) {
	change := to - f.replicas
	f.replicas = to
	if change > 0 {
		f.starting = append(f.starting, batch{change, now.Add(f.startup)})
		return
	}
	for change < 0 && len(f.starting) > 0 {
		last := &f.starting[len(f.starting)-1]
		removed := min(last.count, -change)
		last.count -= removed
		change += removed
		if last.count == 0 {
			f.starting = f.starting[:len(f.starting)-1]
		}
	}
	if change < 0 {
		f.draining = append(f.draining, batch{-change, now.Add(f.drain)})
	}
}

// follow sets the recorded numbers of instances, and keeps the expected ends of starts.
func (f *fleet) follow(replicas, ready int32, now time.Time) {
	f.replicas = replicas
	_, known, _ := f.at(now)
	for surplus := known - max(0, replicas-ready); surplus > 0 && len(f.starting) > 0; {
		first := &f.starting[0]
		removed := min(first.count, surplus)
		first.count -= removed
		surplus -= removed
		if first.count == 0 {
			f.starting = f.starting[1:]
		}
	}
}

// serving returns the number of instances that carry load, or Unknown. Without a report of the
// readiness, all observed instances do.
func (t *Tick) serving() int32 {
	if t.Ready > 0 || t.Outage {
		return max(t.Ready, 0)
	}
	return t.Observed
}

// carrying returns the number of instances that carry the load of a metric. The groups do not contain
// new instances without a usable cpu sample.
func (t *Tick) carrying(groups *policy.Groups) int {
	return max(groups.Ready+groups.Missing, int(t.serving()))
}

// Delay is the time of a start or a drain.
type Delay struct {
	Duration time.Duration `json:"duration"`
	// Measured is the number of recorded changes. The duration is their median. It is 0 if the
	// duration is a default or was given.
	Measured int `json:"measured,omitempty"`
	// Given reports whether the user gave the duration.
	Given bool `json:"given,omitempty"`
}

const (
	// defaultStartup is the start-up time if the recording contains no scale-up.
	defaultStartup = 30 * time.Second
	// longestDelay limits the search for the end of a start or drain.
	longestDelay = time.Hour
)

// delay returns the median time from a recorded scale-up until all instances were ready, or from a
// recorded scale-down until the removed instances were gone.
func (r *Recording) delay(up bool, given *time.Duration) Delay {
	if given != nil {
		return Delay{Duration: *given, Given: true}
	}
	var measured []time.Duration
	for i := range r.Ticks {
		from := &r.Ticks[i]
		if r.CountsUnknown || !from.Readable() || from.Prevented != "" || from.Desired == from.Replicas || from.Desired > from.Replicas != up {
			continue
		}
		if took, ok := r.until(i, up); ok {
			measured = append(measured, took)
		}
	}
	if len(measured) == 0 {
		switch {
		case up && r.Startup.Measured > 0:
			return r.Startup
		case up:
			return Delay{Duration: defaultStartup}
		}
		return r.Drain
	}
	slices.Sort(measured)
	return Delay{Duration: measured[len(measured)/2], Measured: len(measured)}
}

// SetDelays sets the delays to the medians of the changes in past, after the last change of the target. A
// simulation uses them if r contains no complete change.
func (r *Recording) SetDelays(past *Recording) {
	same := *past
	for _, note := range past.Notes {
		if note.Text == TargetChanged {
			at, _ := slices.BinarySearchFunc(same.Ticks, note.Time, func(t Tick, at time.Time) int { return t.Time.Compare(at) })
			same.Ticks = same.Ticks[at:]
		}
	}
	r.Startup, r.Drain = same.delay(true, nil), same.delay(false, nil)
}

// until returns the time until a change of the count in tick i is complete. It returns false if
// another change interrupts it.
func (r *Recording) until(i int, up bool) (time.Duration, bool) {
	from := &r.Ticks[i]
	for j := i + 1; j < len(r.Ticks); j++ {
		tick := &r.Ticks[j]
		took := tick.Time.Sub(from.Time)
		switch {
		case took > longestDelay:
			return 0, false
		case !tick.Readable():
			continue
		case up && tick.Replicas < from.Desired, !up && tick.Replicas > from.Desired:
			return 0, false
		case up && tick.serving() >= from.Desired, !up && tick.Observed <= from.Desired:
			return took, true
		}
	}
	return 0, false
}
