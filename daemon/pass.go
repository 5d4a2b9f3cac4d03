package daemon

import (
	"crypto/rand"
	"errors"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/daemon/explain"
	"github.com/hpad/hpad/daemon/notify"
	"github.com/hpad/hpad/daemon/observe"
	"github.com/hpad/hpad/daemon/reason"
	"github.com/hpad/hpad/daemon/redact"
	"github.com/hpad/hpad/daemon/state"
	"github.com/hpad/hpad/daemon/trouble"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/clock"
)

// evaluate observes and decides once the reads of the pass are there. A decision
// that changes the count is carried out by scale, in a goroutine of its own; any
// other pass ends here, and is recorded once the recording that it returns is, if any.
func (p *pass) evaluate() *recording {
	if p.runContext.Err() != nil || p.autoscaler.removed.Load() { // what was read may have been cut off
		p.metrics.Reason(reason.Abandoned)
		p.end()
		return nil
	}
	before := p.autoscaler.published.Load()
	after := &result{publication: publication{record: recordUnder(&before.record, p.definition, p.now)}}
	p.after = after
	err := trouble.Guard(func() error {
		p.decide()
		return nil
	})
	switch {
	case err != nil:
		p.panicked(err)
		p.end()
	case after.Decision.Write && !p.dryRun:
		p.vote(&after.Decision)
		p.actors.Go(p.scale)
	default:
		p.vote(&after.Decision)
		recording := p.conclude(policy.Outcome{})
		p.end()
		return recording
	}
	return nil
}

// recordUnder returns the record that a pass at now begins with: the one that the pass
// before left, for a definition. Under another target nothing is known of the count.
func recordUnder(before *state.Record, def *definition, now time.Time) state.Record {
	record := *before
	if record.Target != def.Target {
		record.Intention, record.Left, record.Restore, record.Seen, record.Doubts = nil, nil, nil, nil, 0
	}
	record.Through, record.Replay = now, nil
	record.Target, record.Labels, record.Fingerprint = def.Target, def.Labels, def.fingerprint
	return record
}

// decide fills in what the pass saw and decided.
func (p *pass) decide() {
	a, def, after := p.autoscaler, p.definition, p.after
	record := &after.record
	if steps := p.steps.Load(); a.stepsTold != steps.count {
		a.stepsTold = steps.count
		p.after.besides = []policy.Event{steps.event}
	}
	reading := new(targets.Reading)
	observation := p.observe(reading)
	p.leave(p.index)
	after.Instances = countInstances(observation.Instances)
	record.Restore = restorationUnder(record.Restore, def.Autoscaler)
	if p.after.doubted = p.doubt(&observation, reading); !p.after.doubted {
		p.after.besides = append(p.after.besides, p.settleIntention(&observation)...)
		p.findForeign(&observation)
	}
	observation.Restore = shownRestoration(record.Restore)
	p.takeCommand(&observation)
	observation.Pauses, observation.Resumed = p.pauses.of(a.name, def.Target.Fleet, p.now, p.clock.Scale())
	if use := def.cpuUse(&observation); use != nil {
		a.cpuUse.Store(use)
	}
	p.inputs = &policy.Inputs{
		Settings: def.settings, Spec: def.Spec, Memory: record.Memory, Status: record.Status, Observation: observation, Now: p.now,
	}
	after.Decision = p.inputs.Decide()
	after.Victims, after.Unchosen = def.chooseVictims(p.actContext, &after.Decision, reading)
	after.version = reading.Version
}

// observe fills in the reading of the target, and gathers what the reads of the pass say
// into what policy decides on. A failed read is part of the observation, never an abort.
func (p *pass) observe(reading *targets.Reading) policy.Observation {
	a, def := p.autoscaler, p.definition
	observed := p.clock.Now()
	found, since, err := p.reading(p.index)
	*reading = found
	if err != nil {
		p.after.cause = err
		return policy.Observation{
			ReadError: trouble.Shorten(redact.Text(err.Error())), ReadReason: targets.Reason(err), Unscalable: errors.Is(err, targets.ErrUnscalable),
		}
	}
	a.known = since
	instances := a.dated(reading.Instances, p.reads.scale, observed)
	observation := policy.Observation{
		SpecReplicas:   reading.SpecReplicas,
		StatusReplicas: reading.StatusReplicas,
		Hold:           shortHold(reading.Hold),
		Notices:        shortNotices(reading.Notices),
		Instances:      withRequests(instances, def.Requests),
	}
	if !def.strict { // upstream's targets have no bounds of their own
		observation.PlatformMin, observation.PlatformMax = reading.Min, reading.Max
	}
	if def.settings.Mode == policy.ModeOff { // and no metric was read
		return observation
	}
	target := observe.Target{Ref: def.Target, Reading: reading, Strict: def.strict, Scale: p.reads.scale, Observed: observed}
	observation.Metrics = make([]policy.Reading, len(def.Spec.Metrics))
	for i := range observation.Metrics {
		observation.Metrics[i] = p.metric(i, &target)
	}
	return observation
}

