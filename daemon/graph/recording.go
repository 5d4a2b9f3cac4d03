package graph

import (
	"slices"
	"time"

	"github.com/hpad/hpad/simulate"
)

// TargetChanged is the text of the note about the first tick of another target or kind of fleet.
const TargetChanged = "the target or the kind of its fleet changed"

// recordingOf converts sorted rows to a recording.
func recordingOf(name string, rows []row) simulate.Recording {
	var parts []simulate.Recording
	for before := (*row)(nil); len(rows) > 0; {
		n := slices.IndexFunc(rows, func(r row) bool {
			return !slices.Equal(r.metrics, rows[0].metrics) || r.values[target] != rows[0].values[target]
		})
		if n < 0 {
			n = len(rows)
		}
		part := partOf(rows[:n])
		if before != nil && before.values[target] != rows[0].values[target] {
			part.Notes = []simulate.Note{{Time: part.Ticks[0].Time, Text: TargetChanged}}
		}
		parts, before, rows = append(parts, part), &rows[n-1], rows[n:]
	}
	return Merge(name, parts)
}

// partOf converts rows with the same metrics. Formulas have no readings.
func partOf(rows []row) simulate.Recording {
	part := simulate.Recording{Ticks: make([]simulate.Tick, len(rows))}
	var recorded []int
	for m, name := range rows[0].metrics {
		if slices.ContainsFunc(rows, func(r row) bool { return r.metric(m)[readingFlags] != 0 }) {
			part.Metrics, recorded = append(part.Metrics, name), append(recorded, m)
		}
	}
	for i := range rows {
		part.Ticks[i] = rows[i].tick(recorded)
	}
	return part
}

// Merge returns a recording with the ticks and notes of all parts, oldest first. A metric is missing in
// the ticks of parts without it. If two ticks have the same time, Merge uses the tick of the first part.
func Merge(name string, parts []simulate.Recording) simulate.Recording {
	merged := simulate.Recording{Name: name, Origin: simulate.FromGraphs}
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
	slices.SortStableFunc(merged.Ticks, func(a, b simulate.Tick) int { return a.Time.Compare(b.Time) })
	slices.SortStableFunc(merged.Notes, func(a, b simulate.Note) int { return a.Time.Compare(b.Time) })
	merged.Ticks = slices.CompactFunc(merged.Ticks, func(a, b simulate.Tick) bool { return a.Time.Equal(b.Time) })
	merged.Step = stepOf(merged.Ticks)
	return merged
}

// ticksWith returns the ticks of a part with a reading for each of the given metrics.
func ticksWith(part *simulate.Recording, metrics []string) []simulate.Tick {
	if slices.Equal(part.Metrics, metrics) {
		return part.Ticks
	}
	for i := range part.Ticks {
		before := part.Ticks[i].Readings
		if before == nil {
			continue
		}
		after := make([]simulate.Reading, len(metrics))
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
func stepOf(ticks []simulate.Tick) time.Duration {
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
