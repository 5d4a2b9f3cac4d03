package round

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/daemon/explain"
	"github.com/hpad/hpad/daemon/notify"
	"github.com/hpad/hpad/daemon/observe"
	"github.com/hpad/hpad/daemon/problem"
	"github.com/hpad/hpad/daemon/reason"
	"github.com/hpad/hpad/daemon/records"
	"github.com/hpad/hpad/daemon/redact"
	"github.com/hpad/hpad/daemon/state"
	"github.com/hpad/hpad/guard"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/schedule"
	"github.com/hpad/hpad/targets"
)

// evaluate makes the decision after the reads of the pass have ended. If the decision changes the
// count, a separate goroutine carries it out. Otherwise the pass ends here.
func (p *pass) evaluate() {
	if p.env.RunContext.Err() != nil || p.autoscaler.removed.Load() { // the stop might have interrupted the reads
		p.env.Metrics.Reason(reason.Abandoned)
		p.end()
		return
	}
	before := p.autoscaler.published.Load()
	p.reconfigured = before.Record.Fingerprint != p.definition.Fingerprint
	p.after = &passResult{Result: &Result{Record: recordUnder(&before.Record, p.definition, p.now())}}
	err := guard.Call(func() error {
		p.decide()
		return nil
	})
	switch {
	case err != nil:
		p.panicked(err)
		p.end()
	case p.after.Decision.Write && !p.env.DryRun:
		p.countRemovals(&p.after.Decision)
		p.env.writers.Go(p.scale)
	default:
		p.countRemovals(&p.after.Decision)
		p.conclude(policy.Outcome{})
		p.end()
	}
}

func (p *pass) now() time.Time { return p.round.now }

// recordUnder returns the initial record of a pass: the previous pass's record, adapted to the
// current definition. If the target changed, the intention, the restoration and the earlier counts
// are dropped.
func recordUnder(before *state.Record, def *Definition, now time.Time) state.Record {
	record := *before
	if record.Target != def.Target {
		record.Intention, record.ExpectedReplicas, record.Restore, record.LastCounts, record.ImplausibleReadings = nil, nil, nil, nil, 0
		record.Memory.NoReadySince = time.Time{}
	}
	record.Through, record.Replay = now, nil
	record.Target, record.Labels, record.Fingerprint, record.Digest = def.Target, def.Labels, def.Fingerprint, def.Digest
	return record
}

func (p *pass) decide() {
	a, def, after := p.autoscaler, p.definition, p.after
	record := &after.Record
	reading := new(targets.Reading)
	observation := p.observe(reading)
	p.releaseResults()
	after.Instances = countInstances(observation.Instances)
	record.Restore = records.RestorationUnder(record.Restore, def.Autoscaler)
	if after.suspect = p.guard(&observation, reading); !after.suspect {
		after.extraEvents = p.settleIntention(&observation)
		p.findForeign(&observation)
		if a.followed.Load() && observation.ReadError == "" {
			a.reading.Store(&accepted{def.Target, reading})
		}
	}
	observation.Restore = records.ShownRestoration(record.Restore)
	p.takeRequest(&observation)
	observation.Pauses, observation.Resumed = p.env.Pauses.Of(a.Name, def.Target.Fleet, p.now(), p.env.Clock.Scale())
	if use := def.cpuUse(&observation); use != nil {
		a.cpuUse.Store(use)
	}
	spec := def.Spec
	spec.Metrics = def.metrics
	p.inputs = &policy.Inputs{
		Settings: def.Settings, Spec: spec, Memory: record.Memory, Status: record.Status, Observation: observation, Now: p.now(),
	}
	after.Decision = p.inputs.Decide()
	after.Victims, after.VictimsError = def.chooseVictims(p.env.WriteContext, &after.Decision, reading)
	after.version = reading.Version
}

