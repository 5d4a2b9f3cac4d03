package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/hpad/hpad/cmd/hpad/show"
	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/explain"
	"github.com/hpad/hpad/policy"
)

// How often the display looks at the queue, and draws its panel.
const (
	sampleInterval = time.Second
	frameInterval  = 250 * time.Millisecond
)

// display shows the demo while it runs and its story at the end. Warnings
// and decisions may come from anywhere, all else is for one goroutine.
type display struct {
	out    io.Writer
	screen *screen // nil where lines are printed instead
	setup  Setup
	queue  *Queue

	decisions chan api.Autoscaler
	warnings  chan string

	begun  time.Time
	ended  time.Time
	story  Story
	panel  panel
	gist   gist
	steps  steps
	before Stats
	// settled is whether the demo is over because nothing more would happen,
	// interrupted whether somebody ended it before.
	settled, interrupted bool
	// sampled is when the queue was looked at, rowed the time of the last line of
	// the plain table.
	sampled, rowed time.Time
}

// newDisplay returns a display on a terminal, or in plain lines where out is none.
func newDisplay(out io.Writer, setup Setup, queue *Queue) *display {
	return &display{
		out: out, screen: newScreen(out), setup: setup, queue: queue,
		// What nobody reads for so long is left out.
		decisions: make(chan api.Autoscaler, 64),
		warnings:  make(chan string, 64),
		panel:     panel{total: setup.Duration},
	}
}

func (s *display) decided(view api.Autoscaler) {
	select {
	case s.decisions <- view:
	default:
	}
}

func (s *display) warn(line string) {
	select {
	case s.warnings <- line:
	default:
	}
}

func (s *display) run(ctx context.Context) error {
	s.begun = time.Now()
	s.sampled = s.begun
	defer func() { s.ended = time.Now() }()
	if intro := introduction(s.setup, s.screen == nil); s.screen != nil {
		s.screen.head = intro
	} else if err := s.print(intro...); err != nil {
		return err
	}
	ticker := time.NewTicker(frameInterval)
	defer ticker.Stop()
	for {
		var err error
		select {
		case <-ctx.Done():
			return nil
		case view := <-s.decisions:
			err = s.add(view)
		case line := <-s.warnings:
			if ctx.Err() != nil {
				// Calls that are broken off at the end are no trouble; where it is
				// the daemon that failed, lastWarnings prints them.
				s.warn(line)
				return nil
			}
			err = s.print("! " + line)
		case now := <-ticker.C:
			err = s.frame(now)
		}
		if s.settled = s.isSettled(time.Now()); err != nil || s.settled {
			return err
		}
	}
}

// quiet is how long nothing may happen at the end until the demo is over.
const quiet = 3 * time.Second

// isSettled reports whether the load is over, its jobs are done, and the fleet is
// back at what it was.
func (s *display) isSettled(now time.Time) bool {
	return s.story.Verdict() == nil && s.story.Now <= s.story.Start && s.panel.waiting == 0 &&
		Load{Duration: s.setup.Duration}.Over(now.Sub(s.begun)) && now.Sub(s.story.Last.Time) >= quiet
}

// add adds a decision to the story, and prints it where it says something new.
func (s *display) add(view api.Autoscaler) error {
	if view.Decision == nil {
		return nil
	}
	decision := *view.Decision
	decision.Time = decision.Time.Local()
	view.Decision = &decision
	s.story.Tell(view)
	s.panel.view = view
	lines := s.news(view)
	if s.screen == nil && len(s.panel.samples) > 0 && decision.Time.Sub(s.rowed) >= plainInterval(s.panel.total) {
		// Steps that are not printed yet are older than the table's next line.
		lines = append(append(lines, s.steps.rest()...), s.panel.row(decision.Time))
		s.rowed = decision.Time
	}
	if len(lines) == 0 {
		return nil
	}
	return s.print(lines...)
}

