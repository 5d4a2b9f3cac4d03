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

	"github.com/hpad/hpad/cmd/hpad/hint"
	"github.com/hpad/hpad/cmd/hpad/show"
	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/explain"
	"github.com/hpad/hpad/policy"
)

const (
	// autoscaler is the name of the demo's only autoscaler.
	autoscaler = "demo"
	// pollInterval is the interval at which the display looks for a new decision.
	pollInterval = 100 * time.Millisecond
	// rowInterval is the minimum time between two rows of the table, so that every second decision
	// has a row.
	rowInterval = 1800 * time.Millisecond
	// settleTime is the minimum time without a change before the demo can end early.
	settleTime = 3 * time.Second
)

// display prints the demo while it runs, and a summary at the end.
type display struct {
	out      io.Writer
	queue    *queue
	duration time.Duration

	started, ended time.Time
	// decided is the time of the last decision.
	decided time.Time
	// row is the time of the last table row. rowTotal is the total number of jobs at that time.
	row      time.Time
	rowTotal int64
	// start is the first count of workers, or 0 before the first decision. now is the last count, and
	// most the highest.
	start, now, most int32
	ups, downs       int
	lastChange       time.Time
}

// run prints decisions until ctx ends, or until the load has ended and the fleet is back at its
// initial count.
func (s *display) run(ctx context.Context, read func(name string) (api.Autoscaler, bool), socket, listen string) error {
	s.started = time.Now()
	s.row = s.started
	defer func() { s.ended = time.Now() }()
	if err := s.print(introduction(s.duration, socket, listen)...); err != nil {
		return err
	}
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for !s.isSettled(time.Now()) {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		view, ok := read(autoscaler)
		if d := view.Decision; !ok || d == nil || d.Case == policy.CaseUnreadable || !d.Time.After(s.decided) {
			continue
		}
		if err := s.print(s.add(view)...); err != nil {
			return err
		}
	}
	return nil
}

// isSettled reports whether the load has ended, no job is waiting, and the fleet is back at its
// initial count.
func (s *display) isSettled(now time.Time) bool {
	return s.verdict() == nil && s.now <= s.start && len(s.queue.jobs) == 0 &&
		float64(now.Sub(s.started)) >= fallEnd*float64(s.duration) && now.Sub(s.lastChange) >= settleTime
}

// add counts a decision. It returns a line if the decision changed the count, and a row of the table
// if rowInterval has passed since the last row.
func (s *display) add(view api.Autoscaler) (lines []string) {
	d := *view.Decision
	if s.decided = d.Time; s.start == 0 {
		s.start = d.CurrentReplicas
	}
	s.now = d.CurrentReplicas
	if d.Write && !view.Status.LastScaleTime.Before(d.Time) {
		s.now, s.lastChange = d.DesiredReplicas, d.Time
		if d.DesiredReplicas > d.CurrentReplicas {
			s.ups++
		} else {
			s.downs++
		}
		d.Time = d.Time.Local()
		lines = append(lines, explain.Line(d, view.Evaluation))
	}
	s.most = max(s.most, d.CurrentReplicas, s.now)
	if now := time.Now(); now.Sub(s.row) >= rowInterval {
		lines = append(lines, s.tableRow(now, &d))
	}
	return lines
}

const header = "TIME         LOAD   WAITING   WORKERS   METRICS"

func (s *display) tableRow(now time.Time, d *policy.Decision) string {
	total := s.queue.total.Load()
	load := float64(total-s.rowTotal) / now.Sub(s.row).Seconds()
	s.row, s.rowTotal = now, total
	var metrics []string
	for _, r := range d.Metrics {
		text := "unknown"
		if r.Error == "" && r.Current.AverageValueMilli != nil {
			text = decimal(*r.Current.AverageValueMilli) + " of " + decimal(r.TargetValue)
		}
		metrics = append(metrics, r.Name+" "+text)
	}
	return fmt.Sprintf("%s  %3.0f/s  %8d  %8d   %s", now.Format(time.TimeOnly), load, len(s.queue.jobs), d.DesiredReplicas, strings.Join(metrics, ", "))
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
func (s *display) conclude(interrupted bool) error {
	elapsed := s.ended.Sub(s.started)
	ran := "The demo ran for " + duration.HumanDuration(elapsed.Round(time.Second))
	if elapsed < s.duration-time.Second {
		ran += " of at most " + duration.HumanDuration(s.duration)
	}
	lines := []string{
		"", ran + ".", "",
		fmt.Sprintf("  workers   %d at the start, %d at most, %d at the end", s.start, s.most, s.now),
		fmt.Sprintf("  changes   %d up, %d down", s.ups, s.downs),
	}
	verdict := s.verdict()
	switch {
	case verdict == nil:
		lines = append(lines, "", "The fleet grew and shrank with its load.")
	case interrupted:
		lines = append(lines, "", "The demo was interrupted before the fleet had grown and shrunk.")
		verdict = nil
	default:
		verdict = hint.With(verdict, fmt.Sprintf("the host was probably too busy for the workers: free CPU time, or use a longer time, such as --for %s", max(2*s.duration, 2*time.Minute)))
	}
	return errors.Join(s.print(lines...), verdict)
}

// verdict returns an error unless the fleet grew and shrank.
func (s *display) verdict() error {
	switch {
	case s.ups == 0:
		return fmt.Errorf("the fleet did not grow: it never had more than %d workers", s.most)
	case s.downs == 0:
		return fmt.Errorf("the fleet did not shrink: it grew from %d to %d workers and stayed there", s.start, s.most)
	}
	return nil
}

func introduction(length time.Duration, socket, listen string) []string {
	return []string{
		fmt.Sprintf("A load rises and falls within %s. Jobs arrive in a queue, and each worker", duration.HumanDuration(length)),
		"process executes 20 jobs per second. Every second hpad sets the number of workers,",
		"from 1 to 10, so that at most 10 jobs wait for each worker and workers are busy",
		"for 70% of their time.",
		"",
		"From another terminal, while the demo runs:",
		"",
		fmt.Sprintf("  %s get --socket %s", os.Args[0], socket),
		fmt.Sprintf("  %s explain --socket %s %s", os.Args[0], socket, autoscaler),
		"",
		fmt.Sprintf("In a browser, with graphs: http://%s/", listen),
		"",
		header,
	}
}
