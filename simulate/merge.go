package simulate

import (
	"slices"
	"time"
)

// TargetChanged is the text of a note about the first tick of another target or kind of fleet.
const TargetChanged = "the target or the kind of its fleet changed"

// Merge returns a recording with the ticks and notes of all parts, oldest first. A metric is missing in
// the ticks of parts without it. If two ticks have the same time, Merge uses the tick of the first part.
func Merge(name string, origin Origin, parts []Recording) Recording {
	merged := Recording{Name: name, Origin: origin}
	for i := range parts {
		for _, metric := range parts[i].Metrics {
			if !slices.Contains(merged.Metrics, metric) {
				merged.Metrics = append(merged.Metrics, metric)
			}
		}
	}
	for i := range parts {
		merged.Ticks = append(merged.Ticks, ticksWith(&parts[i], merged.Metrics)...)
		merged.Notes = append(merged.Notes, parts[i].Notes...)
	}
	slices.SortStableFunc(merged.Ticks, func(a, b Tick) int { return a.Time.Compare(b.Time) })
	slices.SortStableFunc(merged.Notes, func(a, b Note) int { return a.Time.Compare(b.Time) })
	merged.Ticks = slices.CompactFunc(merged.Ticks, func(a, b Tick) bool { return a.Time.Equal(b.Time) })
	merged.Step = stepOf(merged.Ticks)
	return merged
}

// ticksWith returns the ticks of a part with a reading for each of the given metrics.
func ticksWith(part *Recording, metrics []string) []Tick {
	if slices.Equal(part.Metrics, metrics) {
		return part.Ticks
	}
	for i := range part.Ticks {
		before := part.Ticks[i].Readings
		if before == nil {
			continue
		}
		after := make([]Reading, len(metrics))
		for j, metric := range metrics {
			if at := slices.Index(part.Metrics, metric); at >= 0 {
				after[j] = before[at]
			} else {
				after[j].Missing = true
			}
		}
		part.Ticks[i].Readings = after
	}
	return part.Ticks
}

// stepOf returns the median time between two ticks.
func stepOf(ticks []Tick) time.Duration {
	if len(ticks) < 2 {
		return 0
	}
	steps := make([]time.Duration, len(ticks)-1)
	for i := range steps {
		steps[i] = ticks[i+1].Time.Sub(ticks[i].Time)
	}
	slices.Sort(steps)
	return steps[len(steps)/2]
}
