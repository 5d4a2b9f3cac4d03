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

	"github.com/hpad/hpad/cmd/hpad/hint"
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
	before Stats
	// sampled is when the queue was looked at, rowed when a line of the plain
	// table was printed.
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
	if err := s.print(introduction(s.setup, s.screen == nil)...); err != nil {
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
		if err != nil {
			return err
		}
	}
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
	changed := Changed(view)
	if !s.gist.news(decision, time.Since(s.begun)) && !changed {
		return nil
	}
	return s.print(explain.Line(decision, view.Evaluation))
}

func (s *display) frame(now time.Time) error {
	stats := s.queue.Stats()
	s.panel.elapsed, s.panel.waiting = now.Sub(s.begun), stats.Waiting
	if span := now.Sub(s.sampled); span >= sampleInterval {
		s.panel.sample(float64(stats.Arrived-s.before.Arrived)/span.Seconds(), stats.Waiting)
		s.sampled, s.before = now, stats
	}
	if s.screen != nil {
		return s.screen.draw(nil, s.drawPanel)
	}
	if len(s.panel.samples) == 0 || now.Sub(s.rowed) < plainInterval(s.panel.total) {
		return nil
	}
	s.rowed = now
	return s.print(s.panel.row(now))
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
// shrink.
func (s *display) conclude() error {
	elapsed := s.ended.Sub(s.begun)
	lines := summary(&s.story, s.queue.Stats(), elapsed, s.setup.Duration)
	verdict := s.story.Verdict()
	if verdict == nil {
		lines = append(lines, "", "The fleet grew and shrank with its load.")
	} else if elapsed < s.setup.Duration-time.Second {
		verdict = hint.With(verdict, "the demo was ended early; let it run to its end")
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
		fmt.Sprintf("A load rises and falls for %s: jobs arrive in a queue, and worker processes", duration.HumanDuration(setup.Duration)),
		"do them, 20 a second each. Every second hpad decides how many workers there",
		"are, from 1 to 10, so that at most 10 jobs wait for each worker and workers are",
		"busy for 70% of their time. \"hpad demo --print-config\" shows how it was told so.",
		"",
		"From another terminal, while this runs:",
		"",
		fmt.Sprintf("  %s get --socket %s", program, setup.Socket),
		fmt.Sprintf("  %s explain --socket %s %s", program, setup.Socket, Autoscaler),
		fmt.Sprintf("  curl http://%s/api/v1/autoscalers", setup.Listen),
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
