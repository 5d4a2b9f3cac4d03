package daemon

import (
	"context"
	"fmt"
	"io"
	"iter"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/daemon/metrics"
	"github.com/hpad/hpad/daemon/state"
	"github.com/hpad/hpad/daemon/trouble"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/sources"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/clock"
)

// Autoscalers returns all autoscalers, by name.
func (s *status) Autoscalers() []api.Autoscaler { return slices.Collect(s.AutoscalersAfter("")) }

// AutoscalersAfter returns the autoscalers whose names come after a name, by name,
// each made when it is its turn.
func (s *status) AutoscalersAfter(name string) iter.Seq[api.Autoscaler] {
	return func(yield func(api.Autoscaler) bool) {
		g := s.current.Load()
		lost := lossText(s.losses(g))
		first, found := slices.BinarySearch(g.names, name)
		if found {
			first++
		}
		for _, name := range g.names[first:] {
			if !yield(s.view(g.autoscalers[name], lost)) {
				return
			}
		}
	}
}

// Autoscaler returns one autoscaler; false when there is none of that name.
func (s *status) Autoscaler(name string) (api.Autoscaler, bool) {
	a := s.current.Load().autoscalers[name]
	if a == nil {
		return api.Autoscaler{}, false
	}
	view := s.viewWith(a, lossText(s.losses(s.current.Load())), s.next(a))
	s.measureAges(a, &view)
	return view, true
}

// measureAges adds the ages of samples that exceed the sync period to the inputs of a view. Most
// sources state the time of the query in their results, so that only another query has them.
func (s *status) measureAges(a *autoscaler, view *api.Autoscaler) {
	def, ages := a.definition.Load(), a.published.Load().Ages
	for i := range min(len(view.Inputs), len(def.inputs)) { // a reload may come in between
		var age time.Duration
		if i < len(ages) {
			age = ages[i]
		}
		read := view.Decision != nil && i < len(view.Decision.Metrics) && view.Decision.Metrics[i].Error == ""
		if in := &def.inputs[i]; age == 0 && read && in.source != nil {
			age = in.source.Age(&sources.Query{Text: in.Query, MaxAge: in.MaxAge}, s.clock.Scale().Wall(s.clock.Now()))
		}
		if age > def.SyncPeriod {
			view.Inputs[i].SampleAgeSeconds = age.Round(time.Second).Seconds()
		}
	}
}

// view shows an autoscaler as lists do; lost says what of the state was lost.
func (s *status) view(a *autoscaler, lost string) api.Autoscaler { return s.viewWith(a, lost, nil) }

// AsConfigured returns what is shown of an autoscaler of a fleet of a kind by its configuration
// alone.
func AsConfigured(c *config.Autoscaler, kind string) api.Autoscaler {
	view := api.Autoscaler{
		Name: c.Name, Reference: c.Target.String(), Kind: kind, Spec: c.Spec,
		SyncPeriodSeconds: c.SyncPeriod.Seconds(), Mode: c.Mode, Labels: c.Labels,
		Inputs: make([]api.Input, len(c.Inputs)),
	}
	for i := range c.Inputs {
		in := &c.Inputs[i]
		view.Inputs[i] = api.Input{Source: in.Source, Query: in.Query, Select: in.Select.Values()}
	}
	return view
}

// viewWith shows an autoscaler, with what is next.
func (s *status) viewWith(a *autoscaler, lost string, next *policy.Next) api.Autoscaler {
	def, published := a.definition.Load(), a.published.Load()
	scale := s.clock.Scale()
	view := AsConfigured(def.Autoscaler, def.kind)
	view.Name, view.Created, view.Status = a.name, published.record.Created, published.record.Status
	view.Evaluation = api.Evaluation{
		Last:             published.record.Through,
		Next:             published.next(s.clock.Now(), def.SyncPeriod),
		DurationSeconds:  published.duration.Seconds(),
		Late:             a.late.Load(),
		Error:            published.err,
		Reason:           published.reason.String(),
		QuarantinedUntil: published.quarantine,
		Unevaluated:      a.overdue(time.Now()) > 0 || published.quarantined(s.clock.Now()),
		DryRun:           s.dryRun,
		StateLost:        lost,
		Hold:             published.Outcome.Hold,
		Since:            published.Since,
		Shortage:         published.shortage,
	}
	view.Next, view.Restore, view.Discovery = next, shownRestoration(published.record.Restore), s.labels.Of(a.name)
	view.Instances, view.Events = published.Instances, published.events
	view.Victims, view.VictimsError = published.Victims, published.Unchosen
	view.Pauses, _ = s.pauses.of(a.name, def.Target.Fleet, s.clock.Now(), scale)
	if published.Outcome.Kind == policy.Written {
		reached := published.Outcome.Reached
		view.Evaluation.Written = &reached
	}
	if published.Untold.Changes > 0 {
		view.Evaluation.Untold = &api.Untold{Changes: published.Untold.Changes, From: published.Untold.From}
	}
	if scaleIn := def.fleet.ScaleIn; scaleIn != nil {
		view.Drains = scaleIn.Draining(def.Target)
	}
	if published.decided() {
		decision := published.Decision // which shownBy changes
		view.Decision = &decision
	}
	return clock.Shown(scale, view)
}

