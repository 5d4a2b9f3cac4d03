package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
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

// rowInterval is the time between two rows of the table.
const rowInterval = 2 * time.Second

// settleTime is the minimum time without a change after which the demo ends early.
const settleTime = 3 * time.Second

// display prints the demo while it runs, and a summary at the end. Its methods are for one
// goroutine, except decided and warn, which never block.
type display struct {
	out   io.Writer
	setup Setup
	queue *Queue

	decisions chan api.Autoscaler
	warnings  chan string

	started, ended time.Time
	// settled is set if the demo ended because the load was over and the fleet was back at
	// its initial count, interrupted if the user ended it earlier.
	settled, interrupted bool
	fleet                fleet
	// view is the latest decision.
	view api.Autoscaler
	// row and rowArrived are the time of the last row of the table and the number of jobs
	// that had arrived by then.
	row        time.Time
	rowArrived int
}

// fleet is the number of workers over time.
type fleet struct {
	known            bool
	start, now, most int32
	// shrunk is set if the count was below its maximum after it had reached it.
	shrunk     bool
	ups, downs int
	lastChange time.Time
}

func newDisplay(out io.Writer, setup Setup, queue *Queue) *display {
	return &display{out: out, setup: setup, queue: queue, decisions: make(chan api.Autoscaler, 64), warnings: make(chan string, 64)}
}

// decided adds a decision. It is lost if the terminal is too slow.
func (s *display) decided(view api.Autoscaler) {
	select {
	case s.decisions <- view:
	default:
	}
}

// warn adds a warning. It is lost if the terminal is too slow.
func (s *display) warn(line string) {
	select {
	case s.warnings <- line:
	default:
	}
}

// run prints decisions and warnings until ctx ends or the demo is over.
func (s *display) run(ctx context.Context) error {
	s.started = time.Now()
	s.row = s.started
	defer func() { s.ended = time.Now() }()
	if err := s.print(introduction(s.setup)...); err != nil {
		return err
	}
	for {
		var err error
		select {
		case <-ctx.Done():
			return nil
		case view := <-s.decisions:
			err = s.add(view)
		case line := <-s.warnings:
			if ctx.Err() != nil {
				// Calls that are canceled at the end cause warnings. If the daemon
				// failed, lastWarnings prints them.
				s.warn(line)
				return nil
			}
			err = s.print("! " + line)
		}
		if s.settled = s.isSettled(time.Now()); err != nil || s.settled {
			return err
		}
	}
}

// isSettled reports whether the load is over, no job waits, and the fleet is back at its
// initial count.
func (s *display) isSettled(now time.Time) bool {
	return s.fleet.verdict() == nil && s.fleet.now <= s.fleet.start && s.queue.Stats().Waiting == 0 &&
		Load{Duration: s.setup.Duration}.Over(now.Sub(s.started)) && now.Sub(s.fleet.lastChange) >= settleTime
}

// add prints a decision if it changed the count, and a row of the table if the last one is
// old enough.
func (s *display) add(view api.Autoscaler) error {
	if view.Decision == nil || view.Decision.Case == policy.CaseUnreadable {
		return nil
	}
	decision := *view.Decision
	decision.Time = decision.Time.Local()
	view.Decision, s.view = &decision, view
	changed := decision.Write && view.Status.LastScaleTime.Equal(decision.Time)
	s.fleet.add(&decision, changed)
	var lines []string
	if changed {
		lines = append(lines, explain.Line(decision, view.Evaluation))
	}
	if now := time.Now(); now.Sub(s.row) >= rowInterval {
		lines = append(lines, s.tableRow(now))
	}
	return s.print(lines...)
}

// header is the header of the table.
const header = "TIME         LOAD   WAITING   WORKERS   METRICS"

func (s *display) tableRow(now time.Time) string {
	stats := s.queue.Stats()
	load := float64(stats.Arrived-s.rowArrived) / now.Sub(s.row).Seconds()
	s.row, s.rowArrived = now, stats.Arrived
	return fmt.Sprintf("%s  %3.0f/s  %8d  %8d   %s", now.Format(time.TimeOnly), load, stats.Waiting, s.view.Decision.DesiredReplicas, metricsText(s.view.Decision.Metrics))
}

// metricsText returns the current values of metrics with their target values.
func metricsText(results []policy.MetricResult) string {
	texts := make([]string, 0, len(results))
	for i := range results {
		r := &results[i]
		if r.Error != "" || r.Current.AverageValueMilli == nil {
			texts = append(texts, r.Name+" unknown")
			continue
		}
		texts = append(texts, fmt.Sprintf("%s %s of %s", r.Name, decimal(*r.Current.AverageValueMilli), decimal(r.GoalValue)))
	}
	return strings.Join(texts, ", ")
}

func decimal(milli int64) string {
	text := strconv.FormatFloat(float64(milli)/1000, 'f', 2, 64)
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
}

func (s *display) print(lines ...string) error {
	for _, line := range lines {
		if _, err := fmt.Fprintln(s.out, strings.Map(show.Printable, line)); err != nil {
			return fmt.Errorf("print the demo: %w", err)
		}
	}
	return nil
}

