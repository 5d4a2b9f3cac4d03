package graph

import (
	"slices"

	"github.com/hpad/hpad/simulate"
)

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
			part.Notes = []simulate.Note{{Time: part.Ticks[0].Time, Text: simulate.TargetChanged}}
		}
		parts, before, rows = append(parts, part), &rows[n-1], rows[n:]
	}
	return simulate.Merge(name, simulate.FromGraphs, parts)
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