// news returns the lines that tell of a decision, none where it says nothing new.
func (s *display) news(view api.Autoscaler) []string {
	decision := *view.Decision
	changed := Changed(view)
	if !changed && s.steps.open(decision) {
		return nil // what is said between two steps of one way is no news
	}
	if changed && s.steps.add(decision) {
		s.gist.news(decision, time.Since(s.begun))
		return nil
	}
	lines := s.steps.rest()
	s.steps.last = nil
	if changed {
		s.steps.last = &decision
	}
	if s.gist.news(decision, time.Since(s.begun)) || changed {
		lines = append(lines, explain.Line(decision, view.Evaluation))
	}
	return lines
}

// steps are changes in one direction that follow each other closely. The first is
// printed as it happens, the others as one.
type steps struct {
	// first is the count before the first change that is not printed yet, more how
	// many such changes there are.
	first int32
	more  int
	last  *policy.Decision
}

// stepPause is how long the steps of one way may be apart.
const stepPause = 5 * time.Second

// open reports whether a decision, which changes nothing and did not fail, may be
// followed by the next step.
func (s *steps) open(d policy.Decision) bool {
	return s.last != nil && d.Error == "" && d.Time.Sub(s.last.Time) < stepPause
}

// add adds a change, and reports whether it goes on with the steps before it.
func (s *steps) add(d policy.Decision) bool {
	if !s.open(d) || (d.DesiredReplicas > d.CurrentReplicas) != (s.last.DesiredReplicas > s.last.CurrentReplicas) {
		return false
	}
	if s.more == 0 {
		s.first = d.CurrentReplicas
	}
	s.more++
	s.last = &d
	return true
}

// rest returns the line of all steps that are not printed yet, none where there are
// none, and takes them for printed.
func (s *steps) rest() []string {
	more, last := s.more, s.last
	s.more = 0
	switch more {
	case 0:
		return nil
	case 1:
		return []string{explain.Line(*last, api.Evaluation{Written: &last.DesiredReplicas})}
	default:
		return []string{fmt.Sprintf("%s %d → %d in %d steps, the last: %s", last.Time.Format(time.TimeOnly), s.first, last.DesiredReplicas, more,
			explain.Sentence(*last, api.Evaluation{Written: &last.DesiredReplicas}))}
	}
}

func (s *display) frame(now time.Time) error {
	stats := s.queue.Stats()
	s.panel.elapsed, s.panel.waiting = now.Sub(s.begun), stats.Waiting
	if span := now.Sub(s.sampled); span >= sampleInterval {
		s.panel.sample(float64(stats.Arrived-s.before.Arrived)/span.Seconds(), stats.Waiting)
		s.sampled, s.before = now, stats
	}
	if s.screen == nil {
		return nil
	}
	return s.screen.draw(nil, s.drawPanel)
}

func (s *display) print(lines ...string) error {
	for i, line := range lines {
		lines[i] = strings.Map(show.Printable, line)
	}
	if s.screen != nil {
		return s.screen.draw(lines, s.drawPanel)
	}
	if _, err := io.WriteString(s.out, strings.Join(lines, "\n")+"\n"); err != nil {
		return fmt.Errorf("write what the demo does: %w", err)
	}
	return nil
}

// drawPanel returns the panel while the demo runs.
func (s *display) drawPanel(width int) []string {
	if !s.ended.IsZero() {
		return nil
	}
	return s.panel.lines(width)
}

// lastWarnings prints what was noted when the daemon failed.
func (s *display) lastWarnings() {
	for {
		select {
		case line := <-s.warnings:
			// When this cannot be printed, the failure itself is still reported.
			_ = s.print("! " + line)
		default:
			return
		}
	}
}

// conclude prints what happened. The error is that the fleet did not grow and
// shrink, in a demo that nobody interrupted.
func (s *display) conclude() error {
	elapsed := s.ended.Sub(s.begun)
	lines := s.steps.rest()
	if s.settled {
		lines = append(lines, "", "The load is done and the fleet is back, so nothing more would happen.")
	}
	lines = append(lines, summary(&s.story, s.queue.Stats(), elapsed, s.setup.Duration)...)
	lines = append(lines, worth(&s.story, s.queue.Stats(), elapsed, s.setup.Duration)...)
	verdict := s.story.Verdict()
	switch {
	case verdict == nil:
		lines = append(lines, "", "The fleet grew and shrank with its load.")
	case s.interrupted:
		lines = append(lines, "", "The demo was ended before the fleet had grown and shrunk.")
		verdict = nil
	}
	return errors.Join(s.print(lines...), verdict)
}

