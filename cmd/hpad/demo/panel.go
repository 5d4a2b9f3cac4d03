package demo

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/explain"
	"github.com/hpad/hpad/policy"
)

// panel is what is known of the demo at one instant, and what it was before.
type panel struct {
	elapsed, total time.Duration
	waiting        int
	// view is the newest one; its decision is nil before the first.
	view    api.Autoscaler
	samples []sample
}

// sample is what the demo was like at one time.
type sample struct {
	elapsed time.Duration
	// load is in jobs a second.
	load             float64
	waiting, workers int
}

// sample records what the demo is like now.
func (p *panel) sample(load float64, waiting int) {
	p.samples = append(p.samples, sample{elapsed: p.elapsed, load: load, waiting: waiting, workers: p.workers()})
}

// workers returns the count that was decided on last.
func (p *panel) workers() int {
	if d := p.view.Decision; d != nil {
		return int(d.DesiredReplicas)
	}
	return 0
}

// load returns the load as it was seen last.
func (p *panel) load() float64 {
	if len(p.samples) == 0 {
		return 0
	}
	return p.samples[len(p.samples)-1].load
}

// header is the head of the plain table.
const header = "TIME         LOAD   WAITING   WORKERS   METRICS"

func (p *panel) row(now time.Time) string {
	return fmt.Sprintf("%s  %5s  %8d  %8d   %s", now.Format(time.TimeOnly), rateText(p.load()), p.waiting, p.workers(), p.goals())
}

// plainInterval is how often the plain table has a line.
func plainInterval(total time.Duration) time.Duration {
	return max(2*time.Second, (total / 60).Truncate(time.Second))
}

func rateText(rate float64) string { return strconv.FormatFloat(rate, 'f', 0, 64) + "/s" }

// The columns of the panel around its graphs.
const (
	panelLabel = 11
	panelValue = 17
	minGraph   = 10
	maxGraph   = 90
)

// sentenceLines is the room of the panel for the reason of the last decision.
const sentenceLines = 3

func (p *panel) lines(width int) []string {
	graph := min(max(width-panelLabel-panelValue, minGraph), maxGraph)
	line := func(label, graph, value string) string {
		return strings.TrimRight(fmt.Sprintf("  %-*s%s  %s", panelLabel-2, label, graph, value), " ")
	}
	loads := p.graph(graph, func(s sample) float64 { return s.load })
	waits := p.graph(graph, func(s sample) float64 { return float64(s.waiting) })
	counts := p.graph(graph, func(s sample) float64 { return float64(s.workers) })
	lines := []string{
		"",
		line("load", loads.draw(100), fmt.Sprintf("%3.0f jobs/s", p.load())),
		line("waiting", waits.draw(50), fmt.Sprintf("%3d jobs", p.waiting)),
		line("workers", counts.draw(MaxWorkers), fmt.Sprintf("%3d of %d", p.workers(), MaxWorkers)),
		"",
		line("metrics", p.goals(), ""),
	}
	sentence := []string{"the first decision is about to be made"}
	if d := p.view.Decision; d != nil {
		sentence = wrap(explain.Sentence(*d, p.view.Evaluation), width-panelLabel, 0)
	}
	for i := range sentenceLines {
		label, text := "", ""
		if i == 0 {
			label = "decision"
		}
		if i < len(sentence) {
			text = sentence[i]
		}
		lines = append(lines, line(label, text, ""))
	}
	return append(lines, line("time", fmt.Sprintf("%s of at most %s; Ctrl-C ends it", clock(p.elapsed), clock(p.total)), ""))
}

func (p *panel) goals() string {
	if p.view.Decision == nil || len(p.view.Decision.Metrics) == 0 {
		return "no samples yet"
	}
	var texts []string
	for i := range p.view.Decision.Metrics {
		texts = append(texts, goal(&p.view.Decision.Metrics[i]))
	}
	return strings.Join(texts, ", ")
}

