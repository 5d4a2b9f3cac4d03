// Package clock keeps steady time: the wall time at the start of the daemon plus the elapsed
// monotonic time, also across restarts within one boot. Windows, rates, ticks and deadlines use
// it. Platforms, sources and users see the wall clock; a [Scale] converts between the two.
package clock

import (
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// System is the clocks that a Clock reads. The zero value uses the clocks of the host.
type System struct {
	// Wall returns the time of the wall clock; nil means time.Now.
	Wall func() time.Time
	// Boot returns the id of the current boot and the reading of its monotonic clock; the id is
	// empty if they are unknown. New calls it once. Nil means the boot of the host.
	Boot func() (id string, reading time.Duration)
	// Longest is the maximum age of the State of an earlier Clock; 0 if it is unknown. It limits
	// the elapsed time that the wall clock of another boot indicates.
	Longest time.Duration
	// Shared reports whether the State may be from another host. The wall clock error of that
	// host then does not make this clock later than the wall clock.
	Shared bool
}

// State is the stored state from which the next Clock resumes. The zero State is the state of a
// new store.
type State struct {
	// Time is the steady time of the State.
	Time time.Time `json:"time"`
	// Boot is the id of the boot, or empty, and Reading the reading of its monotonic clock.
	Boot    string        `json:"boot,omitempty"`
	Reading time.Duration `json:"reading,omitempty"`
	// Offsets are the offsets of the Scale.
	Offsets []Offset `json:"offsets,omitempty"`
}

// Step is a sudden change of the wall clock.
type Step struct {
	// By is the size of the step, negative for a step back.
	By time.Duration
	// Offset is the difference between wall clock and steady time after the step.
	Offset time.Duration
}

// stepThreshold is the tolerated difference between the wall clock and its expected time. Slewing
// adjusts the monotonic clock as well.
const stepThreshold = time.Second

// offsetUnit is the precision of offsets; sources use milliseconds.
const offsetUnit = time.Millisecond

// keptOffsets is the maximum number of stored steps.
const keptOffsets = 16

// Clock counts steady time. It is safe for concurrent use. Make one with New.
type Clock struct {
	wall func() time.Time
	// begun is the time of New with Go's monotonic reading. Boot and reading are of the same
	// instant.
	begun   time.Time
	boot    string
	reading time.Duration
	longest time.Duration
	shared  bool

	scale atomic.Pointer[Scale]
	// mu guards changes of scale, and the fields below: the step that Look has not returned yet,
	// and the scale without that step.
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

func plain(t time.Time) time.Time { return t.Round(0).UTC() }

// Resume continues from the State of an earlier Clock: by the monotonic clock within one boot,
// and otherwise by the wall clock, but never back and at most System.Longest ahead. A difference
// to the wall clock counts as a step. It is called before the clock is used.
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

// Of returns the steady time of an instant that time.Now returned in this process, with its
// monotonic reading.
func (c *Clock) Of(instant time.Time) time.Time {
	return c.scale.Load().base.Add(instant.Sub(c.begun))
}

// Scale returns the current relation of steady time and the wall clock.
func (c *Clock) Scale() *Scale {
	scale := c.scale.Load()
	if within(c.ahead() - scale.Offset()) {
		return scale
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	// Check again, because a process that was suspended between the two readings saw no step.
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

// Steady returns the steady time of a present wall clock time.
func (c *Clock) Steady(wall time.Time) time.Time { return c.Scale().Steady(wall) }

// Look returns the sum of the steps of the wall clock since the last Look; false if there was no
// step.
func (c *Clock) Look() (Step, bool) {
	c.Scale()
	c.mu.Lock()
	defer c.mu.Unlock()
	step := c.pending
	c.pending, c.looked = Step{}, c.scale.Load()
	return step, step.By != 0
}

// ahead returns the difference between the wall clock and steady time.
func (c *Clock) ahead() time.Duration { return plain(c.wall()).Sub(c.Now()) }

// within reports whether a difference is no step.
func within(d time.Duration) bool { return d.Abs() <= stepThreshold }

// State returns the state from which a later Clock resumes. It does not contain a step that Look
// has not returned yet.
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

const bootIDFile = "/proc/sys/kernel/random/boot_id"

// machineBoot returns the id of the current boot and the reading of CLOCK_MONOTONIC, on which
// Go's monotonic readings are based.
func machineBoot() (id string, reading time.Duration) {
	text, err := os.ReadFile(bootIDFile)
	var now unix.Timespec
	if err != nil || unix.ClockGettime(unix.CLOCK_MONOTONIC, &now) != nil {
		return "", 0 // each start then counts as one of another boot
	}
	return strings.TrimSpace(string(text)), time.Duration(now.Nano())
}

// Offset is the difference between the wall clock and steady time from one steady time on.
type Offset struct {
	From  time.Time     `json:"from"`
	Ahead time.Duration `json:"ahead"`
}

// Scale converts between steady time and wall clock time. It is immutable. The zero Scale has no
// offset.
type Scale struct {
	// base is the steady time at the start of its Clock.
	base time.Time
	// offsets are the offsets after each step, the oldest first.
	offsets []Offset
}

func (s *Scale) with(next Offset) *Scale {
	offsets := append(slices.Clone(s.offsets), next)
	if over := len(offsets) - keptOffsets; over > 0 {
		offsets = offsets[over:]
		offsets[0].From = time.Time{} // also replaces the deleted offsets
	}
	return &Scale{base: s.base, offsets: offsets}
}

// Offset returns the current difference between the wall clock and steady time.
func (s *Scale) Offset() time.Duration {
	if len(s.offsets) == 0 {
		return 0
	}
	return s.offsets[len(s.offsets)-1].Ahead
}

// Wall converts steady time to wall clock time by the current offset. A zero time stays zero.
func (s *Scale) Wall(t time.Time) time.Time {
	if offset := s.Offset(); offset != 0 && !t.IsZero() {
		return t.Add(offset)
	}
	return t
}

// Steady is the inverse of Wall. A zero time stays zero.
func (s *Scale) Steady(wall time.Time) time.Time {
	if offset := s.Offset(); offset != 0 && !wall.IsZero() {
		return wall.Add(-offset)
	}
	return wall
}

// Happened returns the steady time of an event that another system dated by the wall clock, by
// the offset at that time; now is the current steady time. A time that the wall clock showed
// twice is the second one. A time that it skipped is the time of the step, and a future time is
// now. A zero time stays zero.
func (s *Scale) Happened(wall, now time.Time) time.Time {
	if wall.IsZero() {
		return wall
	}
	var nearest time.Time
	until := now
	for i := len(s.offsets) - 1; i >= -1; i-- {
		var since Offset // before the first step both were the same
		if i >= 0 {
			since = s.offsets[i]
		}
		at := wall.Add(-since.Ahead)
		if i >= 0 && at.Before(since.From) {
			until = since.From
			continue
		}
		if !at.After(until) {
			return at
		}
		if nearest.IsZero() {
			nearest = until
		}
		until = since.From
	}
	return nearest
}

// Shown returns a value with its times converted to wall clock time, see [Moved].
func Shown[T any](s *Scale, value T) T {
	if s.Offset() == 0 {
		return value
	}
	return Moved(value, s.Wall)
}

// Moved returns a copy of a value in which move has replaced all times: in structs, behind
// pointers and in slices. It skips fields with the tag `json:"-"` or `clock:"wall"`.
func Moved[T any](value T, move func(time.Time) time.Time) T {
	moveTimes(reflect.ValueOf(&value).Elem(), move)
	return value
}

var timeType = reflect.TypeFor[time.Time]()

func moveTimes(v reflect.Value, move func(time.Time) time.Time) {
	switch v.Kind() {
	case reflect.Struct:
		if v.Type() == timeType {
			at := v.Addr().Interface().(*time.Time)
			*at = move(*at)
			return
		}
		for field, inner := range v.Fields() {
			if field.IsExported() && field.Tag.Get("json") != "-" && field.Tag.Get("clock") != "wall" {
				moveTimes(inner, move)
			}
		}
	case reflect.Pointer:
		if !v.IsNil() && v.Type().Elem().Kind() == reflect.Struct {
			own := reflect.New(v.Type().Elem())
			own.Elem().Set(v.Elem())
			moveTimes(own.Elem(), move)
			v.Set(own)
		}
	case reflect.Slice:
		if kind := v.Type().Elem().Kind(); !v.IsNil() && (kind == reflect.Struct || kind == reflect.Pointer) {
			own := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
			reflect.Copy(own, v)
			for i := range own.Len() {
				moveTimes(own.Index(i), move)
			}
			v.Set(own)
		}
	}
}
