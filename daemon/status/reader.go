package status

import (
	"iter"
	"path/filepath"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/daemon/discovery"
	"github.com/hpad/hpad/daemon/explain"
	"github.com/hpad/hpad/daemon/metrics"
	"github.com/hpad/hpad/daemon/problem"
	"github.com/hpad/hpad/daemon/records"
	"github.com/hpad/hpad/daemon/round"
	"github.com/hpad/hpad/daemon/state"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/sources"
	"github.com/hpad/hpad/targets/clock"
)

// Reader implements the read methods of the API.
type Reader struct {
	env       *round.Env
	scheduler *round.Scheduler
	store     state.Store
	labels    *discovery.Labels
	// reloadError is the error of the last reload.
	reloadError *problem.Problem
}

// NewReader returns a Reader. refused is the error of the last reload.
func NewReader(env *round.Env, scheduler *round.Scheduler, store state.Store, labels *discovery.Labels, refused *problem.Problem) *Reader {
	return &Reader{env: env, scheduler: scheduler, store: store, labels: labels, reloadError: refused}
}

// Autoscalers returns all autoscalers, ordered by name.
func (s *Reader) Autoscalers() []api.Autoscaler { return slices.Collect(s.AutoscalersAfter("")) }

// AutoscalersAfter returns the autoscalers with names after name, ordered by name.
func (s *Reader) AutoscalersAfter(name string) iter.Seq[api.Autoscaler] {
	return func(yield func(api.Autoscaler) bool) {
		g := s.scheduler.Current()
		lost := records.LossText(s.Losses())
		first, found := slices.BinarySearch(g.Names, name)
		if found {
			first++
		}
		for _, name := range g.Names[first:] {
			if !yield(s.view(g.Autoscalers[name], lost, nil)) {
				return
			}
		}
	}
}

// Names returns the names of all autoscalers, sorted. The caller must not modify the result.
func (s *Reader) Names() []string { return s.scheduler.Current().Names }

// Listed returns an autoscaler as in AutoscalersAfter, and false if it does not exist.
func (s *Reader) Listed(name string) (api.Autoscaler, bool) {
	a := s.scheduler.Current().Autoscalers[name]
	if a == nil {
		return api.Autoscaler{}, false
	}
	return s.view(a, records.LossText(s.Losses()), nil), true
}

// Autoscaler returns one autoscaler, and false if it does not exist.
func (s *Reader) Autoscaler(name string) (api.Autoscaler, bool) {
	a := s.scheduler.Current().Autoscalers[name]
	if a == nil {
		return api.Autoscaler{}, false
	}
	view := s.view(a, records.LossText(s.Losses()), s.next(a))
	s.measureAges(a, &view)
	return view, true
}

// measureAges adds the ages of samples that exceed the sync period. Most sources return the time of
// the query as the time of a sample, so an additional query is necessary to determine the age.
func (s *Reader) measureAges(a *round.Autoscaler, view *api.Autoscaler) {
	def, ages := a.Definition(), a.Last().Ages
	for i := range min(len(view.Inputs), len(def.MetricInputs)) { // a reload can change the inputs
		var age time.Duration
		if i < len(ages) {
			age = ages[i]
		}
		read := view.Decision != nil && i < len(view.Decision.Metrics) && view.Decision.Metrics[i].Error == ""
		if in := &def.MetricInputs[i]; age == 0 && read && in.From != nil {
			age = in.From.Age(&sources.Query{Text: in.Query, MaxAge: in.MaxAge}, s.wall())
		}
		if age > def.SyncPeriod {
			view.Inputs[i].SampleAgeSeconds = age.Round(time.Second).Seconds()
		}
	}
}

// AsConfigured returns the view of an autoscaler that contains only its configuration and no
// status.
func AsConfigured(c *config.Autoscaler, kind string) api.Autoscaler {
	view := api.Autoscaler{
		Name: c.Name, Reference: c.Target.String(), Kind: kind, Spec: c.Spec,
		SyncPeriodSeconds: c.SyncPeriod.Seconds(), Mode: c.Mode, Labels: c.Labels,
		Inputs: make([]api.Input, len(c.Inputs)),
	}
	for i := range c.Inputs {
		in := &c.Inputs[i]
		view.Inputs[i] = api.Input{Source: in.Source, Query: in.Query, Select: in.Select.Map()}
	}
	return view
}

// scheduleHorizon limits the cost of the search for the next change of schedules.
const scheduleHorizon = 31 * 24 * time.Hour

// wall returns the current wall-clock time.
func (s *Reader) wall() time.Time { return s.env.Clock.Scale().Wall(s.env.Clock.Now()) }