func goal(result *policy.MetricResult) string {
	current := result.Current.AverageValueMilli
	if result.Error != "" || current == nil {
		return result.Name + " unknown"
	}
	text := fmt.Sprintf("%s %s of %s", result.Name, decimal(*current), decimal(result.GoalValue))
	if OverGoal(result) {
		text += " (over)"
	}
	return text
}

func decimal(milli int64) string {
	text := strconv.FormatFloat(float64(milli)/1000, 'f', 2, 64)
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
}

func clock(span time.Duration) string {
	whole := int(max(span, 0).Seconds())
	return fmt.Sprintf("%d:%02d", whole/60, whole%60)
}

// bars is a graph: one value for each cell, negative where there is none yet.
type bars []float64

// graph puts the samples into cells over the demo's whole time.
func (p *panel) graph(cells int, value func(sample) float64) bars {
	graph := make(bars, cells)
	for i := range graph {
		graph[i] = -1
	}
	filled := 0
	for _, sample := range p.samples {
		end := min(int(math.Ceil(float64(cells)*float64(sample.elapsed)/float64(p.total))), cells)
		from := min(filled, end-1) // several samples may share a cell
		for i := from; i < end; i++ {
			graph[i] = max(graph[i], value(sample))
		}
		filled = max(filled, end)
	}
	return graph
}

// levels are the heights of a bar.
var levels = []rune("▁▂▃▄▅▆▇█")

// draw draws a graph; least is the least value that a full bar stands for.
func (b bars) draw(least float64) string {
	highest := least
	for _, value := range b {
		highest = max(highest, value)
	}
	var text strings.Builder
	for _, value := range b {
		if value < 0 {
			text.WriteRune('·')
			continue
		}
		text.WriteRune(levels[min(int(value/highest*float64(len(levels))), len(levels)-1)])
	}
	return text.String()
}

// wrap breaks a text between words into lines of at most so many letters; all but
// the first are indented.
func wrap(text string, width, indent int) []string {
	var lines []string
	for word := range strings.FieldsSeq(text) {
		last := len(lines) - 1
		switch {
		case last < 0:
			lines = append(lines, word)
		case utf8.RuneCountInString(lines[last])+1+utf8.RuneCountInString(word) <= width:
			lines[last] += " " + word
		default:
			lines = append(lines, strings.Repeat(" ", indent)+word)
		}
	}
	return lines
}

func summary(story *Story, stats Stats, elapsed, total time.Duration) []string {
	ran := "The demo ran for " + duration.HumanDuration(elapsed.Round(time.Second))
	if elapsed < total-time.Second {
		ran += " of at most " + duration.HumanDuration(total)
	}
	waited := "none was taken"
	if stats.Taken > 0 {
		waited = fmt.Sprintf("they waited for %v on average, %v at most",
			(stats.Waited / time.Duration(stats.Taken)).Round(10*time.Millisecond), stats.LongestWait.Round(10*time.Millisecond))
	}
	over := "never measured"
	if story.Measured > 0 {
		over = fmt.Sprintf("%s of %s (%.0f%%)", duration.HumanDuration(story.OverGoal.Round(time.Second)), duration.HumanDuration(story.Measured.Round(time.Second)),
			100*story.OverGoal.Seconds()/story.Measured.Seconds())
	}
	lines := []string{
		"", ran + ".", "",
		fmt.Sprintf("  jobs         %d done; %s", stats.Done, waited),
		fmt.Sprintf("  workers      %d at the start, %d at most, %d at least, %d at the end", story.Start, story.Peak, story.Least, story.Now),
		fmt.Sprintf("  changes      %d up, %d down", story.Ups, story.Downs),
		"  over a goal  " + over,
	}
	if story.Last != nil {
		lines = append(lines, "", "The last change: "+explain.Line(*story.Last, api.Evaluation{Written: &story.Last.DesiredReplicas}))
	}
	return lines
}
