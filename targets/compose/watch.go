package compose

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/events"
	"github.com/docker/docker/api/types/filters"

	"github.com/hpad/hpad/policy"
)

// No list shows that a container is being stopped: it runs until it has ended. Its
// engine has an event for the signal, so that while replicas are made hpad follows the
// events of the project, where it may.

const (
	// stopAge is how long a container is taken for one that is being stopped, from the
	// signal on.
	stopAge = time.Minute
	// endAge is how long one that has ended after a signal is: Compose removes it then,
	// where it is to.
	endAge = 3 * time.Second
	// followWait is how long the first events may take.
	followWait = time.Second
)

// signalled is what is known of a container that got a signal.
type signalled struct {
	// at is when it got the first signal, ended when it ended; zero while it runs.
	at, ended time.Time
}

// watch follows the signals that the containers of a project get. It is safe for
// concurrent use.
type watch struct {
	stop context.CancelFunc
	done chan struct{}

	mu        sync.Mutex
	signalled map[string]signalled
	// created is when containers were created, started when they were started last, as
	// far as that was seen.
	created, started map[string]time.Time
	// changed is closed, and another one, with each event.
	changed chan struct{}
}

// follow begins to follow the containers of a project, from stopAge ago on.
func (f *Fleet) follow(project string) *watch {
	ctx, cancel := context.WithCancel(f.ctx)
	w := &watch{stop: cancel, done: make(chan struct{}), signalled: map[string]signalled{}, created: map[string]time.Time{}, started: map[string]time.Time{}, changed: make(chan struct{})}
	opened := make(chan struct{})
	go func() {
		defer close(w.done)
		c, err := f.waiting.Client(ctx)
		if err != nil {
			close(opened)
			return
		}
		found, failed := c.Events(ctx, events.ListOptions{
			Since: strconv.FormatInt(time.Now().Add(-stopAge).Unix(), 10),
			Filters: filters.NewArgs(
				filters.Arg("type", string(events.ContainerEventType)), filters.Arg("label", labelProject+"="+project),
				filters.Arg("event", string(events.ActionCreate)), filters.Arg("event", string(events.ActionKill)), filters.Arg("event", string(events.ActionDie)), filters.Arg("event", string(events.ActionStart)),
			),
		})
		close(opened)
		for {
			select {
			case event := <-found:
				w.enter(event)
			case <-failed:
				return
			}
		}
	}()
	select {
	case <-opened:
	case <-time.After(followWait):
	}
	return w
}

func (w *watch) close() {
	w.stop()
	<-w.done
}

// await waits until the start of a container after its last end was seen, and with it
// all that happened before, unless that takes too long.
func (w *watch) await(id string, ended time.Time) {
	limit := time.After(followWait)
	for {
		w.mu.Lock()
		started, changed := w.started[id], w.changed
		w.mu.Unlock()
		if started.After(ended) {
			return
		}
		select {
		case <-changed:
		case <-w.done:
			return
		case <-limit:
			return
		}
	}
}

// asksToEnd reports whether a signal is to end its container.
func asksToEnd(kill events.Message) bool {
	return !slices.Contains(asksForMore, kill.Actor.Attributes["signal"])
}

// asksForMore are the signals by which programs go on in another way, and do not end:
// SIGHUP, SIGUSR1 and SIGUSR2.
var asksForMore = []string{"1", "10", "12"}

func (w *watch) enter(event events.Message) {
	w.mu.Lock()
	defer w.mu.Unlock()
	close(w.changed)
	w.changed = make(chan struct{})
	id := event.Actor.ID
	known, ok := w.signalled[id]
	at := time.Unix(0, event.TimeNano)
	switch {
	case event.Action == events.ActionCreate:
		w.created[id] = at
	case event.Action == events.ActionStart:
		delete(w.signalled, id)
		w.started[id] = at
	case event.Action == events.ActionDie && ok:
		known.ended = at
		w.signalled[id] = known
	case event.Action == events.ActionKill && !ok && asksToEnd(event):
		w.signalled[id] = signalled{at: at}
	}
}

// halted reports whether somebody has lately ended some of a service's containers, and
// none runs on but those that were made since, by id.
func (w *watch) halted(members []*member, but map[string]string, now time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	found := false
	for _, m := range members {
		known, ok := w.signalled[m.ID]
		_, made := but[m.ID]
		switch {
		case made || m.doomed:
		case ok && now.Sub(known.at) < stopAge:
			found = true
		case m.runs():
			return false
		}
	}
	return found
}

// stopping returns the hold of a service while somebody else stops containers of its
// project, and which of some new replicas were created since that began: of these
// Compose does not know. It returns nil when nobody does.
func (w *watch) stopping(k key, l *listing, replicas map[string]string) (held *policy.Hold, since []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var names []string
	var begun time.Time
	for of, members := range l.services {
		if of.project != k.project {
			continue
		}
		for _, m := range members {
			known, ok := w.signalled[m.ID]
			if !ok || m.doomed {
				continue
			}
			runs := m.State == container.StateRunning || m.State == container.StatePaused
			if runs && l.observed.Sub(known.at) < stopAge || !runs && l.observed.Sub(known.ended) < endAge {
				names = append(names, m.name)
				if begun.IsZero() || known.at.Before(begun) {
					begun = known.at
				}
			}
		}
	}
	if len(names) == 0 {
		return nil, nil
	}
	for id := range replicas {
		// Events come in order: what has none yet is later.
		if created, told := w.created[id]; !told || created.After(begun) {
			since = append(since, id)
		}
	}
	slices.Sort(names)
	return &policy.Hold{
		Reason:  ContainersStopping,
		Message: fmt.Sprintf("somebody else is stopping containers of project %q: %s; new replicas of service %q wait until that is over", k.project, strings.Join(names, ", "), k.service),
	}, since
}
