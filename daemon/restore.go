package daemon

import (
	"time"

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

// restoreForeign returns what is to be put back after somebody else changed the count
// to found, under the definition of the autoscaler. Where there is something already,
// that still is, and the newer count is the foreign one.
func (r *restoration) restoreForeign(c *config.Autoscaler, replicas, found int32, now time.Time) *restoration {
	next := &restoration{target: c.Target, Restoration: state.Restoration{
		Restoration: policy.Restoration{Replicas: replicas, Foreign: found, Since: now},
		Min:         *c.Spec.MinReplicas, Max: c.Spec.MaxReplicas,
	}}
	if r != nil {
		next.Replicas, next.Since = r.Replicas, r.Since
	}
	return next
}

// under returns what is to be put back under a definition; nil when there is
// nothing, or when it was to be under another one: of another target, with other
// bounds, or that asks for nothing to be put back.
func (r *restoration) under(c *config.Autoscaler) *restoration {
	if r == nil || r.target != c.Target || c.OnForeignChange != config.RestoreForeignChange ||
		r.Min != *c.Spec.MinReplicas || r.Max != c.Spec.MaxReplicas {
		return nil
	}
	return r
}

// after returns what is still to be put back after a pass; nil once it is, or is not to
// be any more. A dry run puts nothing back, and leaves nothing to a run that does.
func (r *restoration) after(decision *policy.Decision, outcome policy.Outcome, dryRun bool) *restoration {
	reached := decision.Case == policy.CaseRestored && outcome.Kind == policy.Written && outcome.Reached == decision.DesiredReplicas
	if decision.Restore == nil || reached || dryRun {
		return nil
	}
	return r
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
