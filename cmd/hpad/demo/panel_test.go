package demo

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"gotest.tools/v3/golden"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/policy"
)

// start is when the demos of tests begin.
var start = time.Date(2026, 11, 21, 12, 0, 20, 0, time.UTC)

// viewAt returns the decision of a demo after some seconds: counts before and
// after, and the waiting jobs and the share of busy time for each worker.
func viewAt(second int, from, to int32, waitingMilli, busyMilli int64) api.Autoscaler {
	at := start.Add(time.Duration(second) * time.Second)
	metric := func(name string, kind policy.MetricType, value, goal int64) policy.MetricResult {
		return policy.MetricResult{
			Type: kind, Name: name, Goal: policy.AverageValueTarget, GoalValue: goal,
			Current: policy.MetricStatus{Type: kind, Name: name, AverageValueMilli: &value},
			Ratio:   new(float64(value) / float64(goal)), ToleranceUp: 0.1, ToleranceDown: 0.1, Proposal: to,
		}
	}
	view := api.Autoscaler{
		Name: Autoscaler,
		Decision: &policy.Decision{
			Time: at, Case: policy.CaseMetrics, CurrentReplicas: from, DesiredReplicas: to, Write: from != to,
			MinReplicas: 1, MaxReplicas: MaxWorkers, Winner: new(1), Raw: &to, Recommendation: &to,
			Metrics: []policy.MetricResult{
				metric("queue", policy.ExternalMetric, waitingMilli, 10_000), metric("busy", policy.InstancesMetric, busyMilli, 700),
			},
		},
	}
	if from != to {
		view.Status.LastScaleTime, view.Evaluation.Written = at, &to
	}
	return view
}

// testPanel is a demo of a minute, in its middle.
func testPanel() *panel {
	p := &panel{total: time.Minute}
	for second := 1; second <= 30; second++ {
		workers := int32(1 + second/4)
		p.elapsed, p.waiting = time.Duration(second)*time.Second, max(0, 60-4*second)
		p.view = viewAt(second, workers, workers, int64(p.waiting)*1000/int64(workers), 820)
		p.sample(float64(8+3*second), p.waiting)
	}
	p.view = viewAt(30, 8, 9, 4857, 833)
	p.waiting = 34
	return p
}

func TestDemoGolden(t *testing.T) {
	p := testPanel()
	story := new(Story)
	for second, counts := range [][2]int32{{1, 1}, {1, 3}, {3, 8}, {8, 8}, {8, 2}, {2, 1}} {
		story.Tell(viewAt(second, counts[0], counts[1], 12_000, 500))
	}
	stats := Stats{Arrived: 3340, Done: 3321, Taken: 3321, Waited: 20 * time.Minute, LongestWait: 3104 * time.Millisecond}
	plain := append([]string{header}, (&panel{}).row(start), p.row(start))
	for name, lines := range map[string][]string{
		"panel.txt":       p.lines(79),
		"panel-wide.txt":  p.lines(140),
		"panel-begin.txt": (&panel{total: time.Minute}).lines(79),
		"plain.txt":       plain,
		"summary.txt":     summary(story, stats, time.Minute, time.Minute),
		"early.txt":       summary(new(Story), Stats{}, 400*time.Millisecond, time.Minute),
		"config.toml":     strings.Split(strings.TrimSuffix(string(Example(2*time.Minute).Config()), "\n"), "\n"),
	} {
		t.Run(name, func(t *testing.T) {
			golden.Assert(t, strings.Join(lines, "\n")+"\n", name)
		})
	}
}

// TestIntroduction holds docs/cli.md to what the demo says of itself.
func TestIntroduction(t *testing.T) {
	doc, err := os.ReadFile("../../../docs/cli.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range introduction(Example(2*time.Minute), false)[:5] {
		if !strings.Contains(string(doc), line) {
			t.Errorf("docs/cli.md does not show the demo's line %q", line)
		}
	}
}

func TestPanelFits(t *testing.T) {
	height := len(testPanel().lines(79))
	for width := leastColumns; width < 200; width++ {
		lines := testPanel().lines(width)
		if len(lines) != height {
			t.Errorf("%d lines at width %d, %d at 79: the panel must not jump", len(lines), width, height)
		}
		for _, line := range lines[:4] {
			if got := utf8.RuneCountInString(line); got > width {
				t.Errorf("a graph has %d letters at width %d: %s", got, width, line)
			}
		}
	}
}

