package round

import (
	"slices"
	"time"

	"github.com/hpad/hpad/daemon/metrics"
	"github.com/hpad/hpad/daemon/observe"
	"github.com/hpad/hpad/daemon/problem"
	"github.com/hpad/hpad/daemon/ticks"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/simulate"
	"github.com/hpad/hpad/targets"
)

// steady is a result that later passes repeat as long as their inputs are the same, which saves most
// of the cost of these passes.
type steady struct {
	result     *Result
	definition *Definition
	instances  []policy.Instance
	metrics    []policy.Reading
	// tick is the recording of the pass, without a user's request.
	tick simulate.Tick
	// until is when a complete pass is due.
	until time.Time
}

// steadyFor is how long passes repeat a result. The next pass is complete, so that it can drop the state
// of problems that ended.
const steadyFor = 10 * time.Minute

// steady returns the result of the pass with its inputs, or nil if later passes cannot repeat it. The
// store must be able to derive its record.
func (p *pass) steady() *steady {
	after, decision, instances := p.after, &p.after.Decision, p.after.Instances
	if after.Outcome.Kind != policy.NotWritten || after.Err != "" || after.suspect || instances.Unready+instances.Pending > 0 ||
		decision.Foreign != nil || decision.Restore != nil || len(decision.Pauses) > 0 || !p.autoscaler.following.isQuiet() {
		return nil
	}
	tick := simulate.Record(p.inputs, decision, policy.Outcome{}, p.env.DryRun, false)
	tick.Command = nil
	return &steady{
		result: after.Result, definition: p.definition, instances: p.inputs.Observation.Instances, metrics: p.inputs.Observation.Metrics,
		tick: tick, until: p.now().Add(steadyFor),
	}
}

// dedupers returns the problems that are reported once.
func (f *following) dedupers() [5]*problem.Deduper {
	return [...]*problem.Deduper{&f.reasons, &f.obstacle, &f.failing, &f.instances, &f.shortage}
}

// isQuiet reports whether there is no problem and everything has been reported, so that another pass
// with the same result has nothing to report.
func (f *following) isQuiet() bool {
	for i, d := range f.dedupers() {
		if !d.IsReported() || i > 0 && d.Cause() != "" {
			return false
		}
	}
	return f.unmeasured.IsZero() && !f.panicked
}

// repeats reports whether the pass repeats the last result, and then publishes it. A pass is always
// complete if the target has endpoints, or if its readings are in use.
func (p *pass) repeats() bool {
	a, def, now := p.autoscaler, p.definition, p.now()
	last := a.steady
	if last == nil || last.definition != def || def.Endpoints != nil || a.followed.Load() || !now.Before(last.until) {
		return false
	}
	pauses, _ := p.env.Pauses.Of(a.Name, def.Target.Fleet, now, p.env.Clock.Scale())
	reading, since, err := p.reading()
	if err != nil || len(pauses) > 0 || !last.read(&reading) {
		return false
	}
	target := observe.Target{Ref: def.Target, Reading: &reading, Strict: def.strict, Scale: p.round.scale, Observed: p.env.Clock.Now()}
	for i := range last.metrics {
		if metric := p.metric(i, &target); !sameReading(&metric, &last.metrics[i]) {
			return false
		}
	}
	decision := &last.result.Decision
	next := &repetition{of: last.result, through: now, evaluated: p.round.started, duration: time.Since(p.round.started)}
	next.recommendations = policy.Remember(def.rules, a.recommendations(), policy.Recommendation{Replicas: decision.CurrentReplicas, Time: now})
	if !a.repeat(next, def.SyncPeriod) {
		return false
	}
	a.known = since
	p.countRemovals(decision)
	last.tick.Time = now
	p.addDataPoint(decision, func() simulate.Tick { return last.tick })
	p.logEvaluated(last.result)
	p.env.Metrics.Reason(last.result.Reason)
	a.metrics.Pass(decision, metrics.NoError, next.duration)
	if p.env.Decided != nil {
		p.env.Decided(a.Name)
	}
	return true
}

// read reports whether a reading has the counts and instances of the steady result.
func (s *steady) read(reading *targets.Reading) bool {
	decision := &s.result.Decision
	return reading.SpecReplicas == decision.CurrentReplicas && reading.StatusReplicas == decision.StatusReplicas &&
		reading.Hold == nil && len(reading.Notices) == 0 &&
		(s.definition.strict || sameBound(reading.Min, decision.PlatformMin) && sameBound(reading.Max, decision.PlatformMax)) &&
		sameInstances(reading.Instances, s.instances)
}

func sameBound(a, b *int32) bool { return a == b || a != nil && b != nil && *a == *b }

// sameInstances compares the fields that affect passes without a metric per instance. Most fleets
// return the same slice until an instance changes.
func sameInstances(a, b []policy.Instance) bool {
	if len(a) != len(b) || len(a) > 0 && &a[0] == &b[0] {
		return len(a) == len(b)
	}
	for i := range a {
		if a, b := &a[i], &b[i]; a.ID != b.ID || a.Phase != b.Phase || a.Readiness != b.Readiness || a.Deleting != b.Deleting {
			return false
		}
	}
	return true
}

// sameReading compares readings of Object and External metrics.
func sameReading(a, b *policy.Reading) bool {
	return a.Error == "" && len(a.Warnings) == 0 && a.Partial == "" && a.Empty == b.Empty && slices.Equal(a.ValuesMilli, b.ValuesMilli) &&
		(a.ValueMilli == b.ValueMilli || a.ValueMilli != nil && b.ValueMilli != nil && *a.ValueMilli == *b.ValueMilli)
}

// repetition is the last pass that repeated a result.
type repetition struct {
	of                 *Result
	through, evaluated time.Time
	duration           time.Duration
	recommendations    []policy.Recommendation
}

// result returns the result of the repeated pass.
func (r *repetition) result() *Result {
	result := *r.of
	result.Evaluated, result.Duration = r.evaluated, r.duration
	result.Record.Through, result.Decision.Time = r.through, r.through
	result.Record.Memory.Recommendations = r.recommendations
	return &result
}

// Last returns the result of the last pass.
func (a *Autoscaler) Last() *Result {
	published := a.published.Load()
	if last := a.repetition.Load(); last != nil && last.of == published {
		return last.result()
	}
	return published
}

// recommendations returns the recommendations after the last pass.
func (a *Autoscaler) recommendations() []policy.Recommendation {
	if last := a.repetition.Load(); last != nil && last.of == a.published.Load() {
		return last.recommendations
	}
	return a.published.Load().Record.Memory.Recommendations
}

// repeat publishes a repetition, unless the published result has changed, a request or an event waits
// for a complete pass, or the store could not derive the record.
func (a *Autoscaler) repeat(next *repetition, period time.Duration) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	through := next.of.Record.Through
	if last := a.repetition.Load(); last != nil && last.of == next.of {
		through = last.through
	}
	if a.published.Load() != next.of || a.removed.Load() || a.gap || a.request != nil || len(a.addedEvents) > 0 || !next.through.Equal(ticks.Next(through, period)) {
		return false
	}
	a.repetition.Store(next)
	return true
}

// completed publishes the result of the last repetition like the result of a complete pass, and
// returns it.
func (a *Autoscaler) completed() *Result {
	if a.repetition.Load() == nil {
		return a.published.Load()
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	last := a.Last()
	a.published.Store(last)
	a.repetition.Store(nil)
	return last
}
