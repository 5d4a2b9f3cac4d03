// Package clock provides monotonic time: the wall time at the daemon's first start plus the time
// that has elapsed since then on the monotonic clock. Monotonic time continues across restarts
// within one boot. Windows, rates, ticks and deadlines use monotonic time. Platforms, sources and
// users use the wall clock. A [Scale] converts between the two.
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

// System contains the clocks that a Clock reads. The zero value uses the clocks of the host.
type System struct {
	// Wall returns the time of the wall clock; nil means time.Now.
	Wall func() time.Time
	// Boot returns the id of the current boot and the reading of its monotonic clock. The id is
	// empty if they are unknown. New calls Boot once. Nil means the host's current boot.
	Boot func() (id string, reading time.Duration)
	// Longest is the maximum age of an earlier Clock's State; 0 if it is unknown. After a reboot,
	// the elapsed time comes from the wall clock, and Longest limits it.
	Longest time.Duration
	// Shared reports whether the State may be from another host. An error of that host's wall clock
	// then does not move this Clock ahead of the wall clock.
	Shared bool
}

// State is the stored state from which the next Clock resumes. The zero State is the state of a
// new store.
type State struct {
	// Time is the monotonic time of the State.
	Time time.Time `json:"time"`
	// Boot is the id of the boot; it may be empty. Reading is the reading of the boot's monotonic
	// clock.
	Boot    string        `json:"boot,omitempty"`
	Reading time.Duration `json:"reading,omitempty"`
	// Offsets convert times of the earlier Clock; see Scale.
	Offsets []Offset `json:"offsets,omitempty"`
}

// Scale returns the Scale that converts the times of the Clock that stored the State.
func (s State) Scale() *Scale { return &Scale{offsets: s.Offsets} }

// Step is a sudden change to the wall clock.
type Step struct {
	// By is the size of the step, negative for a step back.
	By time.Duration
	// Offset is the difference between wall clock and monotonic time after the step.
	Offset time.Duration
}

// stepThreshold is the tolerated difference between the wall clock and its expected time. Slewing
// causes no difference, because it adjusts the monotonic clock as well.
const stepThreshold = time.Second

// offsetUnit is the precision of offsets; sources use milliseconds.
const offsetUnit = time.Millisecond

// keptOffsets is the maximum number of stored steps.
const keptOffsets = 16

// Clock measures monotonic time. It is safe for concurrent use. Create one with New.
type Clock struct {
	wall func() time.Time
	// begun is the time when New was called, with Go's monotonic reading. boot and reading are
	// from the same instant.
	begun   time.Time
	boot    string
	reading time.Duration
	longest time.Duration
	shared  bool

	scale atomic.Pointer[Scale]
	// mu guards pending and changes to scale. pending is the step that TakeStep has not returned
	// yet.
	mu      sync.Mutex
	pending Step
}

// New returns a Clock that starts at the wall clock's current time.
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
	c.scale.Store(&Scale{base: plain(c.wall())})
	return c
}

func plain(t time.Time) time.Time { return t.Round(0).UTC() }

