package clock_test

import (
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hpad/hpad/targets/clock"
)

// machine is a host with a settable wall clock.
type machine struct {
	boot    string
	started time.Time
	stepped time.Duration
}

func newMachine() *machine {
	return &machine{boot: "one", started: time.Now().Add(-time.Hour)}
}

func (m *machine) wall() time.Time { return time.Now().Add(m.stepped) }

func (m *machine) clock(state clock.State) *clock.Clock {
	c := clock.New(clock.System{
		Wall: m.wall,
		Boot: func() (string, time.Duration) { return m.boot, time.Since(m.started) },
	})
	c.Resume(state)
	return c
}

// stored returns the stored state of a clock.
func stored(t *testing.T, c *clock.Clock) clock.State {
	t.Helper()
	text, err := json.Marshal(c.State())
	if err != nil {
		t.Fatal(err)
	}
	var state clock.State
	if err := json.Unmarshal(text, &state); err != nil {
		t.Fatal(err)
	}
	return state
}

func wantStep(t *testing.T, c *clock.Clock, want time.Duration) {
	t.Helper()
	step, stepped := c.TakeStep()
	if step.By != want || stepped != (want != 0) {
		t.Errorf("step = %v, %t, want %v", step.By, stepped, want)
	}
	if again, stepped := c.TakeStep(); stepped {
		t.Errorf("TakeStep() returned the step twice: %+v", again)
	}
}

func TestNoStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMachine()
		c := m.clock(clock.State{})
		for range 3 {
			time.Sleep(time.Hour)
			// A difference of up to one second is not a step.
			m.stepped = -time.Second
			wantStep(t, c, 0)
			m.stepped = time.Second
			wantStep(t, c, 0)
			m.stepped = 0
			now := c.Now()
			if now != time.Now().Round(0).UTC() {
				t.Errorf("monotonic time = %#v, want the wall clock's time %#v", now, time.Now().UTC())
			}
			if at := c.Scale().Wall(now); at != now {
				t.Errorf("Wall() = %v, want %v", at, now)
			}
			if at := c.Scale().Monotonic(now); at != now {
				t.Errorf("Monotonic() = %v, want %v", at, now)
			}
			c = m.clock(stored(t, c))
		}
	})
}

func TestStep(t *testing.T) {
	for _, by := range []time.Duration{-time.Hour, time.Hour, -1500 * time.Millisecond, 1001 * time.Millisecond} {
		t.Run(by.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMachine()
				c := m.clock(clock.State{})
				before := c.Now()
				time.Sleep(time.Minute)
				m.stepped = by
				if took := c.Now().Sub(before); took != time.Minute {
					t.Errorf("monotonic time advanced by %v in one minute", took)
				}
				wantStep(t, c, by)
				if got := c.Scale().Wall(c.Now()); !got.Equal(m.wall()) {
					t.Errorf("Wall() of the current time = %v, want %v", got, m.wall())
				}
				if got := c.Scale().Monotonic(m.wall()); !got.Equal(c.Now()) {
					t.Errorf("Monotonic() of the wall clock's time = %v, want %v", got, c.Now())
				}
				if zero := (time.Time{}); !c.Scale().Wall(zero).IsZero() || !c.Scale().Monotonic(zero).IsZero() || !c.Scale().Happened(zero, c.Now()).IsZero() {
					t.Error("the zero time was changed")
				}
				m.stepped = 0
				wantStep(t, c, -by)
				if c.Scale().Offset() != 0 {
					t.Errorf("offset after both steps = %v, want 0", c.Scale().Offset())
				}
			})
		})
	}
}

// TestResume checks that a new process resumes, with and without an intermediate step of the wall
// clock.
func TestResume(t *testing.T) {
	for _, c := range []struct {
		name string
		// running is a step before the restart, and down is a step while no process is running.
		running, down time.Duration
		change        func(*machine)
		// passed is the elapsed time that the new process assumes for the restart, which takes one
		// minute.
		passed, step time.Duration
	}{
		{name: "same boot", passed: time.Minute},
		{name: "same boot, step back before the restart", running: -time.Hour, passed: time.Minute},
		{name: "same boot, step back during the restart", down: -time.Hour, passed: time.Minute, step: -time.Hour},
		{name: "same boot, step forward during the restart", running: -time.Hour, down: 2 * time.Hour, passed: time.Minute, step: 2 * time.Hour},
		{name: "different boot", change: func(m *machine) { m.boot = "two" }, passed: time.Minute},
		{name: "different boot, step back before the restart", running: -time.Hour, change: func(m *machine) { m.boot = "two" }, passed: time.Minute},
		{name: "different boot, step forward before the restart", running: time.Hour, change: func(m *machine) { m.boot = "two" }, passed: time.Minute},
		{name: "different boot, step forward during the restart", down: time.Hour, change: func(m *machine) { m.boot = "two" }, passed: time.Hour + time.Minute},
		{name: "different boot, step back during the restart", down: -time.Hour, change: func(m *machine) { m.boot = "two" }, passed: 0, step: -time.Hour + time.Minute},
		{name: "different boot with the same id", change: func(m *machine) { m.started = time.Now() }, down: time.Hour, passed: time.Hour + time.Minute},
		{name: "unknown boot", change: func(m *machine) { m.boot = "" }, down: time.Hour, passed: time.Hour + time.Minute},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMachine()
				before := m.clock(clock.State{})
				time.Sleep(time.Minute)
				m.stepped = c.running
				before.TakeStep()
				last := before.Now()
				state := stored(t, before)
				m.stepped += c.down
				if c.change != nil {
					c.change(m)
				}
				time.Sleep(time.Minute)
				after := m.clock(state)
				if got := after.Now().Sub(last); got != c.passed {
					t.Errorf("elapsed time in the new process = %v, want %v", got, c.passed)
				}
				wantStep(t, after, c.step)
				if got := after.Scale().Wall(after.Now()); !got.Equal(m.wall()) {
					t.Errorf("Wall() of the current time = %v, want %v", got, m.wall())
				}
			})
		})
	}
}

