package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/hpad/hpad/cmd/hpad/show"
	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/explain"
	"github.com/hpad/hpad/policy"
)

// rowInterval is the time between two rows of the table.
const rowInterval = 2 * time.Second

// settleTime is the minimum time without a change before the demo can end early.
const settleTime = 3 * time.Second

// display prints the demo while it runs, and a summary at the end. Its methods must be called from
// one goroutine, except decided, which never blocks.
type display struct {
	out       io.Writer
	setup     Setup
	queue     *Queue
	decisions chan api.Autoscaler

	started, ended time.Time
	// settled is set if the load has ended and the fleet is back at its initial count. interrupted
	// is set if the user ended the demo before that.
	settled, interrupted bool
	fleet                fleet
	// view is the latest decision.
	view api.Autoscaler
	// row is the time of the last table row. rowTotal is the total number of jobs added by that time.
	row      time.Time
	rowTotal int
}

// fleet tracks the number of workers over time.
type fleet struct {
	// start is the first count, or 0 before the first decision.
	start, now, most int32
	ups, downs       int
	lastChange       time.Time
}

func newDisplay(out io.Writer, setup Setup, queue *Queue) *display {
	return &display{out: out, setup: setup, queue: queue, decisions: make(chan api.Autoscaler, 64)}
}

// decided passes a decision to run. It drops the decision if the terminal is too slow.
func (s *display) decided(view api.Autoscaler) {
	select {
	case s.decisions <- view:
	default:
	}
}

// run prints decisions until ctx ends or the demo has finished.
func (s *display) run(ctx context.Context) error {
	s.started = time.Now()
	s.row = s.started
	defer func() { s.ended = time.Now() }()
	if err := s.print(introduction(s.setup)...); err != nil {
		return err
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case view := <-s.decisions:
			if err := s.add(view); err != nil {
				return err
			}
			if s.settled = s.isSettled(time.Now()); s.settled {
				return nil
			}
		}
	}
}

// isSettled reports whether the load has ended, no job is waiting, and the fleet is back at its
// initial count.
func (s *display) isSettled(now time.Time) bool {
	waiting, _ := s.queue.counts()
	return s.fleet.verdict() == nil && s.fleet.now <= s.fleet.start && waiting == 0 &&
		loadOver(now.Sub(s.started), s.setup.Duration) && now.Sub(s.fleet.lastChange) >= settleTime
}

// add prints a decision if it changed the count. It also prints a table row if rowInterval has
// passed since the last row.
func (s *display) add(view api.Autoscaler) error {
	if view.Decision == nil || view.Decision.Case == policy.CaseUnreadable {
		return nil
	}
	decision := *view.Decision
	decision.Time = decision.Time.Local()
	view.Decision, s.view = &decision, view
	changed := decision.Write && !view.Status.LastScaleTime.Before(decision.Time)
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

const header = "TIME         LOAD   WAITING   WORKERS   METRICS"

func (s *display) tableRow(now time.Time) string {
	waiting, total := s.queue.counts()
	load := float64(total-s.rowTotal) / now.Sub(s.row).Seconds()
	s.row, s.rowTotal = now, total
	var metrics []string
	for _, r := range s.view.Decision.Metrics {
		text := "unknown"
		if r.Error == "" && r.Current.AverageValueMilli != nil {
			text = decimal(*r.Current.AverageValueMilli) + " of " + decimal(r.TargetValue)
		}
		metrics = append(metrics, r.Name+" "+text)
	}
	return fmt.Sprintf("%s  %3.0f/s  %8d  %8d   %s", now.Format(time.TimeOnly), load, waiting, s.view.Decision.DesiredReplicas, strings.Join(metrics, ", "))
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

// conclude prints a summary. It returns an error if the fleet did not grow and shrink, unless the
// user interrupted the demo.
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
	elapsed, total := s.ended.Sub(s.started), s.setup.Duration
	ran := "The demo ran for " + duration.HumanDuration(elapsed.Round(time.Second))
	if elapsed < total-time.Second {
		ran += " of at most " + duration.HumanDuration(total)
	}
	f := &s.fleet
	return []string{
		"", ran + ".", "",
		fmt.Sprintf("  workers   %d at the start, %d at most, %d at the end", f.start, f.most, f.now),
		fmt.Sprintf("  changes   %d up, %d down", f.ups, f.downs),
	}
}

func (f *fleet) add(d *policy.Decision, changed bool) {
	if f.start == 0 {
		f.start = d.CurrentReplicas
	}
	f.now = d.CurrentReplicas
	if changed {
		f.now, f.lastChange = d.DesiredReplicas, d.Time
		if d.DesiredReplicas > d.CurrentReplicas {
			f.ups++
		} else {
			f.downs++
		}
	}
	f.most = max(f.most, d.CurrentReplicas, f.now)
}

// verdict returns an error unless the fleet grew and shrank.
func (f *fleet) verdict() error {
	switch {
	case f.ups == 0:
		return fmt.Errorf("the fleet did not grow: it never had more than %d workers", f.most)
	case f.downs == 0:
		return fmt.Errorf("the fleet did not shrink: it grew from %d to %d workers and stayed there", f.start, f.most)
	}
	return nil
}

func introduction(setup Setup) []string {
	program := os.Args[0]
	return []string{
		fmt.Sprintf("A load rises and falls within %s. Jobs arrive in a queue, and each worker", duration.HumanDuration(setup.Duration)),
		"process executes 20 jobs per second. Every second hpad sets the number of workers,",
		"from 1 to 10, so that at most 10 jobs wait for each worker and workers are busy",
		"for 70% of their time.",
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
