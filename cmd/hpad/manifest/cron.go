package manifest

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/hpad/hpad/cmd/hpad/draft"
	"github.com/hpad/hpad/schedule"
	"github.com/hpad/hpad/settings"
)

const (
	// maxWindow is the maximum duration of a schedule.
	maxWindow = 7 * 24 * time.Hour
	// maxStarts is the maximum number of windows of a trigger that are compared, from the first year.
	maxStarts = 1000
)

// cronTrigger converts a trigger of the type cron to a schedule. The windows of hpad last from each
// start to the first end after it. KEDA is active before an end if no start precedes the end, even
// if the window has ended already.
func (r *reader) cronTrigger(node *yaml.Node, path string, i int, metadata map[string]string) draft.Schedule {
	s := draft.Schedule{Name: "cron-" + strconv.Itoa(i), Zone: cmp.Or(metadata["timezone"], "UTC"), Cron: metadata["start"], Duration: time.Hour}
	replicas, err := strconv.ParseInt(metadata["desiredReplicas"], 10, 32)
	if err != nil || replicas < 0 {
		r.add(lineOf(node, path+".metadata.desiredReplicas"), "%s.metadata.desiredReplicas: must be a number of replicas, not %q", path, metadata["desiredReplicas"])
	}
	s.MinReplicas = new(int32(replicas))
	var times [2][]time.Time
	for k, key := range []string{"start", "end"} {
		expression := strings.ReplaceAll(metadata[key], "?", "*")
		rule, errs := schedule.Compile(schedule.Config{Name: key, Zone: "UTC", Cron: expression, Duration: time.Minute, MinReplicas: new(int32(1))})
		if len(errs) > 0 {
			s.Notes = append(s.Notes, fmt.Sprintf("%sthe window: KEDA's %s = %q %s.", draft.Decide, key, metadata[key], errs[0].Detail))
			return s
		}
		if times[k] = startsOf(rule); key == "start" {
			s.Cron = expression
		}
	}
	s.Notes = append(s.Notes, fmt.Sprintf("KEDA's %s scales from %q to %q.", path, metadata["start"], metadata["end"]))
	durations := durationsOf(times[0], times[1])
	if len(durations) == 0 {
		s.Notes = append(s.Notes, draft.Decide+"the duration: no start precedes an end.")
		return s
	}
	s.Duration = min(durations[0], maxWindow)
	if len(durations) > 1 || durations[0] > maxWindow {
		s.Notes = append(s.Notes, fmt.Sprintf("%sthe duration: it is between %s and %s. Write one schedule for each duration.", draft.Decide, settings.Span(durations[0]), settings.Span(durations[len(durations)-1])))
	}
	if len(times[1]) > len(times[0]) {
		s.Notes = append(s.Notes, "KEDA stays active until the next end if no start precedes that end, for example on weekends. hpad ends each window at its first end.")
	}
	return s
}

// startsOf returns the starts of a rule in the first year of a common year, at most maxStarts.
func startsOf(rule schedule.Rule) (starts []time.Time) {
	from := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	base := schedule.State{}
	for at, state := range (schedule.Rules{rule}).Changes(from, from.AddDate(1, 0, 0), base) {
		if state.Min > 0 {
			starts = append(starts, at)
		}
		if len(starts) == maxStarts {
			break
		}
	}
	return starts
}

// durationsOf returns the sorted, different durations from a start to the first end after it.
func durationsOf(starts, ends []time.Time) (durations []time.Duration) {
	for _, start := range starts {
		if i, _ := slices.BinarySearchFunc(ends, start, func(end, start time.Time) int { return cmp.Or(end.Compare(start), -1) }); i < len(ends) {
			durations = append(durations, ends[i].Sub(start))
		}
	}
	slices.Sort(durations)
	return slices.Compact(durations)
}