// unevaluatedAfter is how many periods may pass without an evaluation.
const unevaluatedAfter = 3

// overdue returns for how long the autoscaler has not been evaluated, if that is
// for more than three periods, else 0.
func (a *autoscaler) overdue(now time.Time) time.Duration {
	if since := a.waits(now); since > unevaluatedAfter*a.definition.Load().SyncPeriod {
		return since
	}
	return 0
}

// waits returns for how long the autoscaler has not been evaluated: the first pass has its time
// from the start, or from a reload that added it.
func (a *autoscaler) waits(now time.Time) time.Duration {
	if last := a.published.Load().evaluated; !last.IsZero() {
		return now.Sub(last)
	}
	return now.Sub(a.added)
}

// Lateness returns for how long the autoscaler that waits longest should have been evaluated,
// by the second; 0 where none should.
func (s *status) Lateness() time.Duration {
	now, late := time.Now(), time.Duration(0)
	for _, a := range s.current.Load().autoscalers {
		late = max(late, a.waits(now)-a.definition.Load().SyncPeriod)
	}
	return late.Truncate(time.Second)
}

// schedulerSilence is how long the scheduler, which wakes every second, may be
// silent before the daemon is not healthy.
const schedulerSilence = 15 * time.Second

// Health reports whether the scheduler ticks, the autoscalers that are quarantined or were
// not evaluated for three periods, and pauses and modes that hold counts.
func (s *status) Health() api.Health {
	now := time.Now()
	g := s.current.Load()
	health := api.Health{
		Unevaluated: s.unevaluated(now), HeldBack: s.heldBack(g), Shortages: s.shortages(g), AllFailing: s.allFailing(g), RefusedReload: s.refused.Text(),
	}
	if last := s.lastTick.Load(); last != nil {
		health.LastTick = *last
		health.Healthy = now.Sub(*last) < schedulerSilence
	}
	return health
}

func (s *status) unevaluated(now time.Time) []api.Problem {
	var problems []api.Problem
	g := s.current.Load()
	for _, name := range g.names {
		a := g.autoscalers[name]
		published := a.published.Load()
		if a.overdue(now) <= 0 && !published.quarantined(s.clock.Now()) {
			continue
		}
		message := "not evaluated"
		if since := a.waits(now).Round(time.Second); since > 0 {
			message += " for " + since.String()
		}
		switch late := a.late.Load(); {
		case published.unevaluated != "":
			message += ": " + published.unevaluated
		case late > 0:
			message += fmt.Sprintf(": a pass does not end, %d ticks were late", late)
		}
		problems = append(problems, api.Problem{Subject: "autoscaler " + name, Message: message})
	}
	return problems
}

