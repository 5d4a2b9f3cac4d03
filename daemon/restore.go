package daemon

import (
	"time"

	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/daemon/state"
	"github.com/hpad/hpad/policy"
)

// restoreForeign returns what is to be put back after somebody else changed the count
// to found, under the definition of the autoscaler. Where there is something already,
// that still is, and the newer count is the foreign one.
func restoreForeign(earlier *state.Restoration, c *config.Autoscaler, replicas, found int32, now time.Time) *state.Restoration {
	next := &state.Restoration{
		Restoration: policy.Restoration{Replicas: replicas, Foreign: found, Since: now},
		Min:         *c.Spec.MinReplicas, Max: c.Spec.MaxReplicas,
	}
	if earlier != nil {
		next.Replicas, next.Since = earlier.Replicas, earlier.Since
	}
	return next
}

// restorationUnder returns what is to be put back under a definition; nil when there is
// nothing, or when it was to be under another one: with other bounds, or that asks for
// nothing to be put back.
func restorationUnder(r *state.Restoration, c *config.Autoscaler) *state.Restoration {
	if r == nil || c.OnForeignChange != config.RestoreForeignChange || r.Min != *c.Spec.MinReplicas || r.Max != c.Spec.MaxReplicas {
		return nil
	}
	return r
}

// restorationAfter returns what is still to be put back after a pass; nil once it is, or
// is not to be any more: a person set another count meanwhile. A dry run, and a mode that
// only recommends or is off, put nothing back, and leave nothing to a pass that does.
func restorationAfter(r *state.Restoration, decision *policy.Decision, outcome policy.Outcome, dryRun bool) *state.Restoration {
	reached := decision.Case == policy.CaseRestored && outcome.Kind == policy.Written && outcome.Reached == decision.DesiredReplicas
	commanded := decision.Case == policy.CaseCommanded && (outcome.Kind == policy.Written || !decision.Write)
	if decision.Restore == nil || reached || commanded || dryRun || decision.Mode == policy.ModeRecommend || decision.Mode == policy.ModeOff {
		return nil
	}
	return r
}

// shownRestoration returns what is to be put back as readers see it, nil when there is
// nothing.
func shownRestoration(r *state.Restoration) *policy.Restoration {
	if r == nil {
		return nil
	}
	return &r.Restoration
}