// gist is what the last printed decision came down to.
type gist struct {
	measured bool
	last     gistKey
}

// gistKey is equal for decisions that say the same in other numbers.
type gistKey struct {
	desired                    int32
	stabilized, limited, fails bool
	limit                      string
}

// firstSamples is how long the first samples may take: that there are none
// before is no news.
const firstSamples = 10 * time.Second

// news reports whether a decision comes down to something else than the last one.
func (g *gist) news(d policy.Decision, elapsed time.Duration) bool {
	key := gistKey{desired: d.DesiredReplicas, fails: d.Error != ""}
	for _, result := range d.Metrics {
		key.fails = key.fails || result.Error != ""
	}
	if key.fails && !g.measured && elapsed < firstSamples {
		return false
	}
	g.measured = g.measured || !key.fails
	key.stabilized = d.Stabilization != nil && d.Stabilization.Binding != nil
	if d.Limit != nil && d.Limit.Limited {
		key.limited, key.limit = true, d.Limit.Reason
	}
	if d.Write {
		// The change says why; that the count then stays is no news.
		key = gistKey{desired: d.DesiredReplicas}
	}
	news := key != g.last
	g.last = key
	return news
}

func introduction(setup Setup, plain bool) []string {
	program := program()
	lines := []string{
		fmt.Sprintf("A load rises and falls within %s: jobs arrive in a queue, and worker processes", duration.HumanDuration(setup.Duration)),
		"do them, 20 a second each. Every second hpad decides how many workers there",
		"are, from 1 to 10, so that at most 10 jobs wait for each worker and workers are",
		"busy for 70% of their time. \"hpad demo --print-config\" shows how it was told so.",
		"",
		"From another terminal, while this runs:",
		"",
		fmt.Sprintf("  %s get --socket %s", program, setup.Socket),
		fmt.Sprintf("  %s explain --socket %s %s", program, setup.Socket, Autoscaler),
		"",
		fmt.Sprintf("In a browser: http://%s/", setup.Listen),
		"",
	}
	if plain {
		lines = append(lines, header)
	}
	return lines
}

// program is how this program is called from another terminal: by its name
// where that finds it, else by its path.
func program() string {
	own, err := os.Executable()
	if err != nil {
		return "hpad"
	}
	if named, err := exec.LookPath("hpad"); err == nil && sameFile(named, own) {
		return "hpad"
	}
	return own
}

func sameFile(a, b string) bool {
	first, err := os.Stat(a)
	if err != nil {
		return false
	}
	second, err := os.Stat(b)
	return err == nil && os.SameFile(first, second)
}

// newLog returns a logger whose warnings and errors the show warnings. Passes that
// fail are left out: their decisions say it.
func newLog(d *display) *zap.Logger {
	encoding := zap.NewProductionEncoderConfig()
	encoding.TimeKey, encoding.LevelKey, encoding.CallerKey, encoding.StacktraceKey = "", "", "", ""
	encoder := zapcore.NewConsoleEncoder(encoding)
	return zap.New(quietCore{zapcore.NewCore(encoder, zapcore.AddSync(lineWriter(d.warn)), zap.WarnLevel)})
}

// quietCore leaves out what decisions say.
type quietCore struct{ zapcore.Core }

// Check leaves failed passes out.
func (c quietCore) Check(entry zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if entry.Message == "evaluation failed" {
		return checked
	}
	return c.Core.Check(entry, checked)
}

func (c quietCore) With(fields []zapcore.Field) zapcore.Core { return quietCore{c.Core.With(fields)} }

// lineWriter hands on what is written, each time as one line.
type lineWriter func(line string)

func (w lineWriter) Write(line []byte) (int, error) {
	w(explain.OneLine(string(line)))
	return len(line), nil
}
