package daemon

import (
	"slices"
	"time"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/policy"
)

// eventLog keeps the newest events of an autoscaler; the same event again is
// counted. The zero value is ready to use.
type eventLog struct{ events []api.Event }

// keptEvents bounds an eventLog.
const keptEvents = 20

// add counts the events at now and returns the log as readers may hold it.
func (l *eventLog) add(events []policy.Event, now time.Time) []api.Event {
	if len(events) == 0 {
		return l.events
	}
	next := slices.Clone(l.events)
	for _, event := range events {
		added := api.Event{Event: event, Count: 1, First: now, Last: now}
		if i := slices.IndexFunc(next, func(e api.Event) bool { return e.Event == event }); i >= 0 {
			added.Count, added.First = next[i].Count+1, next[i].First
			next = slices.Delete(next, i, i+1)
		}
		next = append(next, added)
	}
	l.events = slices.Clip(next[max(0, len(next)-keptEvents):])
	return l.events
}