// Resume continues from the State of an earlier Clock. It measures the elapsed time with the
// monotonic clock if the boot is the same. Otherwise it uses the wall clock, but never moves
// back, and moves ahead by at most System.Longest. It treats a difference from the wall clock as
// a step. It must be called before the Clock is used.
func (c *Clock) Resume(state State) {
	if state.Time.IsZero() {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	since := time.Since(c.begun)
	next := &Scale{offsets: state.Offsets}
	now := state.Time.Add(c.reading + since - state.Reading)
	if state.Boot == "" || state.Boot != c.boot || now.Before(state.Time) {
		wall := plain(c.wall())
		if now = wall.Add(-next.Offset()); c.shared && now.After(wall) {
			now = wall
		}
		now = Later(now, state.Time)
		if last := state.Time.Add(c.longest + since); c.longest > 0 && now.After(last) {
			now = last
		}
	}
	next.base = plain(now.Add(-since))
	c.scale.Store(next)
}

// Now returns the monotonic time. The result has no monotonic clock reading in the sense of package
// time.
func (c *Clock) Now() time.Time { return c.Of(time.Now()) }

// Of returns the monotonic time of an instant that time.Now returned in this process, with its
// monotonic reading.
func (c *Clock) Of(instant time.Time) time.Time {
	return c.scale.Load().base.Add(instant.Sub(c.begun))
}

// Scale returns the current mapping between monotonic time and the wall clock.
func (c *Clock) Scale() *Scale {
	scale := c.scale.Load()
	if within(c.ahead() - scale.Offset()) {
		return scale
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	// Measure again under the lock, because a suspension of the process between the two clock
	// readings looks like a step.
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

// Monotonic converts a current wall clock time to monotonic time.
func (c *Clock) Monotonic(wall time.Time) time.Time { return c.Scale().Monotonic(wall) }

// TakeStep returns the sum of the wall clock's steps since its last call, or false if there
// was no step.
func (c *Clock) TakeStep() (Step, bool) {
	c.Scale()
	c.mu.Lock()
	defer c.mu.Unlock()
	step := c.pending
	c.pending = Step{}
	return step, step.By != 0
}

// ahead returns the difference between the wall clock and monotonic time.
func (c *Clock) ahead() time.Duration { return plain(c.wall()).Sub(c.Now()) }

// within reports whether a difference is too small to be a step.
func within(d time.Duration) bool { return d.Abs() <= stepThreshold }

// State returns the state from which a later Clock resumes.
func (c *Clock) State() State {
	now := time.Now()
	return State{Time: c.Of(now), Boot: c.boot, Reading: c.reading + now.Sub(c.begun), Offsets: c.scale.Load().offsets}
}

// Later returns the later of two times.
func Later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

const bootIDFile = "/proc/sys/kernel/random/boot_id"

// machineBoot returns the id of the current boot and the reading of CLOCK_MONOTONIC. Go's
// monotonic readings are based on the same clock.
func machineBoot() (id string, reading time.Duration) {
	text, err := os.ReadFile(bootIDFile)
	var now unix.Timespec
	if err != nil || unix.ClockGettime(unix.CLOCK_MONOTONIC, &now) != nil {
		return "", 0 // each start is then treated as a new boot
	}
	return strings.TrimSpace(string(text)), time.Duration(now.Nano())
}

// Offset is the difference between the wall clock and monotonic time. It applies from the monotonic
// time From.
type Offset struct {
	From  time.Time     `json:"from"`
	Ahead time.Duration `json:"ahead"`
}

// Scale converts between monotonic time and wall clock time. It is immutable. The zero Scale has no
// offset.
type Scale struct {
	// base is the monotonic time when the Clock started.
	base time.Time
	// offsets contains the offset after each step, oldest first.
	offsets []Offset
}

func (s *Scale) with(next Offset) *Scale {
	offsets := append(slices.Clone(s.offsets), next)
	if over := len(offsets) - keptOffsets; over > 0 {
		offsets = offsets[over:]
		offsets[0].From = time.Time{} // also applies to the times of the deleted offsets
	}
	return &Scale{base: s.base, offsets: offsets}
}

// Offset returns the current difference between the wall clock and monotonic time.
func (s *Scale) Offset() time.Duration {
	if len(s.offsets) == 0 {
		return 0
	}
	return s.offsets[len(s.offsets)-1].Ahead
}

// Wall converts monotonic time to wall clock time with the current offset. It returns the zero time
// unchanged.
func (s *Scale) Wall(t time.Time) time.Time {
	if offset := s.Offset(); offset != 0 && !t.IsZero() {
		return t.Add(offset)
	}
	return t
}

// Monotonic is the inverse of Wall. It returns the zero time unchanged.
func (s *Scale) Monotonic(wall time.Time) time.Time {
	if offset := s.Offset(); offset != 0 && !wall.IsZero() {
		return wall.Add(-offset)
	}
	return wall
}

// Happened returns the monotonic time of an event for which another system reported a wall clock
// time. It uses the offset that applied at that time. The argument now is the current monotonic
// time. If the wall clock showed the time twice, Happened assumes the second occurrence. If the
// wall clock skipped the time, it returns the time of the step. If the time is in the future, it
// returns now. It does not change the zero time.
func (s *Scale) Happened(wall, now time.Time) time.Time {
	if wall.IsZero() {
		return wall
	}
	var nearest time.Time
	until := now
	for i := len(s.offsets) - 1; i >= -1; i-- {
		var since Offset // the offset was 0 before the first step
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

// AsWallTime returns a copy of a value with its times converted to wall clock time. See [Shift].
func AsWallTime[T any](s *Scale, value T) T {
	if s.Offset() == 0 {
		return value
	}
	return Shift(value, s.Wall)
}

// Shift returns a copy of a value in which all times are replaced by the result of move. This
// includes times in structs, behind pointers and in slices. It skips fields with the tag
// `json:"-"` or `clock:"wall"`.
func Shift[T any](value T, move func(time.Time) time.Time) T {
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
