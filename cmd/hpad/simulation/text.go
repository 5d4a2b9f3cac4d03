// Package simulation renders the results of simulations, and evaluates conditions on them.
package simulation

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/hpad/hpad/cmd/hpad/show"
	"github.com/hpad/hpad/daemon/explain"
	"github.com/hpad/hpad/daemon/redact"
	"github.com/hpad/hpad/settings/quantity"
	"github.com/hpad/hpad/simulate"
)

// columns are the columns of the table. Cost is omitted without a price.
var columns = []struct {
	name string
	cell func(*simulate.Score) string
}{
	{"HOURS", func(s *simulate.Score) string { return hours(s.InstanceHours) }},
	{"COST", func(s *simulate.Score) string { return decimal(s.Cost, 2) }},
	{"SHORTAGE", func(s *simulate.Score) string { return share(s.Shortage, s.ShortageDepth) }},
	{"LONGEST", func(s *simulate.Score) string { return minutes(s.LongestShortage) }},
	{"SURPLUS", func(s *simulate.Score) string { return share(s.Surplus, s.SurplusDepth) }},
	{"P95", func(s *simulate.Score) string { return percent(s.UtilizationP95) }},
	{"P99", func(s *simulate.Score) string { return percent(s.UtilizationP99) }},
	{"CHANGES", func(s *simulate.Score) string { return decimal(s.ChangesPerDay, 1) }},
	{"REVERSALS", func(s *simulate.Score) string { return decimal(s.ReversalsPerDay, 1) }},
	{"AT MAX", func(s *simulate.Score) string { return minutes(simulate.Measure(s.MinutesAtMax)) }},
	{"UNSURE", func(s *simulate.Score) string { return minutes(s.LowConfidence) }},
}

// header returns the names of the columns of [cells], after the name of the policy.
func header(priced bool) (names []string) {
	for _, c := range columns {
		if priced || c.name != "COST" {
			names = append(names, c.name)
		}
	}
	return names
}

// cells returns the cells of a row, after its label.
func cells(s *simulate.Score, priced bool) (cells []string) {
	for _, c := range columns {
		if priced || c.name != "COST" {
			cells = append(cells, c.cell(s))
		}
	}
	return cells
}

// Text writes a result as text, with times in a zone.
func Text(w io.Writer, result *simulate.Result, priced bool, zone *time.Location) error {
	var page strings.Builder
	at := clockOf(result, zone)
	for _, line := range assumed(result, at) {
		page.WriteString(line + "\n")
	}
	page.WriteString("\n")
	rows := make([][]string, 0, len(result.Rows))
	for i := range result.Rows {
		rows = append(rows, append([]string{result.Rows[i].Label}, cells(&result.Rows[i].Score, priced)...))
	}
	if err := new(show.Table).Rows(&page, append([]string{"POLICY"}, header(priced)...), rows); err != nil {
		return err
	}
	for i := range result.Rows {
		row := &result.Rows[i]
		if len(row.Moments) == 0 {
			continue
		}
		fmt.Fprintf(&page, "\nThe largest differences with %s:\n", row.Label)
		for j := range row.Moments {
			page.WriteString("  " + moment(&row.Moments[j], at) + "\n")
		}
	}
	_, err := io.WriteString(w, page.String())
	return err
}

// moment describes a difference between two policies.
func moment(m *simulate.Moment, at clock) string {
	return fmt.Sprintf("%s to %s: up to %d instead of %d replicas: %s", at.text(m.From), at.text(m.Until), m.Replicas, m.First, m.Message)
}

// assumed describes the data and the assumptions of a result, one per line.
func assumed(r *simulate.Result, at clock) []string {
	lines := []string{
		fmt.Sprintf("%s: %s to %s, from %s", r.Name, at.text(r.From), at.text(r.Until), origins[r.Origin]),
	}
	for i := range r.Metrics {
		if m := &r.Metrics[i]; m.Model != "" || m.CapacityMilli != 0 {
			lines = append(lines, "metric "+m.Name+": "+model(m))
		}
	}
	lines = append(lines, "start-up: "+delay(&r.Startup, "scale-up")+"; drain: "+delay(&r.Drain, "scale-down"))
	if r.ManualChanges > 0 {
		lines = append(lines, explain.Plural(r.ManualChanges, "manual change")+" by other writers, in all rows")
	}
	if r.Holes > 0 {
		lines = append(lines, explain.Plural(r.Holes, "period")+" without data: the count stays the same")
	}
	for i := range r.Notes {
		lines = append(lines, "note: "+at.text(r.Notes[i].Time)+": "+r.Notes[i].Text)
	}
	return lines
}

