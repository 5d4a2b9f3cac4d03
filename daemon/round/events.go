package round

import (
	"slices"
	"strings"
	"time"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/problem"
	"github.com/hpad/hpad/policy"
)

// maxEvents is the maximum number of stored events per autoscaler.
const maxEvents = 20

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
	return slices.Clip(next[max(0, len(next)-maxEvents):])
}
