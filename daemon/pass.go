package daemon

import (
	"crypto/rand"
	"errors"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/hpad/hpad/daemon/observe"
	"github.com/hpad/hpad/daemon/state"
	"github.com/hpad/hpad/daemon/trouble"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
)

// leaveAnswers gives back the answers that the pass reads, once it needs none any
// more. Only the first call counts.
func (p *pass) leaveAnswers() {
	if p.left {
		return
	}
	p.left = true
	for _, q := range p.plan.queries {
		if q >= 0 {
			p.round.queries[q].read()
		}
	}
}

// evaluate observes and decides once the reads of the pass are there. A decision
// that changes the count is carried out by scale, in a goroutine of its own; any
// other pass ends here, or, where it returns a recording, with that.
func (p *pass) evaluate(scratch *observe.Scratch) *recording {
	a, d := p.plan.autoscaler, p.round.daemon
	if d.runContext.Err() != nil || a.removed.Load() { // what was read may have been cut off
		p.end()
		return nil
	}
	after := &publication{tick: p.round.now}
	var version string
	err := trouble.Guard(func() error {
		version = p.decide(after, scratch)
		return nil
	})
	switch {
	case err != nil:
		p.panicked(err)
		p.end()
	case after.decision.Write && !d.options.DryRun:
		d.acts.Go(func() { p.scale(after, version) })
	default:
		if recording := p.conclude(after, policy.Outcome{}); recording != nil {
			return recording
		}
		p.end()
	}
	return nil
}

// decide fills in what the pass saw and decided, and returns the version at which
// the target was read.
func (p *pass) decide(after *publication, scratch *observe.Scratch) string {
	a, def := p.plan.autoscaler, p.plan.definition
	scratch.Clear()
	p.events = p.clockEvents()
	observation, reading := p.observe(scratch)
	p.leaveAnswers()
	after.instances = countInstances(observation.Instances)
	a.restoration = a.restoration.under(def)
	if p.doubted = p.doubt(&observation, &reading); !p.doubted {
		p.events = append(p.events, p.settleIntention(&observation)...)
		p.noticeForeign(&observation)
	}
	observation.Restore = a.restoration.shown()
	p.noteCPU(&observation)
	after.decision = policy.Decide(def.settings, def.Spec, a.memory, a.status, observation, p.round.now)
	after.victims, after.unchosen = p.victims(&after.decision, &reading)
	return reading.Version
}

// scale carries out what the pass decided: it commits the intention, writes,
// settles and publishes what became of it, and commits that.
func (p *pass) scale(after *publication, version string) {
	defer p.end()
	a, d, decision := p.plan.autoscaler, p.round.daemon, &after.decision
	intended := p.intend(decision, version)
	if intended == nil { // the autoscaler was removed
		return
	}
	// A store that cannot be written does not keep a fleet from being scaled.
	if err := intended.wait(); err != nil {
		d.log.Error("intention to scale could not be written; scaling all the same",
			zap.String("autoscaler", a.name), zap.NamedError("err", err))
	}
	err := p.write(order{
		from: decision.CurrentReplicas, to: decision.DesiredReplicas, version: version, reason: decision.Message,
	})
	outcome := outcomeOf(decision, err)
	if outcome.Kind != policy.WriteFailed || !errors.Is(err, targets.ErrUnknownOutcome) {
		a.intention = nil // it is known what became of it
	}
	if _, panicked := errors.AsType[*trouble.Panic](err); panicked {
		p.panicked(err)
		return
	}
	_, foreign := errors.AsType[*foreignError](err) // which the next pass notices
	p.evaluateAgain(foreign)
	if recording := p.conclude(after, outcome); recording != nil {
		recording.wait()
	}
}

// settleIntention finds out from the reading what became of a write whose
// answer nobody has: it was made if the count is the intended one, it was not if
// the count is the old one, and otherwise it was made and then changed by
// somebody else.
func (p *pass) settleIntention(observation *policy.Observation) []policy.Event {
	a, def := p.plan.autoscaler, p.plan.definition
	intention := a.intention
	if intention == nil || observation.ReadError != "" {
		return nil
	}
	a.intention = nil
	if a.intended != def.Target { // a reload pointed the autoscaler at another one
		return nil
	}
	count := observation.SpecReplicas
	if count == intention.From {
		return nil
	}
	a.left = &left{target: def.Target, replicas: intention.To}
	settlement := policy.SettleLate(def.settings, def.Spec, a.memory, a.status, intention.Intention, p.round.now)
	a.memory, a.status = settlement.Memory, settlement.Status
	return settlement.Events
}

// leave notes the count that the pass leaves, as far as it is known.
func (a *autoscaler) leave(def *definition, decision *policy.Decision, outcome policy.Outcome) {
	switch {
	case outcome.Kind == policy.Written:
		a.left = &left{target: def.Target, replicas: outcome.Reached}
	case a.intention != nil: // the next reading tells
		a.left = nil
	case decision.Case != policy.CaseUnreadable && (a.left == nil || a.left.replicas != decision.CurrentReplicas || a.left.target != def.Target):
		a.left = &left{target: def.Target, replicas: decision.CurrentReplicas}
	}
}