func TestGraph(t *testing.T) {
	p := panel{total: 10 * time.Second}
	for second, load := range []float64{0, 50, 100, 25, 75} {
		p.elapsed = time.Duration(second+1) * time.Second
		p.sample(load, 0)
	}
	load := func(s sample) float64 { return s.load }
	for cells, want := range map[int]string{
		20: "▁▁▅▅██▃▃▇▇··········",
		10: "▁▅█▃▇·····",
		5:  "▅█▇··",
	} {
		if got := p.graph(cells, load).draw(100); got != want {
			t.Errorf("%d cells: %s, want %s", cells, got, want)
		}
	}
	p.elapsed = time.Hour
	p.sample(200, 0)
	if got, want := p.graph(10, load).draw(100), "▁▃▅▂▄█████"; got != want {
		t.Errorf("with a sample after the end: %s, want %s", got, want)
	}
}

func TestDecimal(t *testing.T) {
	for milli, want := range map[int64]string{0: "0", 10_000: "10", 700: "0.7", 4857: "4.86", 833: "0.83", 100_000: "100", 1_200_500: "1200.5"} {
		if got := decimal(milli); got != want {
			t.Errorf("%d milli are %s, want %s", milli, got, want)
		}
	}
}

func TestGoalOfAFailedMetric(t *testing.T) {
	view := viewAt(0, 1, 1, 0, 700)
	view.Decision.Metrics[0].Error = "no sample"
	p := panel{view: view}
	if got, want := p.goals(), "queue unknown, busy 0.7 of 0.7"; got != want {
		t.Errorf("goals = %q, want %q", got, want)
	}
}

func TestGistTellsWhatIsNew(t *testing.T) {
	held := func(view api.Autoscaler) api.Autoscaler {
		view.Decision.Stabilization = &policy.Stabilization{Replicas: 3, Binding: &policy.Recommendation{Replicas: 3}}
		return view
	}
	limited := func(view api.Autoscaler, reason string) api.Autoscaler {
		view.Decision.Limit = &policy.Limit{Limited: true, Reason: reason, Replicas: 3}
		return view
	}
	failed := func(view api.Autoscaler) api.Autoscaler {
		view.Decision.Metrics[0].Error = "no sample"
		return view
	}
	var last gist
	for i, step := range []struct {
		view api.Autoscaler
		news bool
	}{
		{failed(viewAt(0, 1, 1, 0, 0)), false}, // samples are about to come
		{failed(viewAt(1, 1, 1, 0, 0)), false},
		{viewAt(2, 1, 1, 0, 100), true},
		{viewAt(3, 1, 1, 0, 200), false},
		{limited(viewAt(4, 1, 3, 0, 900), "ScaleUpLimit"), true},
		{viewAt(5, 3, 3, 0, 800), false}, // the change said so
		{limited(viewAt(6, 3, 3, 0, 900), "ScaleUpLimit"), true},
		{limited(viewAt(7, 3, 3, 0, 950), "ScaleUpLimit"), false},
		{limited(viewAt(8, 3, 3, 0, 950), "TooManyReplicas"), true},
		{held(viewAt(9, 3, 3, 0, 100)), true},
		{held(viewAt(10, 3, 3, 0, 90)), false},
		{failed(viewAt(11, 3, 3, 0, 90)), true},
		{failed(viewAt(12, 3, 3, 0, 90)), false},
		{viewAt(13, 3, 2, 0, 90), true},
	} {
		if got := last.news(*step.view.Decision, time.Duration(i)*time.Second); got != step.news {
			t.Errorf("decision %d is news: %v, want %v", i, got, step.news)
		}
	}
	late := gist{}
	if !late.news(*failed(viewAt(0, 1, 1, 0, 0)).Decision, firstSamples) {
		t.Error("that there are still no samples after a while is no news")
	}
}

// terminal is what a person sees of a terminal: it knows the few steps that
// screen uses.
type terminal struct {
	rows          []string
	row           int
	columns, high int
	full          bool
}

func (v *terminal) Write(text []byte) (int, error) {
	if v.full {
		return 0, errors.New("input/output error")
	}
	for rest := string(text); rest != ""; {
		switch {
		case strings.HasPrefix(rest, "\r\x1b["):
			steps, tail, _ := strings.Cut(strings.TrimPrefix(rest, "\r\x1b["), "A\x1b[C\x1b[J\r\x1b[K")
			up := 0
			for _, digit := range steps {
				up = 10*up + int(digit-'0')
			}
			v.row = max(v.row-up, 0)
			v.rows, rest = v.rows[:v.row], tail
		default:
			line, tail, _ := strings.Cut(rest, "\n")
			letters := []rune(line)
			for part := range slices.Chunk(append(letters, make([]rune, max(0, 1-len(letters)))...), v.columns) {
				v.rows = append(v.rows, strings.TrimRight(string(part), "\x00"))
				v.row++
			}
			rest = tail
		}
	}
	return len(text), nil
}

