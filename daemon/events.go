package daemon

import (
	"slices"
	"strings"
	"time"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/trouble"
	"github.com/hpad/hpad/policy"
)

// keptEvents bounds the events of an autoscaler.
const keptEvents = 20

// isAgain reports whether an event is one that was before. A failure is so too where only
// numbers, times and ids in its words are others: it is told each round.
func isAgain(before, now policy.Event) bool {
	return before == now || before.Kind == now.Kind && before.Reason == now.Reason && strings.HasPrefix(now.Reason, "Failed") &&
		trouble.Cause(before.Message) == trouble.Cause(now.Message)
}

// addEvents returns the newest events of an autoscaler with those at now; the same event
// again is counted, in its newest words. The list before is not changed.
func addEvents(list []api.Event, events []policy.Event, now time.Time) []api.Event {
	if len(events) == 0 {
		return list
	}
	next := slices.Clone(list)
	for _, event := range events {
		added := api.Event{Event: event, Count: 1, First: now, Last: now}
		if i := slices.IndexFunc(next, func(e api.Event) bool { return isAgain(e.Event, event) }); i >= 0 {
			added.Count, added.First = next[i].Count+1, next[i].First
			next = slices.Delete(next, i, i+1)
		}
		next = append(next, added)
	}
	return slices.Clip(next[max(0, len(next)-keptEvents):])
}

// joinEvents returns the newest of events and later ones; those that are the same are
// counted together. Neither list is changed.
func joinEvents(earlier, later []api.Event) []api.Event {
	next, after := slices.Clone(earlier), slices.Clone(later)
	for i, event := range after {
		if at := slices.IndexFunc(next, func(e api.Event) bool { return isAgain(e.Event, event.Event) }); at >= 0 {
			after[i].Count, after[i].First = next[at].Count+event.Count, next[at].First
			next = slices.Delete(next, at, at+1)
		}
	}
	next = append(next, after...)
	return slices.Clip(next[max(0, len(next)-keptEvents):])
}