// observe returns the observation and fills in the reading of the target. If the read failed, the
// observation contains the error.
func (p *pass) observe(reading *targets.Reading) policy.Observation {
	a, def := p.autoscaler, p.definition
	observed := p.env.Clock.Now()
	found, since, err := p.reading()
	*reading = found
	if err != nil {
		p.after.cause = err
		return policy.Observation{
			ReadError: problem.Shorten(redact.Text(err.Error())), ReadReason: targets.Reason(err), Unscalable: errors.Is(err, targets.ErrUnscalable),
		}
	}
	a.known = since
	instances := reading.Instances
	if p.round.readOnly || def.measuresInstances() || slices.ContainsFunc(instances, isUnready) {
		instances = a.dated(instances, p.round.scale, observed)
	}
	observation := policy.Observation{
		SpecReplicas:   reading.SpecReplicas,
		StatusReplicas: reading.StatusReplicas,
		Hold:           shortHold(reading.Hold),
		Notices:        p.notices(reading, instances),
		Instances:      withLimits(withRequests(instances, def.Requests), reading, def.Spec.Metrics),
	}
	if !def.strict { // upstream's targets have no bounds of their own
		observation.PlatformMin, observation.PlatformMax = reading.Min, reading.Max
	}
	if def.Settings.Mode == policy.ModeOff {
		return observation
	}
	target := observe.Target{Ref: def.Target, Reading: reading, Strict: def.strict, Scale: p.round.scale, Observed: observed}
	observation.Metrics = make([]policy.Reading, len(def.Spec.Metrics))
	for i := range observation.Metrics {
		observation.Metrics[i] = p.metric(i, &target)
	}
	return observation
}

// metric returns the reading of one metric of the spec.
func (p *pass) metric(i int, target *observe.Target) policy.Reading {
	metric, in := &p.definition.Spec.Metrics[i], &p.definition.MetricInputs[i]
	if metric.Formula != "" {
		return policy.Reading{}
	}
	var reading policy.Reading
	var response *observe.Response
	var err error
	if in.From == nil {
		var samples targets.Samples
		if samples, err = p.sampled(); err == nil {
			reading, err = target.Sampled(metric, &in.Input, samples)
		}
	} else if response, err = p.queried(i); err == nil {
		reading, err = target.Queried(metric, &in.Input, response)
	}
	if err == nil {
		err = p.definition.checkLimits(metric, target.Reading)
	}
	if len(reading.Warnings) > 0 {
		reading.Partial = redact.Text(reading.Partial)
		reading.Warnings = slices.Clone(reading.Warnings) // other passes read them too
		for i, warning := range reading.Warnings {
			reading.Warnings[i] = redact.Text(warning)
		}
	}
	if err != nil {
		return policy.Reading{Error: problem.Shorten(redact.Text(err.Error())), Warnings: reading.Warnings, Partial: reading.Partial}
	}
	if age := target.Age(&reading); age > p.definition.SyncPeriod {
		if p.after.Ages == nil {
			p.after.Ages = make([]time.Duration, len(p.definition.MetricInputs))
		}
		p.after.Ages[i] = age
	}
	return reading
}

// settleIntention determines the outcome of a write that got no response. An unchanged count means
// that the write was not made; any other count is taken as proof that it was made. If the count
// also differs from the intended count, an external writer changed it after the write.
func (p *pass) settleIntention(observation *policy.Observation) []policy.Event {
	def, record := p.definition, &p.after.Record
	intention := record.Intention
	if intention == nil || observation.ReadError != "" {
		return nil
	}
	record.Intention = nil
	if observation.SpecReplicas == intention.From {
		if intention.Reason != policy.Commanded { // the breaker does not count users' requests
			p.returnRemovals(intention.Time, int64(intention.From)-int64(intention.To))
		}
		return nil
	}
	record.ExpectedReplicas = &intention.To
	if intention.Reason == policy.Commanded { // a count set by a user replaces the count to restore
		record.Restore = nil
	}
	settlement := policy.SettleLate(def.Settings, def.Spec, record.Memory, record.Status, *intention, p.now())
	record.Memory, record.Status = settlement.Memory, settlement.Status
	return settlement.Events
}

