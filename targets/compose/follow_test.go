package compose

import (
	"testing"

	"github.com/docker/docker/api/types/events"

	"github.com/hpad/hpad/targets/targettest"
	"github.com/hpad/hpad/test/wait"
)

// TestEndEvents checks that an end is classified by an event that the engine no longer
// stores when the fleet is read, even after an interrupted connection.
func TestEndEvents(t *testing.T) {
	kill := func(i *fakeEngine, c *fakeContainer) { i.emit(c, events.ActionKill, "9") }
	for name, test := range map[string]struct {
		before func(i *fakeEngine, c *fakeContainer)
		broken bool
		code   int
		want   end
	}{
		"no signal":               {code: 137, want: endFailed},
		"killed":                  {code: 137, before: kill, want: endStopped},
		"stopped with an error":   {code: 1, before: kill, want: endStopped},
		"signal to reload":        {code: 137, before: func(i *fakeEngine, c *fakeContainer) { i.emit(c, events.ActionKill, "1") }, want: endFailed},
		"after a lost connection": {code: 137, broken: true, want: endFailed},
		"killed in the previous run": {code: 137, want: endFailed, before: func(i *fakeEngine, c *fakeContainer) {
			kill(i, c)
			i.emit(c, events.ActionDie, "")
			i.emit(c, events.ActionStart, "")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i := newFakeEngine(t)
			i.up(service{project: "shop", name: "web"}, 2)
			f := started(t, i, &targettest.Store{})
			isHeld(t, f, false)
			following := func() bool {
				f.mu.Lock()
				defer f.mu.Unlock()
				return f.follower.following
			}
			if test.broken {
				i.with(func() { i.emit(i.replicas("shop", "web")[1], events.ActionKill, "1") })
				caughtUp(t, f)
				i.with(func() { close(i.brokenOff); i.brokenOff = make(chan struct{}) })
				wait.Soon(t, "end of the connection", func() bool { return !following() })
				read(t, f)
			}
			c := i.replicas("shop", "web")[0]
			i.with(func() {
				if test.before != nil {
					test.before(i, c)
				}
				c.end(test.code)
				i.emit(c, events.ActionDie, "")
			})
			wait.Soon(t, "event of the end", func() bool {
				f.mu.Lock()
				defer f.mu.Unlock()
				return !f.follower.runs[c.ID].ended.IsZero()
			})
			read(t, f)
			if got := f.details[c.ID].end; got != test.want {
				t.Errorf("end = %v, want %v", got, test.want)
			}
			i.with(func() { i.emit(c, events.ActionDestroy, "") })
			wait.Soon(t, "deletion of the end together with its container", func() bool {
				f.mu.Lock()
				defer f.mu.Unlock()
				return len(f.follower.runs) == 0
			})
		})
	}
}

// TestMissingSignal checks that a killed container counts as stopped if the engine logs the signal
// after the end, or no longer stores it.
func TestMissingSignal(t *testing.T) {
	i := newFakeEngine(t)
	i.up(service{project: "shop", name: "web"}, 2)
	f := started(t, i, &targettest.Store{})
	read(t, f)
	c := i.replicas("shop", "web")[0]
	end := func(f *Fleet) end {
		t.Helper()
		read(t, f)
		return f.details[c.ID].end
	}
	i.with(func() { c.end(137); i.emit(c, events.ActionDie, "") })
	if got := end(f); got != endFailed {
		t.Errorf("end before the signal = %v, want %v", got, endFailed)
	}
	i.with(func() { i.emit(c, events.ActionKill, "9") })
	if got := end(f); got != endStopped {
		t.Errorf("end after the signal = %v, want %v", got, endStopped)
	}
	i.with(func() { i.happened = i.happened[:1] })
	f = started(t, i, &targettest.Store{})
	read(t, f)
	f.mu.Lock()
	f.follower.first = f.follower.first.Add(-endSlack)
	f.mu.Unlock()
	if got := end(f); got != endStopped {
		t.Errorf("end without the signal = %v, want %v", got, endStopped)
	}
}