var origins = map[simulate.Origin]string{
	simulate.FromGraphs: "hpad's graphs", simulate.FromPrometheus: "the metric's source", simulate.FromCSV: "the CSV file",
}

func model(m *simulate.MetricModel) string {
	text := string(m.Model)
	switch {
	case m.Model == "":
		text = "formula"
	case m.Given:
		text += " (--assume)"
	}
	if m.PerSecond > 0 {
		text += ", one instance completes " + decimal(m.PerSecond, 2) + " a second"
		if m.Estimated {
			text += " (estimate)"
		}
	}
	if m.CapacityMilli == 0 || m.Model == simulate.Fixed {
		return text
	}
	capacity := quantity.FormatDecimal(m.CapacityMilli)
	if m.Utilization {
		capacity += " %"
	}
	return text + ", shortage above " + capacity + " per instance"
}

func delay(d *simulate.Delay, change string) string {
	switch {
	case d.Given:
		return d.Duration.String() + " (given)"
	case d.Measured > 0:
		return fmt.Sprintf("%s (median of %s)", d.Duration, explain.Plural(d.Measured, change))
	}
	return d.Duration.String() + " (assumed, because the data shows no complete " + change + ")"
}

// clock formats instants in a zone.
type clock struct {
	zone   *time.Location
	layout string
}

// clockOf returns a clock that shows seconds if the period of a result is shorter than an hour.
func clockOf(r *simulate.Result, zone *time.Location) clock {
	if r.Until.Sub(r.From) < time.Hour {
		return clock{zone, "2006-01-02 15:04:05 MST"}
	}
	return clock{zone, "2006-01-02 15:04 MST"}
}

func (c clock) text(t time.Time) string { return t.In(c.zone).Format(c.layout) }

func decimal(v float64, digits int) string { return strconv.FormatFloat(v, 'f', digits, 64) }

// hours shows more digits for the short recordings of a first try.
func hours(v float64) string {
	if v < 10 {
		return decimal(v, 3)
	}
	return decimal(v, 1)
}

// unmeasured is the cell of a value that the recording does not contain.
const unmeasured = "-"

func percent(v simulate.Measure) string {
	if v.IsZero() {
		return unmeasured
	}
	return decimal(float64(100*v), 0) + "%"
}

// share describes a share of time, and its depth in that time.
func share(v, depth simulate.Measure) string {
	switch {
	case v.IsZero():
		return unmeasured
	case v == 0:
		return "0%"
	}
	return decimal(float64(100*v), 2) + "% by " + percent(depth)
}

func minutes(v simulate.Measure) string {
	if v.IsZero() {
		return unmeasured
	}
	return (time.Duration(float64(v)*float64(time.Minute)) + time.Second/2).Truncate(time.Second).String()
}

// Suggestions writes the result of a search as text, with times in a zone.
func Suggestions(w io.Writer, tuning *simulate.Tuning, priced bool, zone *time.Location) error {
	list := tuning.Suggestions
	var page strings.Builder
	at := clockOf(&tuning.Result, zone)
	for _, line := range assumed(&tuning.Result, at) {
		page.WriteString(line + "\n")
	}
	fmt.Fprintf(&page, "%s compared in the first half of the data; these are the results in the second half:\n\n", explain.Plural(tuning.Candidates, "candidate"))
	rows := [][]string{append([]string{tuning.Rows[0].Label}, cells(&tuning.Rows[0].Score, priced)...)}
	for i := range list {
		rows = append(rows, append([]string{fmt.Sprintf("suggestion %d", i+1)}, cells(&list[i].Row.Score, priced)...))
	}
	if err := new(show.Table).Rows(&page, append([]string{"POLICY"}, header(priced)...), rows); err != nil {
		return err
	}
	if len(list) == 0 {
		page.WriteString("\nkeep the current configuration: no candidate was better in both halves of the data\n")
	}
	for i := range list {
		s := &list[i]
		fmt.Fprintf(&page, "\n# Suggestion %d: %s. It changes\n", i+1, s.Purpose)
		for _, setting := range s.Settings {
			fmt.Fprintf(&page, "#   %s = %s\n", setting.Key, setting.Value)
		}
		page.WriteString("# and would have acted differently:\n")
		for j := range s.Row.Moments {
			page.WriteString("#   " + moment(&s.Row.Moments[j], at) + "\n")
		}
		if strings.Contains(s.TOML, redact.Mark) {
			page.WriteString("# Copy the values that hpad hides from your file.\n")
		}
		page.WriteString(s.TOML)
	}
	_, err := io.WriteString(w, page.String())
	return err
}
