package daemon

import (
	"errors"
	"fmt"
	"slices"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/observe"
	"github.com/hpad/hpad/daemon/redact"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
)

// observe gathers what the pass's reads answered into what policy decides on. A
// failed read is part of the observation, never an abort.
func (p *pass) observe(scratch *observe.Scratch) (policy.Observation, targets.Reading) {
	def := p.plan.definition
	p.observed = p.round.daemon.clock.Now()
	reading, err := p.reading()
	if err != nil {
		return policy.Observation{
			ReadError: redact.Text(err.Error()), ReadReason: targets.Reason(err), Unscalable: errors.Is(err, targets.ErrUnscalable),
		}, reading
	}
	observation := policy.Observation{
		SpecReplicas:   reading.SpecReplicas,
		StatusReplicas: reading.StatusReplicas,
		Hold:           reading.Hold,
		Notices:        reading.Notices,
		Instances:      withRequests(p.dated(reading.Instances), def.Requests),
		Metrics:        scratch.Readings[:0],
	}
	if !def.strict { // upstream's targets have no bounds of their own
		observation.PlatformMin, observation.PlatformMax = reading.Min, reading.Max
	}
	target := observe.Target{Ref: def.Target, Reading: &reading, Strict: def.strict, Scale: p.round.scale, Observed: p.observed}
	for i := range def.Spec.Metrics {
		observation.Metrics = append(observation.Metrics, p.metric(i, &target, scratch))
	}
	scratch.Readings = observation.Metrics
	return observation, reading
}

// countInstances counts instances by their state.
func countInstances(instances []policy.Instance) (n api.Instances) {
	for i := range instances {
		switch instance := &instances[i]; {
		case instance.Deleting:
			n.Deleting++
		case instance.Phase == policy.PhasePending:
			n.Pending++
		case instance.Phase == policy.PhaseFailed:
			n.Failed++
		case instance.Phase == policy.PhaseSucceeded:
			n.Succeeded++
		case instance.Phase == policy.PhaseRunning && instance.Readiness != policy.ReadinessFalse && instance.Readiness != policy.ReadinessUnknown:
			n.Ready++
		default:
			n.Unready++
		}
	}
	return n
}

// reading answers what the round's snapshot says of the pass's target.
func (p *pass) reading() (targets.Reading, error) {
	answer := p.round.snapshots[p.plan.snapshot].get()
	if answer == nil {
		return targets.Reading{}, fmt.Errorf("read fleet %q: %w", p.plan.definition.fleet.name, p.tooLate())
	}
	if answer.err != nil {
		return targets.Reading{}, answer.err
	}
	ref := p.plan.definition.Target
	reading, ok := answer.readings[ref]
	if !ok {
		return reading, fmt.Errorf("read target %s: the fleet's answer does not mention it", ref)
	}
	if reading.Err != nil {
		return reading, fmt.Errorf("read target %s: %w", ref, reading.Err)
	}
	return reading, nil
}

// isBlind reports whether all that failed in a pass is that its fleet, the fleet's
// samples or its sources could not be read at all, which is told once for all of those
// who read them.
func (p *pass) isBlind(decision *policy.Decision, outcome policy.Outcome) bool {
	if answer := p.round.snapshots[p.plan.snapshot].get(); answer != nil && answer.err != nil {
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
		out, sure := p.isOut(i)
		if !out && sure {
			return false
		}
		failed, unsure = true, unsure || !sure
	}
	a := p.plan.autoscaler
	// What the source has yet to show is left to the next pass, once.
	again := a.unsure && unsure
	a.unsure = unsure
	return failed && !again
}

// isOut reports whether nothing could be read from where a failed metric of the pass
// comes from. It is not sure while other queries of a source are under way that was
// not told to be out.
func (p *pass) isOut(metric int) (out, sure bool) {
	source := p.plan.definition.inputs[metric].source
	if source == nil {
		answer := p.round.samples[p.plan.samples].get()
		return answer != nil && answer.err != nil, true
	}
	q := p.plan.queries[metric]
	if answer := p.round.queries[q].get(); answer != nil && answer.err == nil {
		return false, true
	}
	batch := &p.round.batches[p.round.plan.queries[q].batch]
	switch {
	case batch.answered.Load():
		return false, true
	case batch.left.Load() == 0 || source.problem.Exists():
		return true, true
	}
	return false, false
}

// tooLate is the error of a read that this pass could not wait for, although
// others do.
func (p *pass) tooLate() error { return readLimit(p.plan.timeout) }

// withRequests states the configured requests for instances whose fleet states
// none (R29).
func withRequests(instances []policy.Instance, requests []policy.Amount) []policy.Instance {
	if len(requests) == 0 {
		return instances
	}
	stated := slices.Clone(instances)
	for i := range stated {
		stated[i].Requests = requests
	}
	return stated
}

// metric returns the reading of one metric of the spec.
func (p *pass) metric(i int, target *observe.Target, scratch *observe.Scratch) policy.Reading {
	def := p.plan.definition
	var reading policy.Reading
	var err error
	switch in := &def.inputs[i]; {
	case in.source == nil:
		reading, err = p.sampled(&def.Spec.Metrics[i], target)
	default:
		reading, err = p.queried(i, target, scratch)
	}
	if err != nil {
		// A reading that failed in part is a failed reading: what was found
		// before the error is not decided on.
		return policy.Reading{Error: redact.Text(err.Error()), Warnings: reading.Warnings}
	}
	return reading
}

// sampled returns the reading of a metric that the fleet's own samples feed.
func (p *pass) sampled(metric *policy.MetricSpec, target *observe.Target) (policy.Reading, error) {
	answer := p.round.samples[p.plan.samples].get()
	switch {
	case answer == nil:
		return policy.Reading{}, fmt.Errorf("read samples of fleet %q: %w", p.plan.definition.fleet.name, p.tooLate())
	case answer.err != nil:
		return policy.Reading{}, answer.err
	}
	return target.Sampled(metric, answer.samples[target.Ref])
}

// queried returns the reading of a metric that a query feeds.
func (p *pass) queried(i int, target *observe.Target, scratch *observe.Scratch) (policy.Reading, error) {
	in := &p.plan.definition.inputs[i]
	answer := p.round.queries[p.plan.queries[i]].get()
	switch {
	case answer == nil:
		return policy.Reading{}, fmt.Errorf("query source %q: %w", in.source.name, p.tooLate())
	case answer.err != nil:
		return policy.Reading{}, answer.err
	}
	return target.Queried(&p.plan.definition.Spec.Metrics[i], &in.Input, &answer.found, scratch)
}