// lastWarnings prints the warnings from before a failure of the daemon.
func (s *display) lastWarnings() {
	for {
		select {
		case line := <-s.warnings:
			_ = s.print("! " + line) // the caller reports the failure
		default:
			return
		}
	}
}

// conclude prints a summary. It returns an error if the fleet did not grow and shrink, unless
// the user interrupted the demo.
func (s *display) conclude() error {
	var lines []string
	if s.settled {
		lines = append(lines, "", "The load is over and the fleet is back at its initial size.")
	}
	lines = append(lines, s.summary()...)
	verdict := s.fleet.verdict()
	switch {
	case verdict == nil:
		lines = append(lines, "", "The fleet grew and shrank with its load.")
	case s.interrupted:
		lines = append(lines, "", "The demo was interrupted before the fleet had grown and shrunk.")
		verdict = nil
	}
	return errors.Join(s.print(lines...), verdict)
}

func (s *display) summary() []string {
	elapsed, total, stats := s.ended.Sub(s.started), s.setup.Duration, s.queue.Stats()
	ran := "The demo ran for " + duration.HumanDuration(elapsed.Round(time.Second))
	if elapsed < total-time.Second {
		ran += " of at most " + duration.HumanDuration(total)
	}
	jobs := fmt.Sprintf("  jobs      %d taken", stats.Taken)
	if stats.Taken > 0 {
		jobs += fmt.Sprintf(", after %v on average and %v at most",
			(stats.Waited / time.Duration(stats.Taken)).Round(10*time.Millisecond), stats.LongestWait.Round(10*time.Millisecond))
	}
	f := &s.fleet
	return []string{
		"", ran + ".", "", jobs,
		fmt.Sprintf("  workers   %d at the start, %d at most, %d at the end", f.start, f.most, f.now),
		fmt.Sprintf("  changes   %d up, %d down", f.ups, f.downs),
	}
}

// add adds a decision.
func (f *fleet) add(d *policy.Decision, changed bool) {
	if !f.known {
		f.known, f.start, f.most = true, d.CurrentReplicas, d.CurrentReplicas
	}
	f.count(d.CurrentReplicas)
	if !changed {
		return
	}
	f.count(d.DesiredReplicas)
	f.lastChange = d.Time
	if d.DesiredReplicas > d.CurrentReplicas {
		f.ups++
	} else {
		f.downs++
	}
}

func (f *fleet) count(replicas int32) {
	f.now = replicas
	switch {
	case replicas > f.most:
		f.most, f.shrunk = replicas, false
	case replicas < f.most:
		f.shrunk = true
	}
}

// verdict returns nil if the fleet grew and then shrank.
func (f *fleet) verdict() error {
	switch {
	case !f.known:
		return errors.New("no decision was made, so the fleet did not grow")
	case f.most == f.start:
		return fmt.Errorf("the fleet did not grow: it never had more workers than the %d at the start", f.start)
	case !f.shrunk:
		return fmt.Errorf("the fleet did not shrink: it grew from %d to %d workers and stayed there", f.start, f.most)
	default:
		return nil
	}
}

func introduction(setup Setup) []string {
	program := program()
	return []string{
		fmt.Sprintf("A load rises and falls within %s. Jobs arrive in a queue, and worker processes", duration.HumanDuration(setup.Duration)),
		"execute 20 of them per second each. Every second hpad decides on the number of",
		"workers, from 1 to 10, so that at most 10 jobs wait for each worker and workers",
		"are busy for 70% of their time. \"hpad demo --print-config\" prints its configuration.",
		"",
		"From another terminal, while the demo runs:",
		"",
		fmt.Sprintf("  %s get --socket %s", program, setup.Socket),
		fmt.Sprintf("  %s explain --socket %s %s", program, setup.Socket, Autoscaler),
		"",
		fmt.Sprintf("In a browser, with graphs: http://%s/", setup.Listen),
		"",
		header,
	}
}

// program returns the command that starts this program from another terminal: its name if
// the PATH leads to it, and its path if not.
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

// newLog returns a logger that sends warnings and errors to the display, except failed
// evaluations, which the table shows.
func newLog(d *display) *zap.Logger {
	encoding := zap.NewProductionEncoderConfig()
	encoding.TimeKey, encoding.LevelKey, encoding.CallerKey, encoding.StacktraceKey = "", "", "", ""
	encoder := zapcore.NewConsoleEncoder(encoding)
	return zap.New(filterCore{zapcore.NewCore(encoder, zapcore.AddSync(lineWriter(d.warn)), zap.WarnLevel)})
}

// filterCore drops the log lines of failed evaluations.
type filterCore struct{ zapcore.Core }

// Check drops failed evaluations.
func (c filterCore) Check(entry zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if entry.Message == "evaluation failed" {
		return checked
	}
	return c.Core.Check(entry, checked)
}

func (c filterCore) With(fields []zapcore.Field) zapcore.Core {
	return filterCore{c.Core.With(fields)}
}

// lineWriter passes each write on as one line.
type lineWriter func(line string)

func (w lineWriter) Write(line []byte) (int, error) {
	w(explain.OneLine(string(line)))
	return len(line), nil
}