// metric returns the reading of one metric of the spec.
func (p *pass) metric(i int, target *observe.Target) policy.Reading {
	metric, in := &p.definition.Spec.Metrics[i], &p.definition.inputs[i]
	var reading policy.Reading
	var answer *observe.Answer
	var err error
	if in.source == nil {
		var samples targets.Samples
		if samples, err = p.sampled(p.index); err == nil {
			reading, err = target.Sampled(metric, &in.Input, samples)
		}
	} else {
		if answer, err = p.queried(p.index, i); err == nil {
			reading, err = target.Queried(metric, &in.Input, answer)
		}
	}
	if len(reading.Warnings) > 0 {
		reading.Partial = redact.Text(reading.Partial)
		reading.Warnings = slices.Clone(reading.Warnings) // which others read too
		for i, warning := range reading.Warnings {
			reading.Warnings[i] = redact.Text(warning)
		}
	}
	if err != nil {
		// A reading that failed in part is a failed reading: what was found
		// before the error is not decided on.
		return policy.Reading{Error: trouble.Shorten(redact.Text(err.Error())), Warnings: reading.Warnings, Partial: reading.Partial}
	}
	if age := target.Age(&reading, answer); age > p.definition.SyncPeriod {
		if p.after.Ages == nil {
			p.after.Ages = make([]time.Duration, len(p.definition.inputs))
		}
		p.after.Ages[i] = age
	}
	return reading
}

// doubt holds the target while its reading is one that the guard does not
// believe: some count collapsed since the reading before, and hpad did not write
// it. The caller then learns nothing from the reading. What is believed in the
// end, because enough readings agreed, is an ordinary reading.
func (p *pass) doubt(observation *policy.Observation, reading *targets.Reading) bool {
	def, record := p.definition, &p.after.record
	if def.strict || def.Guard.Confirm == 0 || observation.ReadError != "" {
		return false
	}
	seen, what := countsOf(reading), ""
	if before := record.Seen; before != nil {
		what = collapsed(before, def.Guard, wanted(record, before.Spec), seen)
	}
	if what == "" || record.Doubts >= def.Guard.Confirm {
		record.Doubts, record.Seen = 0, keep(record.Seen, seen)
		return false
	}
	record.Doubts++
	p.metrics.Doubted(p.autoscaler.name)
	observation.Hold = doubtful(def.Guard, what, record.Doubts)
	return true
}

// settleIntention finds out from the reading what became of a write whose
// answer nobody has: it was made if the count is the intended one, it was not if
// the count is the old one, and otherwise it was made and then changed by
// somebody else.
func (p *pass) settleIntention(observation *policy.Observation) []policy.Event {
	def, record := p.definition, &p.after.record
	intention := record.Intention
	if intention == nil || observation.ReadError != "" {
		return nil
	}
	record.Intention = nil
	if observation.SpecReplicas == intention.From {
		if intention.Reason != policy.Commanded { // whose removals no breaker counts
			p.returnRemoved(intention.Time, int64(intention.From)-int64(intention.To))
		}
		return nil
	}
	record.Left = &intention.To
	if intention.Reason == policy.Commanded { // a person's count takes the place of what was to be put back
		record.Restore = nil
	}
	settlement := policy.SettleLate(def.settings, def.Spec, record.Memory, record.Status, intention.Intention, p.now)
	record.Memory, record.Status = settlement.Memory, settlement.Status
	return settlement.Events
}

// findForeign compares the count with the one that the last pass left. A count that
// somebody else changed is to be put back from then on, where the definition asks for
// it. Who raises a count of 0, which had switched the autoscaler off, switches it on:
// there is nothing to put back then.
func (p *pass) findForeign(observation *policy.Observation) {
	def, record := p.definition, &p.after.record
	if record.Left == nil || observation.ReadError != "" || *record.Left == observation.SpecReplicas {
		return
	}
	observation.Foreign = &policy.ForeignChange{From: *record.Left}
	p.metrics.Foreign(p.autoscaler.name)
	if def.OnForeignChange == config.RestoreForeignChange && !record.Status.Disabled() {
		record.Restore = restoreForeign(record.Restore, def.Autoscaler, *record.Left, observation.SpecReplicas, p.now)
	}
}

