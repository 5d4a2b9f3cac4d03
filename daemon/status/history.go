package status

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/state"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets/clock"
)

// History returns committed entries of an autoscaler's history.
func (s *Reader) History(ctx context.Context, name string, from, to time.Time, limit int) ([]api.Recorded, error) {
	scale := s.env.Clock.Scale()
	entries, err := s.store.History(ctx, name, scale.Monotonic(from), scale.Monotonic(to), limit)
	if err != nil {
		return nil, err
	}
	return Recorded(entries, scale), nil
}

// Recorded returns history entries in the form of the API, with wall-clock times.
func Recorded(entries []state.Entry, scale *clock.Scale) []api.Recorded {
	recorded := make([]api.Recorded, len(entries))
	for i, entry := range entries {
		recorded[i] = api.Recorded{
			Autoscaler: entry.Autoscaler, Time: scale.Wall(entry.Time), Written: entry.Written, Events: entry.Events,
			Victims: entry.Victims, Error: entry.Error, Decision: clock.AsWallTime(scale, entry.Decision),
			Hold: entry.Hold, DryRun: entry.DryRun, Reason: entry.Reason, Since: scale.Wall(entry.Since), Reload: entry.Reload,
		}
		if entry.Unreported != nil {
			recorded[i].Unreported = &api.Unreported{Changes: entry.Unreported.Changes, From: scale.Wall(entry.Unreported.From)}
		}
	}
	return recorded
}

// ExportState writes the state.
func (s *Reader) ExportState(ctx context.Context, to io.Writer, history bool) error {
	return s.store.Export(ctx, to, history)
}

// VerifyHistory recomputes recorded decisions and compares the results.
func (s *Reader) VerifyHistory(ctx context.Context, name string, from, to time.Time) (api.Verification, error) {
	scale := s.env.Clock.Scale()
	found, err := s.store.Verify(ctx, name, scale.Monotonic(from), scale.Monotonic(to))
	if err != nil {
		return api.Verification{}, err
	}
	shown := api.Verification{
		Engine: policy.Engine, Checked: found.Checked, Identical: found.Identical,
		Different: found.Different, NotVerifiable: found.NotVerifiable,
	}
	for _, difference := range found.Differences {
		var fields []api.DifferentField
		for _, field := range difference.Fields {
			fields = append(fields, api.DifferentField(field))
		}
		shown.Differences = append(shown.Differences, api.Difference{
			Autoscaler: difference.Autoscaler, Time: scale.Wall(difference.Time), Error: difference.Error, Fields: fields,
		})
	}
	return shown, nil
}

var errNoGraph = fmt.Errorf("no data points are stored because daemon.page is false: %w", api.ErrUnknown)

// Graph returns the data points of an autoscaler in an interval. The error is an api.ErrUnknown if
// there is no graph store.
func (s *Reader) Graph(_ context.Context, name string, from, to time.Time) (api.Graph, error) {
	if s.env.Graph == nil {
		return api.Graph{}, errNoGraph
	}
	scale := s.env.Clock.Scale()
	shown, err := s.env.Graph.Read(name, scale.Monotonic(from), scale.Monotonic(to))
	for i, at := range shown.Time {
		shown.Time[i] = scale.Wall(time.Unix(at, 0)).Unix()
	}
	return shown, err
}

// Pass contains all results of the last evaluation of an autoscaler. The conformance tests compare
// it with the state of the upstream controller.
type Pass struct {
	// Record is stored after the evaluation. Its Through is the instant of the evaluation, or zero
	// before the first evaluation.
	Record state.Record
	// Decision is empty before the first evaluation.
	Decision policy.Decision
	Outcome  policy.Outcome
	// Events are all current events of the autoscaler, including older events.
	Events []api.Event
}

// LastPass returns the last evaluation of an autoscaler, and false if the configuration does not
// contain the autoscaler. It is safe to call from Options.Decided.
func (s *Reader) LastPass(name string) (Pass, bool) {
	a, ok := s.scheduler.Current().Autoscalers[name]
	if !ok {
		return Pass{}, false
	}
	published := a.Last()
	return Pass{Record: published.Record, Decision: published.Decision, Outcome: published.Outcome, Events: published.Events}, true
}