// findForeign detects a change of the count by an external writer. If on_foreign_change is
// "restore", it requests the previous count again, except 0: a change from 0 enables the
// autoscaler.
func (p *pass) findForeign(observation *policy.Observation) {
	def, record := p.definition, &p.after.Record
	if record.ExpectedReplicas == nil || observation.ReadError != "" || *record.ExpectedReplicas == observation.SpecReplicas {
		return
	}
	observation.Foreign = &policy.ForeignChange{From: *record.ExpectedReplicas}
	p.env.Metrics.ForeignChange(p.autoscaler.Name)
	if def.OnForeignChange == config.RestoreForeignChange && !record.Status.Disabled() {
		record.Restore = records.RestoreForeign(record.Restore, def.Autoscaler, *record.ExpectedReplicas, observation.SpecReplicas, p.now())
	}
}

// scale carries out the decision: it commits the intention, writes the count, settles and
// publishes the outcome, and commits it.
func (p *pass) scale() {
	defer p.end()
	a, def, decision, started := p.autoscaler, p.definition, &p.after.Decision, time.Now()
	p.awaitBreaker()
	until, err := p.mayWrite(nil) // without a lease, there is no reason to wait for the store
	if err == nil {
		p.after.Record.Intention = &policy.Intention{
			From: decision.CurrentReplicas, To: decision.DesiredReplicas, Time: p.now(), Reason: decision.Reason, Message: decision.Message,
		}
		intent := p.after.Record
		intent.Memory = decision.Memory
		intended := a.intend(p.env.Recorder, &intent)
		if intended == nil { // the autoscaler was removed
			return
		}
		unwritten := p.await(intended)
		p.delayed = time.Since(started)
		if decision.Command == nil && p.pausedMeanwhile(decision) {
			p.after.Record.Intention = nil
			p.returnUnmade(policy.Outcome{})
			p.concludeWrite(policy.Outcome{})
			return
		}
		until, err = p.mayWrite(unwritten)
	}
	if err == nil {
		err = write{
			fleet: def.Fleet, target: def.Target, from: decision.CurrentReplicas, to: decision.DesiredReplicas,
			version: p.after.version, reason: decision.Message, overwrite: def.strict || decision.Command != nil, period: def.SyncPeriod,
			until: until, metrics: p.env.Metrics,
		}.run(p.env.WriteContext)
		a.known = time.Now()
	}
	outcome := outcomeOf(decision, err)
	p.after.cause = err
	if outcome.Kind != policy.WriteFailed || !errors.Is(err, targets.ErrUnknownOutcome) {
		p.after.Record.Intention = nil
		p.returnUnmade(outcome)
	}
	if _, panicked := errors.AsType[*guard.Panic](err); panicked {
		p.panicked(err)
		return
	}
	p.concludeWrite(outcome)
}

// concludeWrite concludes the pass and waits for the commit of its record. It does not wait if
// this member might no longer own the fleet, or the store hangs.
func (p *pass) concludeWrite(outcome policy.Outcome) {
	if commit := p.conclude(outcome); commit != nil && !errors.Is(p.after.cause, errNotOwner) && !errors.Is(p.after.cause, errStoreTimeout) {
		_ = p.await(commit) // storeFailed publishes an error
	}
}

// await waits for a commit, for at most StoreTimeout.
func (p *pass) await(commit *records.Commit) error {
	ctx, cancel := context.WithTimeoutCause(context.Background(), p.env.StoreTimeout, errStoreTimeout)
	defer cancel()
	return commit.Wait(ctx, p.autoscaler.Name)
}

