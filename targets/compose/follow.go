package compose

import (
	"slices"
	"sync"
	"time"

	"github.com/docker/docker/api/types/events"
	"github.com/docker/docker/api/types/filters"
)

// An engine keeps its last 256 events, of which a health check makes three: on a busy
// machine those are the last few seconds. The fleet follows the ends of containers
// for as long as it is read, so that none is lost before it looks for it.

// stopAge is how long before its end a container may have got the signal to end.
const stopAge = time.Minute

// run is what is known of a container's last run; zero times where it was not seen.
type run struct {
	// asked is when it got the last signal to end, ended when it ended.
	asked, ended time.Time
}

// follower keeps the signals and ends of all containers that Compose made, by id, until
// they are started or removed. It is safe for concurrent use.
type follower struct {
	mu        sync.Mutex
	following bool
	work      sync.WaitGroup
	// seen is the time of the last event, by the engine's clock.
	seen time.Time
	runs map[string]run
}

// followEnds begins to follow, from the last event on, unless it does already. An engine
// that breaks off, or may not be followed, is asked again by the next reading.
func (f *Fleet) followEnds() {
	f.mu.Lock()
	defer f.mu.Unlock()
	w := &f.follower
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.following || f.ctx.Err() != nil {
		return
	}
	w.following = true
	since := w.seen
	if since.IsZero() {
		since = time.Now().Add(-stopAge)
	}
	w.work.Go(func() {
		defer func() {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.following = false
		}()
		c, err := f.waiting.Client(f.ctx)
		if err != nil {
			return
		}
		found, failed := c.Events(f.ctx, events.ListOptions{
			Since: eventTime(since),
			Filters: filters.NewArgs(
				filters.Arg("type", string(events.ContainerEventType)), filters.Arg("label", labelProject),
				filters.Arg("event", string(events.ActionKill)), filters.Arg("event", string(events.ActionDie)),
				filters.Arg("event", string(events.ActionStart)), filters.Arg("event", string(events.ActionDestroy)),
			),
		})
		for {
			select {
			case event := <-found:
				w.enter(event)
			case <-failed:
				return
			}
		}
	})
}

func (w *follower) enter(event events.Message) {
	w.mu.Lock()
	defer w.mu.Unlock()
	id, at := event.Actor.ID, time.Unix(0, event.TimeNano)
	w.seen = at
	known := w.runs[id]
	switch event.Action {
	case events.ActionStart, events.ActionDestroy:
		delete(w.runs, id)
		return
	case events.ActionKill:
		if !asksToEnd(event) {
			return
		}
		known.asked = at
	case events.ActionDie:
		known.ended = at
	}
	w.runs[id] = known
}

// traces returns what it saw of a container's run that lasted from since until
// finished, as the fleet's traces do.
func (w *follower) traces(id string, since, finished time.Time) (asked, ended bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	known := w.runs[id]
	if known.ended.Before(finished) {
		return false, false
	}
	return known.asked.After(since), true
}

// asksToEnd reports whether a signal is to end its container.
func asksToEnd(kill events.Message) bool {
	return !slices.Contains(asksForMore, kill.Actor.Attributes["signal"])
}

// asksForMore are the signals by which programs go on in another way, and do not end:
// SIGHUP, SIGUSR1 and SIGUSR2.
var asksForMore = []string{"1", "10", "12"}
