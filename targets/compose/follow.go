package compose

import (
	"fmt"
	"slices"
	"time"

	"github.com/docker/docker/api/types/events"
	"github.com/docker/docker/api/types/filters"

	"github.com/hpad/hpad/guard"
)

// An engine stores only its last 256 events, and each health check generates three. On a busy host,
// they cover only the last few seconds. Therefore the fleet follows the start and end events of
// containers while hpad reads the fleet.

const (
	// stopAge is the maximum time between the stop signal and the end of a container, unless
	// its stop_grace_period is longer.
	stopAge = time.Minute
	// endSlack is the maximum delay between an end and its event. The delay is half a second on
	// an idle host, and several seconds on a busy host.
	endSlack = 10 * time.Second
)

// run contains the times of a container's last run. A zero time is unknown.
type run struct {
	// asked is the time of the last stop signal, and ended is the time of the exit.
	asked, ended time.Time
}

// follower stores the signals, ends and starts of all containers that Compose created, by ID,
// until they are removed. The fleet's mu guards it.
type follower struct {
	following bool
	work      guard.Tasks
	// first is the time of the first attempt to follow the events. All events after since are
	// known.
	first, since time.Time
	// seen is the time of the last event, according to the engine's clock. All events after known
	// are in runs.
	seen, known time.Time
	runs        map[string]run
	// started maps each container to the local time when its last start event arrived.
	started map[string]time.Time
}

// follow starts to follow the events after the last event, unless the fleet already follows them.
// If the engine closes the connection or rejects the call, the next reading retries.
func (f *Fleet) follow() {
	f.mu.Lock()
	defer f.mu.Unlock()
	w := &f.follower
	if w.following || f.base.IsClosed() {
		return
	}
	w.following, w.since = true, time.Now()
	if w.first.IsZero() {
		w.first = w.since
	}
	from := time.Unix(1, 0) // all stored events
	if !w.seen.IsZero() {
		from = w.seen
	}
	before := w.known
	w.known = w.since
	w.work.Go(func() {
		defer func() {
			f.mu.Lock()
			defer f.mu.Unlock()
			w.following = false
		}()
		c, err := f.waiting.Client(f.ctx)
		if err != nil {
			return
		}
		found, failed := c.Events(f.ctx, events.ListOptions{
			Since: fmt.Sprintf("%d.%09d", from.Unix(), from.Nanosecond()),
			Filters: filters.NewArgs(
				filters.Arg("type", string(events.ContainerEventType)), filters.Arg("label", labelProject),
				filters.Arg("event", string(events.ActionKill)), filters.Arg("event", string(events.ActionDie)),
				filters.Arg("event", string(events.ActionStart)), filters.Arg("event", string(events.ActionDestroy)),
			),
		})
		for first := true; ; first = false {
			select {
			case event := <-found:
				f.mu.Lock()
				if first {
					w.connected(event, from, before)
				}
				w.enter(event)
				f.mu.Unlock()
			case <-failed:
				return
			}
		}
	})
}

// connected updates known after the first event of a connection, which requested the events since
// from. The events between two connections are complete if the engine still stores the last event of
// the first connection.
func (w *follower) connected(first events.Message, from, before time.Time) {
	at := time.Unix(0, first.TimeNano)
	switch {
	case at.Equal(from):
		w.known = before
	case at.Before(w.known):
		w.known = at
	}
}

func (w *follower) enter(event events.Message) {
	id, at := event.Actor.ID, time.Unix(0, event.TimeNano)
	w.seen = at
	known := w.runs[id]
	switch event.Action {
	case events.ActionStart:
		delete(w.runs, id)
		w.started[id] = time.Now()
		return
	case events.ActionDestroy:
		delete(w.runs, id)
		delete(w.started, id)
		return
	case events.ActionKill:
		if slices.Contains(otherSignals, event.Actor.Attributes["signal"]) {
			return
		}
		known.asked = at
	case events.ActionDie:
		known.ended = at
	}
	w.runs[id] = known
}

// otherSignals lists signals that do not stop a program: SIGHUP, SIGUSR1 and SIGUSR2.
var otherSignals = []string{"1", "10", "12"}

// startedSince reports whether a container may have started after a time.
func (w *follower) startedSince(id string, at time.Time) bool {
	return !w.following || w.since.After(at) || w.started[id].After(at)
}

// end describes the end of a container that ran from since until finished. asked reports
// whether it received a stop signal, and ended whether the events contain its end. unasked
// reports that no stop signal ended it. pending reports that an event may still arrive: the engine
// may log a signal after the end.
func (w *follower) end(id string, since, finished time.Time) (asked, ended, unasked, pending bool) {
	known, now := w.runs[id], time.Now()
	ended = !known.ended.Before(finished)
	asked = ended && known.asked.After(since)
	pending = !asked && (now.Sub(finished) < endSlack || now.Sub(w.first) < endSlack)
	return asked, ended, ended && !asked && w.known.Before(finished), pending
}