// conclude settles the pass and publishes its result. It returns the commit of the record, or nil
// if the store can derive the record from the previous record.
func (p *pass) conclude(outcome policy.Outcome) *records.Commit {
	a, def, after := p.autoscaler, p.definition, p.after
	record, decision := &after.Record, &after.Decision
	at := p.now()
	if outcome.Kind == policy.Written { // rate periods start at the write
		at = at.Add(p.delayed)
	}
	var settlement policy.Settlement
	err := guard.Call(func() error {
		settlement = policy.Settle(*decision, outcome, at)
		return nil
	})
	if err != nil {
		p.panicked(err)
		return nil
	}
	before := a.published.Load()
	a.panics = 0
	p.updateRecord(before, &settlement, outcome)
	*decision = decision.Explained()
	events := append(after.extraEvents, a.takeAdded()...)
	events = append(events, p.boundsChanged(before, decision)...)
	events = append(events, p.modeChanged(before)...)
	p.followInstanceFailures(before)
	events = append(events, p.followShortage(before)...)
	after.newlyHeld = isNewlyHeld(before, decision)
	settled := after.newlyHeld || len(events) > 0 || decision.Foreign != nil || decision.Command != nil || outcome.Kind == policy.Written
	events = append(events, settlement.Events...)

	p.classify(outcome, settlement)
	entries := historyEntries(a.Name, &a.following, before, after, settled, p.env.DryRun, events, settlement.Error)
	for i := range entries {
		entries[i].Engine, entries[i].Inputs = policy.Engine, p.inputs
	}
	if now := records.ObstacleOf(a.following.obstacle); !records.SameObstacle(record.Obstacle, now) {
		record.Obstacle = now
	}
	after.Events = addEvents(before.Events, events, p.now())
	after.Evaluated, after.Duration = p.round.started, time.Since(p.round.started)
	news := p.failureNews(after)
	commit, ok := a.publish(p.env.Recorder, before, after, settlement, def.SyncPeriod, entries)
	if !ok {
		p.env.Metrics.Reason(reason.Abandoned)
		return nil
	}
	p.addDataPoint(decision)
	p.report(before, news)
	p.notifyPass(len(entries) > 0, news != nil)
	p.finishRequest(outcome, commit)
	return commit
}

// updateRecord updates the record for the next pass.
func (p *pass) updateRecord(before *Result, settlement *policy.Settlement, outcome policy.Outcome) {
	record, decision := &p.after.Record, &p.after.Decision
	record.Status = settlement.Status
	if p.after.suspect {
		return
	}
	record.Memory = settlement.Memory
	records.SetExpectedReplicas(record, decision, outcome)
	record.Restore = records.RestorationAfter(record.Restore, decision, outcome, p.env.DryRun)
	if count := decision.Recommendation; count != nil {
		record.Replay = records.Keep(before.Record.Replay, state.Replay{Replicas: *count, Held: decision.Outage != nil, Period: p.definition.SyncPeriod, Rules: p.definition.rules})
	}
}

// classify sets the outcome, the error and the reason code of the pass.
func (p *pass) classify(outcome policy.Outcome, settlement policy.Settlement) {
	after := p.after
	if !isIdle(&after.Decision, settlement) {
		after.failed, after.Err = settlement.Error, settlement.Error
	}
	after.Outcome, after.outage = outcome, p.isOutage(&after.Decision, outcome)
	_, lost := errors.AsType[*foreignError](after.cause)
	after.Reason = reason.Of(reason.Pass{
		Decision: &after.Decision, Outcome: outcome, Err: after.cause,
		Implausible: after.suspect, Lost: lost, Fenced: errors.Is(after.cause, errNotOwner), Failed: after.Err != "",
	})
}

// report logs and counts the pass.
func (p *pass) report(before *Result, news []zap.Field) {
	a, after := p.autoscaler, p.after
	p.logPass(before, news)
	if after.Outcome.Kind == policy.Written {
		a.metrics.Rescaled(after.Decision.CurrentReplicas, after.Outcome.Reached)
	}
	p.env.Metrics.Reason(after.Reason)
	a.metrics.Pass(&after.Decision, after.errorKind(!a.definition.Load().Fleet.Problem.Exists()), after.Duration)
	if p.env.Decided != nil {
		p.env.Decided(a.Name)
	}
}