// Readiness returns whether the state can be written and every autoscaler had its first
// pass, and the present problems.
func (s *status) Readiness() api.Readiness {
	g := s.current.Load()
	readiness := api.Readiness{Ready: s.lastTick.Load() != nil}
	if text := s.unwritten.Text(); text != "" {
		readiness.Ready, readiness.Unwritten = false, true
		readiness.Problems = append(readiness.Problems, api.Problem{Subject: "state", Message: text})
	}
	if text := lossText(s.losses(s.current.Load())); text != "" {
		readiness.Problems = append(readiness.Problems, api.Problem{Subject: "state", Message: text})
	}
	if text := s.refused.Text(); text != "" {
		readiness.Problems = append(readiness.Problems, api.Problem{Subject: "configuration", Message: text})
	}
	for _, name := range slices.Sorted(maps.Keys(g.Fleets)) {
		h := g.Fleets[name]
		readiness.Problems = append(readiness.Problems, adapterProblems("fleet "+name, &h.Problem, h.Inner)...)
		if text := h.Undiscovered.Text(); text != "" {
			readiness.Problems = append(readiness.Problems, api.Problem{Subject: "fleet " + name, Message: text})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(g.Sources)) {
		h := g.Sources[name]
		readiness.Problems = append(readiness.Problems, adapterProblems("source "+name, &h.Problem, h.Source)...)
	}
	readiness.Problems = append(readiness.Problems, s.offProblems(g)...)
	for _, view := range s.Discovered() {
		if view.Problem != "" {
			readiness.Problems = append(readiness.Problems, api.Problem{Subject: "target " + view.Reference, Message: view.Problem})
		}
	}
	for _, name := range g.names {
		published := g.autoscalers[name].published.Load()
		if published.evaluated.IsZero() && published.unevaluated == "" {
			readiness.Ready = false
		}
		if published.err != "" {
			readiness.Problems = append(readiness.Problems, api.Problem{Subject: "autoscaler " + name, Message: published.err})
		}
		readiness.Problems = append(readiness.Problems, failingInstances(g.autoscalers[name], published)...)
	}
	readiness.Problems = append(readiness.Problems, s.shortages(g)...)
	return readiness
}

// failingInstances returns why instances of an autoscaler's target cannot start or end by
// themselves, in the words of its platform.
func failingInstances(a *autoscaler, published *publication) []api.Problem {
	var problems []api.Problem
	for _, condition := range failingConditions(a.definition.Load().kind, published.record.Status.Conditions) {
		problems = append(problems, api.Problem{Subject: "autoscaler " + a.name, Message: string(condition.Type) + ": " + condition.Message})
	}
	return problems
}

// Discovered returns the targets that fleets found by their labels, in order.
func (s *status) Discovered() []api.Discovered { return s.labels.Targets() }

// adapterProblems returns what is wrong with a fleet or a source now.
func adapterProblems(subject string, p *trouble.Problem, adapter any) []api.Problem {
	var problems []api.Problem
	if text := p.Text(); text != "" {
		problems = append(problems, api.Problem{Subject: subject, Message: text})
	}
	if troubled, ok := adapter.(targets.Troubled); ok {
		for _, text := range troubled.Problems() {
			problems = append(problems, api.Problem{Subject: subject, Message: text})
		}
	}
	return problems
}

// Config returns the configuration in force as TOML, without secrets.
func (s *status) Config() string { return s.current.Load().config.Redacted() }

// AutoscalerConfig returns the table of an autoscaler in force as TOML, without secrets;
// empty when there is none of that name.
func (s *status) AutoscalerConfig(name string) string {
	a := s.current.Load().autoscalers[name]
	if a == nil {
		return ""
	}
	return a.definition.Load().Redacted(name)
}

// ConfigFile returns the absolute path of its main file; empty when it was read from
// none.
func (s *status) ConfigFile() string {
	files := s.current.Load().config.Files
	if len(files) == 0 {
		return ""
	}
	path, err := filepath.Abs(files[0])
	if err != nil {
		return "" // nobody can say where hpad was started
	}
	return path
}

// statusLine is what "systemctl status" shows.
func (s *status) statusLine() string {
	g := s.current.Load()
	failing, off := 0, 0
	for _, a := range g.autoscalers {
		published := a.published.Load()
		if published.err != "" {
			failing++
		}
		if published.record.Status.Disabled() || a.definition.Load().settings.Mode == policy.ModeOff {
			off++
		}
	}
	line := fmt.Sprintf("%d autoscalers, %d failing", len(g.names), failing)
	if len(g.names) == 1 {
		line = fmt.Sprintf("1 autoscaler, %d failing", failing)
	}
	if off > 0 {
		line += fmt.Sprintf(", %d off", off)
	}
	switch pauses := len(s.Pauses()); pauses {
	case 0:
	case 1:
		line += ", 1 pause"
	default:
		line += fmt.Sprintf(", %d pauses", pauses)
	}
	if s.dryRun {
		line += ", dry run"
	}
	return line
}

// History returns what the store has of an autoscaler's history, for the API. What
// is being written is not there yet.
func (s *status) History(ctx context.Context, name string, from, to time.Time, limit int) ([]api.Recorded, error) {
	scale := s.clock.Scale()
	entries, err := s.store.History(ctx, name, scale.Steady(from), scale.Steady(to), limit)
	if err != nil {
		return nil, err
	}
	return Recorded(entries, scale), nil
}

// Recorded returns entries of the history as the API shows them, with their times by a
// scale.
func Recorded(entries []state.Entry, scale *clock.Scale) []api.Recorded {
	recorded := make([]api.Recorded, len(entries))
	for i, entry := range entries {
		recorded[i] = api.Recorded{
			Autoscaler: entry.Autoscaler, Time: scale.Wall(entry.Time), Written: entry.Written, Events: entry.Events,
			Victims: entry.Victims, Error: entry.Error, Decision: clock.Shown(scale, entry.Decision),
			Hold: entry.Hold, DryRun: entry.DryRun, Reason: entry.Reason, Since: scale.Wall(entry.Since), Reload: entry.Reload,
		}
		if entry.Untold != nil {
			recorded[i].Untold = &api.Untold{Changes: entry.Untold.Changes, From: scale.Wall(entry.Untold.From)}
		}
	}
	return recorded
}

// ExportState writes the state, as the store does, for the API.
func (s *status) ExportState(ctx context.Context, to io.Writer, history bool) error {
	return s.store.Export(ctx, to, history)
}

// VerifyHistory makes recorded decisions again, as the store does, for the API.
func (s *status) VerifyHistory(ctx context.Context, name string, from, to time.Time) (api.Verification, error) {
	scale := s.clock.Scale()
	found, err := s.store.Verify(ctx, name, scale.Steady(from), scale.Steady(to))
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

// offProblems are what keeps autoscalers from being scaled although nothing fails.
func (s *status) offProblems(g *generation) []api.Problem {
	var problems []api.Problem
	if s.dryRun {
		problems = append(problems, api.Problem{Subject: "daemon", Message: api.DryRun})
	}
	for _, name := range g.names {
		if g.autoscalers[name].published.Load().record.Status.Disabled() {
			problems = append(problems, api.Problem{Subject: "autoscaler " + name, Message: api.Disabled})
		}
	}
	return append(problems, s.heldBack(g)...)
}

// heldBack are the pauses in force and the autoscalers whose mode is not on.
func (s *status) heldBack(g *generation) []api.Problem {
	var held []api.Problem
	for _, pause := range s.Pauses() {
		subject := "daemon"
		switch {
		case pause.Autoscaler != "":
			subject = "autoscaler " + pause.Autoscaler
		case pause.Fleet != "":
			subject = "fleet " + pause.Fleet
		}
		held = append(held, api.Problem{Subject: subject, Message: pause.Message})
	}
	for _, name := range g.names {
		if text := api.ModeText(g.autoscalers[name].definition.Load().settings.Mode); text != "" {
			held = append(held, api.Problem{Subject: "autoscaler " + name, Message: text})
		}
	}
	return held
}

// lostParts reports of each part of the state whether it was lost lately.
func (s *status) lostParts() map[string]bool { return lostParts(s.losses(s.current.Load())) }

// Pauses returns all pauses in force, the widest first, with times and words by the wall
// clock.
func (s *status) Pauses() []policy.Pause {
	scale, now := s.clock.Scale(), s.clock.Now()
	var all []policy.Pause
	for _, pause := range s.pauses.table.Load().inForce {
		if !pause.Ended(now) {
			pause.Message = pauseText(&pause, scale)
			all = append(all, clock.Shown(scale, pause))
		}
	}
	slices.SortFunc(all, ComparePauses)
	return all
}

// shownBreakers returns how the breakers of all fleets stand, for the metrics.
func (s *status) shownBreakers() map[string]metrics.Breaker {
	shown := map[string]metrics.Breaker{}
	now := s.clock.Now()
	inForce := s.pauses.table.Load().inForce
	s.breakers.mu.Lock()
	defer s.breakers.mu.Unlock()
	for name, fleet := range s.current.Load().config.Fleets {
		if fleet.Breaker == nil {
			continue
		}
		pause, open := inForce[policy.Scope{Fleet: name, Breaker: true}]
		removals := s.breakers.removals[name].Within(fleet.Breaker.Window, now)
		shown[name] = metrics.Breaker{Open: open && !pause.Ended(now), Removed: removals.Sum()}
	}
	return shown
}

// Graph returns what drawings show of an autoscaler, from one time up to another. The
// error is an api.ErrUnknown where nothing is kept.
func (s *status) Graph(_ context.Context, name string, from, to time.Time) (api.Graph, error) {
	if s.graph == nil {
		return api.Graph{}, fmt.Errorf("no points are kept for drawings, daemon.page is false: %w", api.ErrUnknown)
	}
	scale := s.clock.Scale()
	points, err := s.graph.Read(name, scale.Steady(from), scale.Steady(to))
	if err != nil {
		return api.Graph{}, err
	}
	shown := api.Graph{Time: make([]int64, len(points.Time)), Replicas: points.Replicas, Desired: points.Desired, Min: points.Min, Max: points.Max}
	for i, at := range points.Time {
		shown.Time[i] = scale.Wall(at).Unix()
	}
	for _, m := range points.Metrics {
		shown.Metrics = append(shown.Metrics, api.GraphMetric{Name: m.Name, Proposals: m.Proposals, Values: m.Values})
	}
	return shown, nil
}
