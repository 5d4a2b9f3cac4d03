package daemon

import (
	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/daemon/state"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
)

// restoration is a count that is to be put back on a target. It is never changed.
type restoration struct {
	target targets.Ref
	state.Restoration
}

// noticeForeign compares the count with the one that the last pass left. A count
// that somebody else changed is to be put back from then on, where the definition
// asks for it; where one is already, that one still is, and the newer count is the
// foreign one. Who raises a count of 0, which had switched the autoscaler off,
// switches it on: there is nothing to put back then.
func (p *pass) noticeForeign(observation *policy.Observation) {
	a, def := p.plan.autoscaler, p.plan.definition
	if a.left == nil || observation.ReadError != "" || a.left.target != def.Target || a.left.replicas == observation.SpecReplicas {
		return
	}
	observation.Foreign = &policy.ForeignChange{From: a.left.replicas}
	p.round.daemon.metrics.Foreign(a.name)
	if def.OnForeignChange != config.RestoreForeignChange || a.status.Disabled() {
		return
	}
	next := &restoration{target: def.Target, Restoration: state.Restoration{
		Restoration: policy.Restoration{Replicas: a.left.replicas, Foreign: observation.SpecReplicas, Since: p.round.now},
		Min:         *def.Spec.MinReplicas, Max: def.Spec.MaxReplicas,
	}}
	if pending := a.restoration; pending != nil {
		next.Replicas, next.Since = pending.Replicas, pending.Since
	}
	a.restoration = next
}

// under returns what is to be put back under a definition; nil when there is
// nothing, or when it was to be under another one: of another target, with other
// bounds, or that asks for nothing to be put back.
func (r *restoration) under(def *definition) *restoration {
	if r == nil || r.target != def.Target || def.OnForeignChange != config.RestoreForeignChange ||
		r.Min != *def.Spec.MinReplicas || r.Max != def.Spec.MaxReplicas {
		return nil
	}
	return r
}

// settleRestoration drops what was to be put back once it is, or is not to be any
// more. A dry run puts nothing back, and leaves nothing to a run that does.
func (a *autoscaler) settleRestoration(decision *policy.Decision, outcome policy.Outcome, dryRun bool) {
	reached := decision.Case == policy.CaseRestored && outcome.Kind == policy.Written && outcome.Reached == decision.DesiredReplicas
	if decision.Restore == nil || reached || dryRun {
		a.restoration = nil
	}
}

// of returns what is to be put back on a target, nil when there is nothing.
func (r *restoration) of(target targets.Ref) *state.Restoration {
	if r == nil || r.target != target {
		return nil
	}
	return &r.Restoration
}

// shown returns what is to be put back as readers see it, nil when there is nothing.
func (r *restoration) shown() *policy.Restoration {
	if r == nil {
		return nil
	}
	return &r.Restoration.Restoration
}