// boundsChanged returns an event if min or max changed since the last pass.
func (p *pass) boundsChanged(before *Result, decision *policy.Decision) []policy.Event {
	record, now := &p.after.Record, state.Bounds{Min: decision.MinReplicas, Max: decision.MaxReplicas}
	old := record.Bounds
	record.Bounds = records.Keep(old, now)
	if old == nil || *old == now {
		return nil
	}
	setsBounds := func(rule schedule.Rule) bool { return rule.MinReplicas != nil || rule.MaxReplicas != nil }
	change := p.changeCause(before, setsBounds) + " changed " + boundsChange(*old, now)
	p.env.Log.Info("bounds changed", p.fields(zap.Int32("min", now.Min), zap.Int32("max", now.Max), zap.String("change", change))...)
	return []policy.Event{{Kind: policy.NormalEvent, Reason: api.BoundsChanged, Message: change}}
}

// modeChanged returns an event if a schedule changed the mode since the last pass.
func (p *pass) modeChanged(before *Result) []policy.Event {
	configured, last := p.autoscaler.Definition(), before.Record.Through
	if len(configured.Schedules) == 0 || last.IsZero() || p.reconfigured {
		return nil
	}
	earlier, now := configured.At(p.round.scale.Wall(last)), configured.At(p.round.scale.Wall(p.now()))
	if earlier.Mode == now.Mode {
		return nil
	}
	setsMode := func(rule schedule.Rule) bool { return rule.Mode != "" }
	change := fmt.Sprintf("%s changed mode from %s to %s", p.changeCause(before, setsMode), earlier.Mode, now.Mode)
	p.env.Log.Info("mode changed", p.fields(zap.String("change", change))...)
	return []policy.Event{{Kind: policy.NormalEvent, Reason: api.ModeChanged, Message: change}}
}

// changeCause returns the cause of a change to min, max or the mode. If the configuration is the
// same, it is the start or the end of schedules since the previous pass. Only rules that set the
// changed value are named.
func (p *pass) changeCause(before *Result, sets func(schedule.Rule) bool) string {
	if p.reconfigured {
		return "the configuration"
	}
	rules := slices.DeleteFunc(slices.Clone(p.definition.Schedules), func(rule schedule.Rule) bool { return !sets(rule) })
	activeAt := func(at time.Time) []string {
		return rules.At(p.round.scale.Wall(at), schedule.State{}).Active
	}
	earlier, now := activeAt(before.Record.Through), activeAt(p.now())
	var causes []string
	if started := without(now, earlier); started != "" {
		causes = append(causes, "the start of schedule "+started)
	}
	if ended := without(earlier, now); ended != "" {
		causes = append(causes, "the end of schedule "+ended)
	}
	if len(causes) == 0 { // the end of a ramp
		return "schedule " + strings.Join(now, ", ")
	}
	return strings.Join(causes, " and ")
}

// without lists the names that are not in others.
func without(names, others []string) string {
	rest := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return slices.Contains(others, name) })
	return strings.Join(rest, ", ")
}

// isOutage reports whether the pass failed only because of an outage of its fleet, the fleet's
// samples or its sources, which is reported once for all autoscalers.
func (p *pass) isOutage(decision *policy.Decision, outcome policy.Outcome) bool {
	if p.isFleetOut() {
		return true
	}
	if outcome.Error != "" {
		return false
	}
	failed := false
	for i := range decision.Metrics {
		if decision.Metrics[i].Error == "" {
			continue
		}
		formula := p.definition.Spec.Metrics[i].Formula != ""
		if formula && failed {
			continue // an input failed because of an outage
		}
		if failed = !formula && p.isOut(i); !failed {
			return false
		}
	}
	return failed
}