// view returns the view of an autoscaler. lost describes losses of state. next describes the next
// change. Both are optional.
func (s *Reader) view(a *round.Autoscaler, lost string, next *policy.Next) api.Autoscaler {
	def, published := a.Definition(), a.Last()
	scale, wall := s.env.Clock.Scale(), s.wall()
	scheduled, schedules := def.Autoscaler.At(wall)
	view := AsConfigured(scheduled, def.Kind)
	view.Name, view.Created, view.Status = a.Name, published.Record.Created, published.Record.Status
	view.Evaluation = api.Evaluation{
		Last:             published.Record.Through,
		Next:             published.Next(s.env.Clock.Now(), def.SyncPeriod),
		DurationSeconds:  published.Duration.Seconds(),
		Late:             a.Late.Load(),
		Error:            published.Err,
		Reason:           published.Reason.String(),
		QuarantinedUntil: published.Quarantine,
		Unevaluated:      a.Overdue(time.Now()) > 0 || published.Quarantined(s.env.Clock.Now()),
		DryRun:           s.env.DryRun,
		StateLost:        lost,
		Hold:             published.Outcome.Hold,
		Since:            published.Since,
		Shortage:         published.Shortage,
	}
	view.Next, view.Restore, view.Discovery = next, published.Record.Restore.Shown(), s.labels.Of(a.Name)
	view.Instances, view.Events = published.Instances, published.Events
	view.Victims, view.VictimsError = published.Victims, published.VictimsError
	view.Pauses, _ = s.env.Pauses.Of(a.Name, def.Target.Fleet, s.env.Clock.Now(), scale)
	if published.Outcome.Kind == policy.Written {
		reached := published.Outcome.Reached
		view.Evaluation.Written = &reached
	}
	if published.Unreported.Changes > 0 {
		view.Evaluation.Unreported = &api.Unreported{Changes: published.Unreported.Changes, From: published.Unreported.From}
	}
	if scaleIn := def.Fleet.ScaleIn; scaleIn != nil {
		view.Drains = scaleIn.Draining(def.Target)
	}
	if published.Decided() {
		decision := published.Decision // a copy, which Shown changes
		view.Decision = &decision
		view.Evaluation.Partial = explain.PartialText(&decision)
	}
	view = clock.AsWallTime(scale, view)
	if len(def.Schedules) > 0 {
		next := def.NextChange(wall, wall.Add(scheduleHorizon)).In(def.Schedules.Zone())
		view.Schedules = &api.Schedules{
			Active: schedules.Active, Next: next, Ramps: schedules.Ramps, Min: schedules.MinSchedule, Max: schedules.MaxSchedule, Mode: schedules.ModeSchedule,
		}
	}
	return view
}

// Discovered returns the targets that fleets discovered by their labels.
func (s *Reader) Discovered() []api.Discovered { return s.labels.Targets() }

// Config returns the active configuration as TOML, without secrets.
func (s *Reader) Config() string { return s.scheduler.Current().Config.Redacted() }

// AutoscalerConfig returns the active configuration table of an autoscaler as TOML, without
// secrets. It returns an empty string for an unknown autoscaler.
func (s *Reader) AutoscalerConfig(name string) string {
	a := s.scheduler.Current().Autoscalers[name]
	if a == nil {
		return ""
	}
	return a.Definition().Redacted(name)
}

// ConfigFile returns the absolute path of the main configuration file, or "".
func (s *Reader) ConfigFile() string {
	files := s.scheduler.Current().Config.Files
	if len(files) == 0 {
		return ""
	}
	path, err := filepath.Abs(files[0])
	if err != nil {
		return ""
	}
	return path
}

// Losses returns recent losses of state.
func (s *Reader) Losses() []records.RecentLoss {
	return records.RecentLosses(s.store.Losses(), s.scheduler.Current().LongestMemory, s.env.Clock)
}

// LogLosses logs recent losses of state.
func (s *Reader) LogLosses() {
	for _, loss := range s.Losses() {
		s.env.Log.Warn("state lost or removed", zap.String("part", string(loss.Part)), zap.Time("at", loss.At),
			zap.Time("shown_until", loss.Until), zap.String("err", loss.Message))
	}
}

// Pauses returns all active pauses with wall-clock times, widest scope first.
func (s *Reader) Pauses() []policy.Pause {
	return shownPauses(&s.env.Pauses, s.env.Clock.Scale(), s.env.Clock.Now())
}

// ShowMetrics exports the status as metrics.
func (s *Reader) ShowMetrics(m *metrics.Metrics) {
	m.Show(func() iter.Seq[api.Autoscaler] { return s.AutoscalersAfter("") })
	m.ShowDiscovered(s.Discovered)
	m.ShowLost(func() map[string]bool { return records.LostParts(s.Losses()) })
	m.ShowBreakers(s.Breakers)
	m.ShowReceivers(s.env.Receivers.Counts)
}

// Breakers returns the state of each fleet's breaker. It omits fleets without a breaker.
func (s *Reader) Breakers() map[string]metrics.Breaker {
	shown := map[string]metrics.Breaker{}
	now := s.env.Clock.Now()
	active := s.env.Pauses.Active()
	for name, fleet := range s.scheduler.Current().Config.Fleets {
		if fleet.Breaker == nil {
			continue
		}
		pause, open := active[policy.Scope{Fleet: name, Breaker: true}]
		removals := s.env.Breakers.Within(name, fleet.Breaker.Window, now)
		shown[name] = metrics.Breaker{Open: open && !pause.Ended(now), Removed: removals.Sum()}
	}
	return shown
}
