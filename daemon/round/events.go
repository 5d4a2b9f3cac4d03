package round

import (
	"slices"
	"strings"
	"time"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/problem"
	"github.com/hpad/hpad/daemon/state"
	"github.com/hpad/hpad/policy"
)

// MaxEvents is the maximum number of events kept for an autoscaler.
const MaxEvents = 20

// isRepeated reports whether an event repeats an earlier event. Failures repeat in each round, so
// numbers, times and IDs in their messages are ignored.
func isRepeated(before, now policy.Event) bool {
	return before == now || before.Kind == now.Kind && before.Reason == now.Reason && strings.HasPrefix(now.Reason, "Failed") &&
		problem.Cause(before.Message) == problem.Cause(now.Message)
}

// addEvents returns the list with new events added. A repeated event increases the count of the
// earlier event and replaces its message. The original list is not changed.
func addEvents(list []api.Event, events []policy.Event, now time.Time) []api.Event {
	if len(events) == 0 {
		return list
	}
	next := slices.Clone(list)
	for _, event := range events {
		added := api.Event{Event: event, Count: 1, First: now, Last: now}
		if i := slices.IndexFunc(next, func(e api.Event) bool { return isRepeated(e.Event, event) }); i >= 0 {
			added.Count, added.First = next[i].Count+1, next[i].First
			next = slices.Delete(next, i, i+1)
		}
		next = append(next, added)
	}
	return slices.Clip(next[max(0, len(next)-MaxEvents):])
}

// joinEvents joins two lists. Repeated events are counted together. Neither list is changed.
func joinEvents(earlier, later []api.Event) []api.Event {
	next, after := slices.Clone(earlier), slices.Clone(later)
	for i, event := range after {
		if at := slices.IndexFunc(next, func(e api.Event) bool { return isRepeated(e.Event, event.Event) }); at >= 0 {
			after[i].Count, after[i].First = next[at].Count+event.Count, next[at].First
			next = slices.Delete(next, at, at+1)
		}
	}
	next = append(next, after...)
	return slices.Clip(next[max(0, len(next)-MaxEvents):])
}

// Events returns the events of this run and of the time before it.
func (a *Autoscaler) Events() []api.Event {
	events := a.published.Load().Events
	if earlier := a.earlierEvents.Load(); earlier != nil {
		return joinEvents(*earlier, events)
	}
	return events
}

// RecallEvents makes Events include the events of history entries from before this run.
func (a *Autoscaler) RecallEvents(entries []state.Entry) {
	var events []api.Event
	for i := range entries {
		events = addEvents(events, entries[i].Events, entries[i].Time)
	}
	if len(events) > 0 {
		a.earlierEvents.Store(&events)
	}
}