// failureNews returns log fields if the pass is the first to fail, fails for a different cause, or
// is the first to succeed after a failure. Otherwise it returns nil.
func (p *pass) failureNews(after *passResult) []zap.Field {
	a := p.autoscaler
	if after.outage {
		if !a.published.Load().Decided() || !a.unmeasured.IsZero() {
			a.unmeasured = p.now() // the fleet took no samples during the outage
		}
		return nil
	}
	unmeasured := early(&after.Decision) && after.Outcome.Error == ""
	if unmeasured && !a.published.Load().Decided() {
		a.unmeasured = p.now()
		p.env.Log.Info("no samples yet", p.fields(zap.String("err", after.failed))...)
	}
	if unmeasured && p.now().Sub(a.unmeasured) < measuredWithin {
		return nil
	}
	a.unmeasured = time.Time{}
	cause := failureOf(&after.Decision, after.Outcome, after.failed)
	if cause == "" && p.env.Until != nil && p.env.Unwritten.Exists() {
		return nil // not a recovery: a change would still fail
	}
	news, flapped := a.following.failing.Observe(cause, after.Record.Through, false)
	if a.panicked && cause == "" { // panics are logged separately
		news, a.panicked = true, false
	}
	if !news {
		return nil
	}
	return p.fields(a.following.failing.Fields(flapped, p.env.Clock.Scale().Wall)...)
}

// measuredWithin is the maximum time until running instances have their first samples. A fleet
// needs two readings, and resource_interval is 15 s by default.
const measuredWithin = time.Minute

// early reports whether a pass failed only because its fleet has no samples yet.
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

// panicked publishes the panic of the pass. It drops the result of the pass, except for its extra
// events. After panicsAllowed consecutive panics, it quarantines the autoscaler.
func (p *pass) panicked(err error) {
	a := p.autoscaler
	a.panics++
	news := !a.panicked
	after := *a.published.Load()
	after.Unevaluated, after.Err = err.Error(), err.Error()
	after.Quarantine = time.Time{}
	a.panicked, after.Reason = true, reason.Panicked
	after.Events = addEvents(after.Events, p.after.extraEvents, p.now())
	if a.panics >= panicsAllowed {
		a.panics = 0
		after.Quarantine = p.now().Add(quarantine)
		after.Unevaluated, news = "quarantined after "+err.Error(), true
	}
	a.publishPanic(p.env.Recorder, &after)
	if news {
		p.reportPanic(&after)
	}
	p.env.Metrics.Reason(reason.Panicked)
	p.env.logPanic(a.Name, err, after.Quarantine)
}

// reportPanic adds a panic, or the quarantine after several panics, to the history and sends a
// notification.
func (p *pass) reportPanic(after *Result) {
	a, current := p.autoscaler, after.Record.Status.CurrentReplicas
	decision := policy.Decision{
		Time: p.now(), CurrentReplicas: current, DesiredReplicas: current,
		Message: "the pass panicked, which is a bug in hpad", Error: after.Unevaluated,
	}
	p.env.Recorder.Record(a.Name, nil, state.Entry{
		Autoscaler: a.Name, Time: p.now(), Reason: reason.Panicked.String(), Error: after.Unevaluated, DryRun: p.env.DryRun, Decision: decision,
	})
	p.env.Receivers.Notify(p.notification(notify.Failed, current, current, reason.Panicked.String(), explain.Sentence(decision, api.Evaluation{})))
}

// end releases the autoscaler and ends the pass.
func (p *pass) end() {
	p.countRemovals(nil)
	if p.removes > 0 {
		p.autoscaler.removingTo.Store(nil)
	}
	p.releaseResults()
	p.abandonRequest()
	p.after, p.inputs = nil, nil // the round can last longer than the pass
	if p.autoscaler.release() {
		p.env.Evaluate(p.autoscaler.Name)
	}
	p.round.end()
}
