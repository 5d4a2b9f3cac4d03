// Package clock keeps the daemon's own time, which nobody sets: the wall time at
// which it began plus what the monotonic clock counted since, also across the
// restarts of one boot. Windows, rates, ticks and deadlines are measured by it.
//
// The wall clock is what platforms, sources and people go by. A [Scale] converts
// between the two.
package clock

import (
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// System is what a Clock reads. The zero value is the machine's.
type System struct {
	// Wall returns the time of the wall clock; nil means time.Now.
	Wall func() time.Time
	// Boot returns the id of the machine's present boot and the reading of its
	// monotonic clock. It is called once, by New. An empty id means that neither is
	// known. Nil means those of the machine.
	Boot func() (id string, reading time.Duration)
	// Longest is how long ago an earlier Clock left its State at most, as somebody else
	// knows; 0 where nobody does. The wall clock of another boot is not believed beyond it.
	Longest time.Duration
	// Shared says that the State may be another machine's: how far that one's wall clock is
	// off does not make this one's later than it is.
	Shared bool
}

// State is what the store keeps of a Clock, so that the next one goes on. The zero
// State is that of a store which never had one.
type State struct {
	// Time is the steady time at which the rest was read.
	Time time.Time `json:"time"`
	// Boot is the id of the boot, empty when it was not known, and Reading what its
	// monotonic clock showed.
	Boot    string        `json:"boot,omitempty"`
	Reading time.Duration `json:"reading,omitempty"`
	// Offsets are those of the Scale.
	Offsets []Offset `json:"offsets,omitempty"`
}

// Step is a sudden change of the wall clock.
type Step struct {
	// By is how far it went; below zero is back.
	By time.Duration
	// Offset is how far the wall clock is ahead of steady time since.
	Offset time.Duration
}

// stepThreshold is how far the wall clock may be from where it is expected without
// having been stepped. What slews a clock moves the monotonic one along with it.
const stepThreshold = time.Second

// offsetUnit is what offsets are rounded to: sources know instants to the
// millisecond.
const offsetUnit = time.Millisecond

// keptOffsets bounds the steps that are kept.
const keptOffsets = 16

// Clock counts steady time. It is safe for concurrent use. Make one with New.
type Clock struct {
	wall func() time.Time
	// begun is when New was called: it carries Go's monotonic reading. Boot and
	// reading are those of that instant.
	begun   time.Time
	boot    string
	reading time.Duration
	longest time.Duration
	shared  bool

	scale atomic.Pointer[Scale]
	// mu is held while scale is replaced, and guards what follows: what Look has yet
	// to return, and the scale without that.
	mu      sync.Mutex
	pending Step
	looked  *Scale
}

// New returns a Clock that begins at the wall clock's present time.
func New(system System) *Clock {
	if system.Wall == nil {
		system.Wall = time.Now
	}
	if system.Boot == nil {
		system.Boot = machineBoot
	}
	c := &Clock{wall: system.Wall, longest: system.Longest, shared: system.Shared}
	c.boot, c.reading = system.Boot()
	c.begun = time.Now()
	c.looked = &Scale{base: plain(c.wall())}
	c.scale.Store(c.looked)
	return c
}

// plain returns a time without monotonic reading or location.
func plain(t time.Time) time.Time { return t.Round(0).UTC() }

// Resume makes the clock go on where an earlier one was when it left State behind:
// by the monotonic clock in the same boot, else by the wall clock, but never back, and
// no further than System.Longest.
// What the wall clock did meanwhile counts as a step. It is called before the clock
// is used.
func (c *Clock) Resume(kept State) {
	if kept.Time.IsZero() {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	since := time.Since(c.begun)
	next := &Scale{offsets: kept.Offsets}
	now := kept.Time.Add(c.reading + since - kept.Reading)
	if kept.Boot == "" || kept.Boot != c.boot || now.Before(kept.Time) {
		wall := plain(c.wall())
		if now = wall.Add(-next.Offset()); c.shared && now.After(wall) {
			now = wall
		}
		now = Later(now, kept.Time)
		if last := kept.Time.Add(c.longest + since); c.longest > 0 && now.After(last) {
			now = last
		}
	}
	next.base = plain(now.Add(-since))
	c.looked = next
	c.scale.Store(next)
}

// Now returns the steady time, without a monotonic reading.
func (c *Clock) Now() time.Time { return c.Of(time.Now()) }

// Of returns the steady time of an instant that time.Now returned in this process,
// and that still carries its monotonic reading.
func (c *Clock) Of(instant time.Time) time.Time {
	return c.scale.Load().base.Add(instant.Sub(c.begun))
}

// Scale returns how steady time and the wall clock relate at present.
func (c *Clock) Scale() *Scale {
	scale := c.scale.Load()
	if within(c.ahead() - scale.Offset()) {
		return scale
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	// Again, since a process that stood still between two readings saw no step.
	scale = c.scale.Load()
	ahead := c.ahead().Round(offsetUnit)
	by := ahead - scale.Offset()
	if within(by) {
		return scale
	}
	c.pending.By += by
	c.pending.Offset = ahead
	scale = scale.with(Offset{From: c.Now(), Ahead: ahead})
	c.scale.Store(scale)
	return scale
}

// Steady returns the steady time at which the wall clock, as it goes now, shows wall.
func (c *Clock) Steady(wall time.Time) time.Time { return c.Scale().Steady(wall) }

// Look returns the step of the wall clock since the last Look, the sum of them
// where there were several; false means that there was none.
func (c *Clock) Look() (Step, bool) {
	c.Scale()
	c.mu.Lock()
	defer c.mu.Unlock()
	step := c.pending
	c.pending, c.looked = Step{}, c.scale.Load()
	return step, step.By != 0
}

// ahead returns how far the wall clock is ahead of steady time.
func (c *Clock) ahead() time.Duration { return plain(c.wall()).Sub(c.Now()) }

// within reports whether a difference is none that a step leads to.
func within(d time.Duration) bool { return d.Abs() <= stepThreshold }

// State returns what a later Clock resumes from. A step that nobody looked at yet is
// left to that one.
func (c *Clock) State() State {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	return State{
		Time: c.Of(now), Boot: c.boot, Reading: c.reading + now.Sub(c.begun), Offsets: c.looked.offsets,
	}
}

// Later returns the later of two times.
func Later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// bootIDFile has the id of the present boot.
const bootIDFile = "/proc/sys/kernel/random/boot_id"

// machineBoot returns the id of the present boot and what CLOCK_MONOTONIC shows,
// which Go's own monotonic readings count on from.
func machineBoot() (id string, reading time.Duration) {
	text, err := os.ReadFile(bootIDFile)
	var now unix.Timespec
	if err != nil || unix.ClockGettime(unix.CLOCK_MONOTONIC, &now) != nil {
		return "", 0 // each start then counts as one of another boot
	}
	return strings.TrimSpace(string(text)), time.Duration(now.Nano())
}