// TestTakeOver checks that a different host resumes, with a different wall clock error or without
// the steps of the previous host, and that the elapsed time is not too long.
func TestTakeOver(t *testing.T) {
	for _, c := range []struct {
		name           string
		stepped, ahead time.Duration
		longest        time.Duration
		passed         time.Duration
	}{
		{name: "both clocks correct", longest: time.Hour, passed: time.Minute},
		{name: "ahead", ahead: 2 * time.Hour, longest: 75 * time.Second, passed: 75 * time.Second},
		{name: "slightly ahead", ahead: 10 * time.Second, longest: 75 * time.Second, passed: 70 * time.Second},
		{name: "behind", ahead: -2 * time.Hour, longest: 75 * time.Second},
		{name: "step back on the previous host", stepped: -2 * time.Hour, passed: time.Minute},
		{name: "step forward on the previous host", stepped: 2 * time.Hour},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMachine()
				before := m.clock(clock.State{})
				m.stepped = c.stepped
				before.TakeStep()
				state := stored(t, before)
				time.Sleep(time.Minute)
				after := clock.New(clock.System{
					Wall: func() time.Time { return time.Now().Add(c.ahead) }, Longest: c.longest, Shared: true,
					Boot: func() (string, time.Duration) { return "another", 0 },
				})
				after.Resume(state)
				if got := after.Now().Sub(state.Time); got != c.passed {
					t.Errorf("elapsed time on the new host = %v, want %v", got, c.passed)
				}
				if got := after.Scale().Wall(after.Now()); got.Sub(time.Now().Add(c.ahead)).Abs() > time.Second {
					t.Errorf("Wall() of the current time = %v, want %v", got, time.Now().Add(c.ahead))
				}
			})
		})
	}
}

func TestHappened(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMachine()
		c := m.clock(clock.State{})
		begun := c.Now()
		at := func(d time.Duration) time.Time { return begun.Add(d) }
		want := func(wall, monotonic time.Duration) {
			t.Helper()
			if got := c.Scale().Happened(at(wall), c.Now()).Sub(begun); got != monotonic {
				t.Errorf("after %v, Happened(%v) = %v, want %v", c.Now().Sub(begun), wall, got, monotonic)
			}
		}
		want(-time.Hour, -time.Hour)
		want(time.Hour, 0)

		time.Sleep(2 * time.Hour)
		m.stepped = -time.Hour // shows 1h again
		c.TakeStep()
		want(time.Minute, time.Minute)
		want(2*time.Hour, 2*time.Hour) // before the step, because the other occurrence is in the future
		want(90*time.Minute, 90*time.Minute)
		want(3*time.Hour, 2*time.Hour)        // in the future
		time.Sleep(45 * time.Minute)          // shows 1h45
		want(90*time.Minute, 150*time.Minute) // the second occurrence
		want(100*time.Minute, 160*time.Minute)
		want(110*time.Minute, 110*time.Minute)

		m.stepped = 3 * time.Hour // shows 5h45
		c.TakeStep()
		time.Sleep(15 * time.Minute)
		want(345*time.Minute, 165*time.Minute)
		want(350*time.Minute, 170*time.Minute)
		want(4*time.Hour, 165*time.Minute) // skipped by the step
		want(7*time.Hour, 180*time.Minute)

		// The oldest offsets are merged into one.
		for range 40 {
			m.stepped += time.Hour
			c.TakeStep()
		}
		if offsets := len(c.State().Offsets); offsets != 16 {
			t.Errorf("stored offsets = %d, want 16", offsets)
		}
		if got := c.Scale().Happened(m.wall(), c.Now()); !got.Equal(c.Now()) {
			t.Errorf("Happened() of the current wall clock time = %v, want %v", got, c.Now())
		}
		if got := c.Scale().Happened(begun, c.Now()); got.After(c.Now()) {
			t.Errorf("Happened() of the start time = %v, want a past time", got)
		}
	})
}

// TestMachine checks that a second Clock on the same host resumes without a step.
func TestMachine(t *testing.T) {
	first := clock.New(clock.System{})
	state := first.State()
	if state.Boot == "" || state.Reading <= 0 {
		t.Fatalf("boot = %q with reading %v, want both to be known", state.Boot, state.Reading)
	}
	second := clock.New(clock.System{})
	second.Resume(state)
	if step, stepped := second.TakeStep(); stepped {
		t.Errorf("TakeStep() in another process = %v, want no step", step.By)
	}
	if diff := cmp.Diff(state.Boot, second.State().Boot); diff != "" {
		t.Errorf("boot ids on one host differ: %s", diff)
	}
	if second.Now().Before(state.Time) || second.State().Reading < state.Reading {
		t.Errorf("state of the second clock = %v, want a later state than %v", second.State(), state)
	}
}