// scale carries out what the pass decided: it commits the intention, writes,
// settles and publishes what became of it, and commits that.
func (p *pass) scale() {
	defer p.end()
	a, def, decision := p.autoscaler, p.definition, &p.after.Decision
	p.awaitBallot()
	p.after.record.Intention = p.intention(decision, p.after.version)
	intent := p.after.record
	intent.Memory = decision.Memory
	intended := a.intend(p.recorder, &intent)
	if intended == nil { // the autoscaler was removed
		return
	}
	unwritten := intended.wait(a.name)
	if decision.Command == nil && p.pausedMeanwhile(decision) {
		p.after.record.Intention = nil
		p.returnRemoval(policy.Outcome{})
		if recording := p.conclude(policy.Outcome{}); recording != nil {
			recording.wait()
		}
		return
	}
	until, err := p.mayAct(unwritten)
	if err == nil {
		err = order{
			fleet: def.fleet, target: def.Target, from: decision.CurrentReplicas, to: decision.DesiredReplicas,
			version: p.after.version, reason: decision.Message, strict: def.strict || decision.Command != nil, period: def.SyncPeriod, metrics: p.metrics,
			until: until,
		}.write(p.actContext)
		a.known = time.Now()
	}
	outcome := outcomeOf(decision, err)
	p.after.cause = err
	if outcome.Kind != policy.WriteFailed || !errors.Is(err, targets.ErrUnknownOutcome) {
		p.after.record.Intention = nil // it is known what became of it
		p.returnRemoval(outcome)
	}
	if _, panicked := errors.AsType[*trouble.Panic](err); panicked {
		p.panicked(err)
		return
	}
	// A write that was lost to somebody else, which the next pass finds, is evaluated
	// again at once, but not twice in a row.
	_, foreign := errors.AsType[*foreignError](err)
	if a.retried = foreign && !a.retried; a.retried {
		a.askAgain()
	}
	if recording := p.conclude(outcome); recording != nil {
		recording.wait()
	}
}

// intention is what the store is told before a write.
func (p *pass) intention(decision *policy.Decision, version string) *state.Intention {
	return &state.Intention{
		Intention: policy.Intention{
			From: decision.CurrentReplicas, To: decision.DesiredReplicas, Time: p.now,
			Reason: decision.Reason, Message: decision.Message,
		},
		ID:      rand.Text(),
		Version: version,
	}
}

// conclude settles the pass, publishes what it found, and has recorded what the
// store does not know; nil when there is nothing to record.
func (p *pass) conclude(outcome policy.Outcome) *recording {
	a, def, after := p.autoscaler, p.definition, p.after
	record := &after.record
	decision := &after.Decision
	var settlement policy.Settlement
	err := trouble.Guard(func() error {
		settlement = policy.Settle(*decision, outcome, p.now)
		return nil
	})
	if err != nil {
		p.panicked(err)
		return nil
	}
	before := a.published.Load()
	a.panics = 0
	p.remember(before, &settlement, outcome)
	*decision = decision.Explained()
	events := append(p.after.besides, p.boundsChanged(decision)...)
	p.tellInstances(before)
	events = append(events, p.followShortage(before)...)
	after.newlyHeld = isNewlyHeld(before, decision)
	settled := after.newlyHeld || len(events) > 0 || decision.Foreign != nil || decision.Command != nil || outcome.Kind == policy.Written
	events = append(events, settlement.Events...)

	p.judge(outcome, settlement)
	entries := p.withInputs(historyOf(a.name, &a.following, before, after, settled, p.dryRun, events, settlement.Error))
	if now := hindranceRecord(a.following.hindrance); !sameHindrance(record.Hindrance, now) {
		record.Hindrance = now
	}
	after.events, after.recalled = addEvents(before.events, events, p.now), before.recalled
	after.evaluated, after.duration = p.started, time.Since(p.started)
	news := p.failureNews(after)
	commit, ok := a.publish(p.recorder, after, def.SyncPeriod, entries)
	if !ok {
		p.metrics.Reason(reason.Abandoned)
		return nil
	}
	p.draw(&after.Decision)
	p.report(before, after, news)
	p.tellPass(a.name, def.Target, after, len(entries) > 0, news != nil)
	var kept *recording
	if commit != nil {
		kept = &recording{autoscaler: a, now: p.now, before: before, settlement: settlement, commit: commit}
	}
	p.answer(outcome, kept)
	return kept
}

