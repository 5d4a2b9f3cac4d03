package daemon

import (
	"crypto/rand"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/hpad/hpad/daemon/state"
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

// run evaluates the autoscaler once its reads are there: it observes, decides,
// and either finishes or sets out to write.
func (p *pass) run(room *room) {
	a, d := p.plan.autoscaler, p.round.daemon
	if d.runContext.Err() != nil || a.removed.Load() { // what was read may have been cut off
		p.end()
		return
	}
	after := &publication{tick: p.round.now}
	decision := &after.decision
	var reading targets.Reading
	var events []policy.Event
	err := guard(func() error {
		var observation policy.Observation
		room.clear()
		events = p.clockEvents()
		observation, reading = p.observe(room)
		p.leaveAnswers()
		after.instances = countInstances(observation.Instances)
		def := p.plan.definition
		a.restoration = a.restoration.under(def)
		if p.doubted = p.doubt(&observation, &reading); !p.doubted {
			events = append(events, p.settleIntention(&observation)...)
			p.noticeForeign(&observation)
		}
		observation.Restore = a.restoration.shown()
		p.noteCPU(&observation)
		*decision = policy.Decide(def.settings, def.Spec, a.memory, a.status, observation, p.round.now)
		after.victims, after.unchosen = p.victims(decision, &reading)
		return nil
	})
	switch {
	case err != nil:
		p.panicked(err, events)
	case decision.Write && !d.options.DryRun:
		p.intend(after, reading.Version, events)
	default:
		p.finish(after, policy.Outcome{}, events)
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

// intend commits what is about to be done, and then does it. A store that
// cannot be written does not keep a fleet from being scaled.
func (p *pass) intend(after *publication, version string, events []policy.Event) {
	a, def, d := p.plan.autoscaler, p.plan.definition, p.round.daemon
	decision := &after.decision
	intention := &state.Intention{
		Intention: policy.Intention{
			From: decision.CurrentReplicas, To: decision.DesiredReplicas, Time: p.round.now,
			Reason: decision.Reason, Message: decision.Message,
		},
		ID:      rand.Text(),
		Version: version,
	}
	a.mu.Lock()
	removed := a.removed.Load()
	if !removed {
		d.recorder.record(a.name, a.intend(def, intention, decision.Memory), nil, func(err error) {
			if err != nil {
				d.log.Error("intention to scale could not be written; scaling all the same",
					zap.String("autoscaler", a.name), zap.NamedError("err", err))
			}
			d.goAct(func() { p.act(after, version, events) })
		})
	}
	a.mu.Unlock()
	if removed {
		p.end()
	}
}

// finish settles the pass, publishes what it found, and has written what the
// store does not know. Events are those that came up beside the decision's own.
func (p *pass) finish(after *publication, outcome policy.Outcome, events []policy.Event) {
	a, def, d := p.plan.autoscaler, p.plan.definition, p.round.daemon
	decision := &after.decision
	var settlement policy.Settlement
	err := guard(func() error {
		settlement = policy.Settle(*decision, outcome, p.round.now)
		return nil
	})
	if err != nil {
		p.panicked(err, events)
		return
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
	events = append(events, p.boundsChanged(decision)...)
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
	a.mu.Lock()
	if a.removed.Load() {
		a.mu.Unlock()
		p.end()
		return
	}
	a.published.Store(after)
	record := a.record(def, recommendation, wrote, p.round.now)
	if record != nil || entries != nil {
		d.recorder.record(a.name, record, entries, func(err error) { p.recorded(after, settlement, err) })
	}
	a.mu.Unlock()

	d.reportPass(a, def, after, news)
	d.reportOff(a, def, before, after)
	if record == nil && entries == nil {
		p.end()
	}
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

// recorded ends a pass that had something to write. That the store failed is
// told as R74 says; what was decided stays, and is written with the next commit.
func (p *pass) recorded(after *publication, settlement policy.Settlement, err error) {
	a := p.plan.autoscaler
	if err != nil {
		unwritten := *after
		unwritten.err = err.Error()
		for _, event := range settlement.StatusWriteFailed(err.Error()) {
			if !slices.Contains(settlement.Events, event) { // the others are published already
				unwritten.events = a.events.add([]policy.Event{event}, p.round.now)
			}
		}
		a.published.Store(&unwritten)
	}
	p.end()
}

// panicked ends a pass that panicked. Nothing it found is kept but the events
// that came up before; after repeats the autoscaler is left alone for a while.
func (p *pass) panicked(err error, events []policy.Event) {
	a, d := p.plan.autoscaler, p.round.daemon
	a.panics++
	after := *a.published.Load()
	after.unevaluated, after.failed, after.err = err.Error(), err.Error(), err.Error()
	after.quarantine = time.Time{} // one of earlier panics is over
	a.panicked = true
	after.events = a.events.add(events, p.round.now)
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
	p.end()
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