func newTestScreen(columns, rows int) (*screen, *terminal) {
	seen := &terminal{columns: columns, high: rows}
	return &screen{out: seen, size: func() (int, int, error) { return seen.columns, seen.high, nil }}, seen
}

func TestScreenKeepsLinesAboveThePanel(t *testing.T) {
	screen, seen := newTestScreen(60, 20)
	draw := func(stay []string, panel ...string) {
		t.Helper()
		if err := screen.draw(stay, func(int) []string { return panel }); err != nil {
			t.Fatal(err)
		}
	}
	draw([]string{"hello", "", "  " + strings.Repeat("x", 70)}, "panel 1", "second line")
	draw(nil, "panel 2", strings.Repeat("long ", 20))
	draw([]string{"12:00:00 1 → 2: " + strings.Repeat("because ", 8)}, "panel 3")
	want := []string{
		"hello", "", "  " + strings.Repeat("x", 58), strings.Repeat("x", 12),
		"12:00:00 1 → 2: because because because because because", "         because because because", "panel 3",
	}
	if !slices.Equal(seen.rows, want) {
		t.Errorf("the terminal shows\n%s\nwant\n%s", strings.Join(seen.rows, "\n"), strings.Join(want, "\n"))
	}
	draw([]string{"the end"})
	if got := seen.rows[len(seen.rows)-1]; got != "the end" || slices.Contains(seen.rows, "panel 3") {
		t.Errorf("the panel is still there at the end:\n%s", strings.Join(seen.rows, "\n"))
	}
}

func TestScreenOfAnotherSize(t *testing.T) {
	screen, seen := newTestScreen(80, 24)
	p := testPanel()
	if err := screen.draw([]string{"hello"}, p.lines); err != nil {
		t.Fatal(err)
	}
	// A terminal that becomes narrower breaks the lines it shows.
	shown := seen.rows
	seen.columns, seen.rows, seen.row = 50, nil, 0
	if _, err := seen.Write([]byte(strings.Join(shown, "\n") + "\n")); err != nil {
		t.Fatal(err)
	}
	if err := screen.draw(nil, p.lines); err != nil {
		t.Fatal(err)
	}
	if seen.rows[0] != "hello" || len(seen.rows) != 1+len(p.lines(49)) {
		t.Errorf("the terminal shows\n%s\nwant hello and the panel once", strings.Join(seen.rows, "\n"))
	}
	// One that is too low for the panel gets its top.
	seen.high = 6
	if err := screen.draw(nil, p.lines); err != nil {
		t.Fatal(err)
	}
	if len(seen.rows) != 1+5 {
		t.Errorf("%d rows are shown, want 6 where the terminal has 6", len(seen.rows))
	}
	seen.full = true
	if err := screen.draw(nil, p.lines); err == nil || !strings.Contains(err.Error(), "draw on the terminal") {
		t.Errorf("error = %v, want that nothing can be drawn", err)
	}
}

// TestScreenKeepsItsHead: the introduction stays while lines go by, where there is
// room for it.
func TestScreenKeepsItsHead(t *testing.T) {
	for rows, stays := range map[int]bool{20: true, 4: false} {
		screen, seen := newTestScreen(60, rows)
		screen.head = []string{"what this is", "and who"}
		for range 3 {
			if err := screen.draw([]string{"a change"}, func(int) []string { return []string{"panel", "time"} }); err != nil {
				t.Fatal(err)
			}
		}
		want := []string{"a change", "a change", "a change", "what this is", "and who", "panel", "time"}
		if !stays {
			want = []string{"what this is", "and who", "a change", "a change", "a change", "panel", "time"}
		}
		if !slices.Equal(seen.rows, want) {
			t.Errorf("of %d rows the terminal shows %q, want %q", rows, seen.rows, want)
		}
	}
}

func TestColors(t *testing.T) {
	line := "12:00:00 1 → 2: The count goes up from 1 to 2"
	if got := (&screen{colored: true}).paint(line); got != green+line+plain {
		t.Errorf("painted %q", got)
	}
	if got := (&screen{}).paint(line); got != line {
		t.Errorf("without colours: %q", got)
	}
}