// remember puts into the record what the pass leaves for the next one.
func (p *pass) remember(before *publication, settlement *policy.Settlement, outcome policy.Outcome) {
	record, decision := &p.after.record, &p.after.Decision
	record.Status = settlement.Status
	if p.after.doubted { // nothing that the reading led to is remembered
		return
	}
	record.Memory = settlement.Memory
	leave(record, decision, outcome)
	record.Restore = restorationAfter(record.Restore, decision, outcome, p.dryRun)
	if count := decision.Recommendation; count != nil {
		record.Replay = keep(before.record.Replay, state.Replay{Replicas: *count, Period: p.definition.SyncPeriod, Rules: p.definition.rules})
	}
}

// withInputs returns entries of the pass with the inputs of its decision.
func (p *pass) withInputs(entries []state.Entry) []state.Entry {
	for i := range entries {
		entries[i].Engine, entries[i].Inputs = policy.Engine, p.inputs
	}
	return entries
}

// judge fills in how the pass ends: its outcome, its error, and its reason.
func (p *pass) judge(outcome policy.Outcome, settlement policy.Settlement) {
	after := p.after
	if !sleeps(&after.Decision, settlement) {
		after.failed, after.err = settlement.Error, settlement.Error
	}
	after.Outcome, after.blind = outcome, p.isBlind(&after.Decision, outcome)
	_, lost := errors.AsType[*foreignError](after.cause)
	after.reason = reason.Of(reason.Pass{
		Decision: &after.Decision, Outcome: outcome, Err: after.cause,
		Doubted: after.doubted, Lost: lost, Fenced: errors.Is(after.cause, errNotOwner), Failed: after.err != "",
	})
}

// report logs and counts the pass.
func (p *pass) report(before *publication, after *result, news []zap.Field) {
	a := p.autoscaler
	p.reportPass(a.name, p.definition.Target, before, after, news)
	if after.Outcome.Kind == policy.Written {
		a.metrics.Rescaled(after.Decision.CurrentReplicas, after.Outcome.Reached)
	}
	p.metrics.Reason(after.reason)
	a.metrics.Pass(&after.Decision, after.errorKind(!a.definition.Load().fleet.Problem.Exists()), after.duration)
	if p.decided != nil {
		p.decided(a.name)
	}
}

// boundsChanged finds what was changed of min and max since the last pass, and returns
// an event for that.
func (p *pass) boundsChanged(decision *policy.Decision) []policy.Event {
	a := p.autoscaler
	now := state.Bounds{Min: decision.MinReplicas, Max: decision.MaxReplicas}
	record := &p.after.record
	change := boundsChange(record.Bounds, now)
	record.Bounds = keep(record.Bounds, now)
	if change == "" {
		return nil
	}
	p.log.Info("bounds changed", zap.String("autoscaler", a.name), zap.Stringer("target", p.definition.Target),
		zap.Int32("min", now.Min), zap.Int32("max", now.Max), zap.String("change", change))
	return []policy.Event{{Kind: policy.NormalEvent, Reason: api.BoundsChanged, Message: change}}
}

// isBlind reports whether all that failed in a pass is that its fleet, the fleet's
// samples or its sources could not be read at all, which is told once for all of those
// who read them.
func (p *pass) isBlind(decision *policy.Decision, outcome policy.Outcome) bool {
	if p.isFleetOut(p.index) {
		return true
	}
	if outcome.Error != "" {
		return false
	}
	failed, unsure := false, false
	for i := range decision.Metrics {
		if decision.Metrics[i].Error == "" {
			continue
		}
		out, sure := p.isOut(p.index, i)
		if !out && sure {
			return false
		}
		failed, unsure = true, unsure || !sure
	}
	// What the source has yet to show is left to the next pass, once.
	again := p.autoscaler.unsure && unsure
	p.autoscaler.unsure = unsure
	return failed && !again
}