// intend has the intention committed, with the memory of the decision; nil when
// the autoscaler was removed.
func (p *pass) intend(decision *policy.Decision, version string) *commit {
	a := p.plan.autoscaler
	intention := &state.Intention{
		Intention: policy.Intention{
			From: decision.CurrentReplicas, To: decision.DesiredReplicas, Time: p.round.now,
			Reason: decision.Reason, Message: decision.Message,
		},
		ID:      rand.Text(),
		Version: version,
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.removed.Load() {
		return nil
	}
	return p.round.daemon.recorder.record(a.name, a.intend(p.plan.definition, intention, decision.Memory))
}

// conclude settles the pass, publishes what it found, and has recorded what the
// store does not know; nil when there is nothing to record.
func (p *pass) conclude(after *publication, outcome policy.Outcome) *recording {
	a, def, d := p.plan.autoscaler, p.plan.definition, p.round.daemon
	decision := &after.decision
	var settlement policy.Settlement
	err := trouble.Guard(func() error {
		settlement = policy.Settle(*decision, outcome, p.round.now)
		return nil
	})
	if err != nil {
		p.panicked(err)
		return nil
	}
	before := a.published.Load()
	wrote := outcome.Kind == policy.Written
	a.status = settlement.Status
	a.panics = 0
	recommendation := decision.Recommendation
	if p.doubted { // nothing that such a reading led to is remembered
		recommendation = nil
	} else {
		a.memory = settlement.Memory
		a.leave(def, decision, outcome)
		a.settleRestoration(decision, outcome, d.options.DryRun)
	}
	*decision = decision.Explained()
	events := append(p.events, p.boundsChanged(decision)...)
	settled := len(events) > 0 || decision.Foreign != nil
	events = append(events, settlement.Events...)

	if !sleeps(decision, settlement) {
		after.failed, after.err = settlement.Error, settlement.Error
	}
	after.outcome, after.blind = outcome, p.isBlind(decision, outcome)
	entries := a.history(before, after, wrote || settled, d.options.DryRun, events, settlement.Error)
	after.memory, after.status, after.restoration = a.memory, a.status, a.restoration
	after.events = a.events.add(events, p.round.now)
	after.evaluated, after.duration = p.started, time.Since(p.started)
	news := d.failureNews(a, def, after)
	commit, removed := p.publish(after, recommendation, wrote, entries)
	if removed {
		return nil
	}
	d.reportPass(a, def, after, news)
	d.reportOff(a, def, before, after)
	if commit == nil {
		return nil
	}
	return &recording{pass: p, after: after, settlement: settlement, commit: commit}
}

// publish shows readers what the pass found, unless the autoscaler was removed, and
// has recorded what the store does not know. Both are one step: a tick that goes by
// meanwhile has the pass before recorded, as readers saw it.
func (p *pass) publish(after *publication, recommendation *int32, wrote bool, entries []state.Entry) (_ *commit, removed bool) {
	a := p.plan.autoscaler
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.removed.Load() {
		return nil, true
	}
	a.published.Store(after)
	record := a.record(p.plan.definition, recommendation, wrote, p.round.now)
	if record == nil && entries == nil {
		return nil, false
	}
	return p.round.daemon.recorder.record(a.name, record, entries...), false
}

// recording is a pass that is published and whose record is being committed.
type recording struct {
	pass       *pass
	after      *publication
	settlement policy.Settlement
	commit     *commit
}

// wait returns once the record is committed. That the store failed is told as R74
// says; what was decided stays, and is written with the next commit.
func (r *recording) wait() {
	err := r.commit.wait()
	if err == nil {
		return
	}
	a := r.pass.plan.autoscaler
	unwritten := *r.after
	unwritten.err = err.Error()
	for _, event := range r.settlement.StatusWriteFailed(err.Error()) {
		if !slices.Contains(r.settlement.Events, event) { // the others are published already
			unwritten.events = a.events.add([]policy.Event{event}, r.pass.round.now)
		}
	}
	a.published.Store(&unwritten)
}

// sleeps says whether all that failed in a pass is that instances could not be
// measured of which there are none: at zero replicas, with a metric that tells
// when they are wanted again. That is how such a target is meant to be.
func sleeps(decision *policy.Decision, settlement policy.Settlement) bool {
	if decision.CurrentReplicas != 0 || decision.Winner == nil || settlement.Error != decision.Error {
		return false
	}
	return !slices.ContainsFunc(decision.Metrics, func(m policy.MetricResult) bool {
		return m.Error != "" && (m.Type == policy.ObjectMetric || m.Type == policy.ExternalMetric)
	})
}

// panicked publishes that the pass panicked. Nothing it found is kept but the events
// that came up before; after repeats the autoscaler is left alone for a while.
func (p *pass) panicked(err error) {
	a, d := p.plan.autoscaler, p.round.daemon
	a.panics++
	after := *a.published.Load()
	after.unevaluated, after.failed, after.err = err.Error(), err.Error(), err.Error()
	after.quarantine = time.Time{} // one of earlier panics is over
	a.panicked = true
	after.events = a.events.add(p.events, p.round.now)
	if a.panics >= panicsAllowed {
		a.panics = 0
		after.quarantine = p.round.now.Add(quarantine)
		after.unevaluated = "quarantined after " + err.Error()
	}
	a.mu.Lock()
	a.published.Store(&after)
	a.missed(d.recorder)
	a.mu.Unlock()
	d.reportPanic(a, err, d.clock.Scale().Wall(after.quarantine))
}

// After panicsAllowed panics in a row an autoscaler is not evaluated for the
// time of quarantine.
const (
	panicsAllowed = 3
	quarantine    = 5 * time.Minute
)

// end gives the autoscaler back and counts the pass out.
func (p *pass) end() {
	p.leaveAnswers()
	if p.plan.autoscaler.release() {
		p.round.daemon.Evaluate(p.plan.autoscaler.name)
	}
	p.round.ended()
}