// failureNews follows why passes fail, and returns what a line of the log has
// besides the error when they fail, fail for another cause, or work again; nil when
// that is no news. A fleet or a source that cannot be read has its own line, which is
// not repeated for each autoscaler.
func (p *pass) failureNews(after *result) []zap.Field {
	a := p.autoscaler
	if after.blind {
		if !a.published.Load().decided() || !a.unmeasured.IsZero() {
			a.unmeasured = p.now // nothing was sampled meanwhile
		}
		return nil
	}
	unmeasured := early(&after.Decision) && after.Outcome.Error == ""
	if unmeasured && !a.published.Load().decided() {
		a.unmeasured = p.now
		p.log.Info("not measured yet", zap.String("autoscaler", a.name), zap.Stringer("target", p.definition.Target), zap.String("err", after.failed))
	}
	if unmeasured && p.now.Sub(a.unmeasured) < measuredWithin {
		return nil
	}
	a.unmeasured = time.Time{}
	cause := failureOf(&after.Decision, after.Outcome, after.failed)
	news, flapped := a.following.failing.Follow(cause, after.record.Through, false)
	if a.panicked && cause == "" { // which has its own line
		news, a.panicked = true, false
	}
	if !news {
		return nil
	}
	return append([]zap.Field{zap.String("autoscaler", a.name), zap.Stringer("target", p.definition.Target)},
		a.following.failing.Fields(flapped, p.clock.Scale().Wall)...)
}

// measuredWithin is how long after the first pass every fleet has read its instances
// twice, if they run: their resource_interval is 15 s where nothing else is configured.
const measuredWithin = time.Minute

// early reports whether a pass failed for nothing but that a fleet has not sampled its
// instances yet.
func early(decision *policy.Decision) bool {
	failed := false
	for i := range decision.Metrics {
		result := &decision.Metrics[i]
		if result.Error != "" && !observe.Early(result) {
			return false
		}
		failed = failed || result.Error != ""
	}
	return failed
}

// panicked publishes that the pass panicked. Nothing it found is kept but the events
// that came up before; after repeats the autoscaler is left alone for a while.
func (p *pass) panicked(err error) {
	a := p.autoscaler
	a.panics++
	news := !a.panicked
	after := *a.published.Load()
	after.unevaluated, after.err = err.Error(), err.Error()
	after.quarantine = time.Time{} // one of earlier panics is over
	a.panicked, after.reason = true, reason.Panicked
	after.events = addEvents(after.events, p.after.besides, p.now)
	if a.panics >= panicsAllowed {
		a.panics = 0
		after.quarantine = p.now.Add(quarantine)
		after.unevaluated, news = "quarantined after "+err.Error(), true
	}
	a.publishPanic(p.recorder, &after)
	if news {
		p.tellPanic(&after)
	}
	p.metrics.Reason(reason.Panicked)
	p.reportPanic(a.name, err, after.quarantine)
}

// tellPanic tells the history and the receivers of notifications of a panic, or of the
// quarantine after several.
func (p *pass) tellPanic(after *publication) {
	a, current := p.autoscaler, after.record.Status.CurrentReplicas
	decision := policy.Decision{
		Time: p.now, CurrentReplicas: current, DesiredReplicas: current,
		Message: "the pass panicked, which is a bug of hpad", Error: after.unevaluated,
	}
	p.recorder.record(a.name, nil, state.Entry{
		Autoscaler: a.name, Time: p.now, Reason: reason.Panicked.String(), Error: after.unevaluated, DryRun: p.dryRun, Decision: decision,
	})
	target := p.definition.Target
	p.receivers.Tell(&notify.Event{
		Kind: notify.Failed, Time: p.clock.Scale().Wall(p.now), Autoscaler: a.name, Fleet: target.Fleet, Target: target.String(),
		From: current, To: current, Reason: reason.Panicked.String(),
		Message: explain.Sentence(decision, api.Evaluation{}),
	})
}

// end gives the autoscaler back and counts the pass out.
func (p *pass) end() {
	p.vote(nil)
	if p.removes > 0 {
		p.autoscaler.leaves.Store(nil)
	}
	p.leave(p.index)
	p.unanswered()
	p.after, p.inputs = nil, nil // the round may last longer
	if p.autoscaler.release() {
		p.environment.evaluate(p.autoscaler.name)
	}
	p.round.end(1)
}

// dated returns instances with the steady times of dates that platforms state by the wall
// clock, as they were understood first.
func (a *autoscaler) dated(instances []policy.Instance, scale *clock.Scale, now time.Time) []policy.Instance {
	var known dates
	if before := a.dates.Load(); before != nil {
		known = *before
	}
	instances, known = known.of(instances, scale, now)
	a.dates.Store(&known)
	return instances
}
