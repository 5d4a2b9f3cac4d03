package records

import (
	"time"

	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/daemon/state"
	"github.com/hpad/hpad/policy"
)

// RestoreForeign returns the restoration after an external writer changed the count to found. It
// keeps the count of an earlier restoration.
func RestoreForeign(earlier *state.Restoration, c *config.Autoscaler, replicas, found int32, now time.Time) *state.Restoration {
	next := &state.Restoration{
		Restoration: policy.Restoration{Replicas: replicas, Foreign: found, Since: now},
		Min:         *c.Spec.MinReplicas, Max: c.Spec.MaxReplicas,
	}
	if earlier != nil {
		next.Replicas, next.Since = earlier.Replicas, earlier.Since
	}
	return next
}

// RestorationUnder returns the restoration if it is still valid under the configuration c, and nil
// otherwise. It is valid if the bounds are the same and on_foreign_change is "restore".
func RestorationUnder(r *state.Restoration, c *config.Autoscaler) *state.Restoration {
	if r == nil || c.OnForeignChange != config.RestoreForeignChange || r.Min != *c.Spec.MinReplicas || r.Max != c.Spec.MaxReplicas {
		return nil
	}
	return r
}

// RestorationAfter returns the restoration after a pass. It is nil if the restoration is complete,
// or if a user set a different count. A dry run and the modes recommend and off do not restore
// counts.
func RestorationAfter(r *state.Restoration, decision *policy.Decision, outcome policy.Outcome, dryRun bool) *state.Restoration {
	reached := decision.Case == policy.CaseRestored && outcome.Kind == policy.Written && outcome.Reached == decision.DesiredReplicas
	commanded := decision.Case == policy.CaseCommanded && (outcome.Kind == policy.Written || !decision.Write)
	if decision.Restore == nil || reached || commanded || dryRun || decision.Mode == policy.ModeRecommend || decision.Mode == policy.ModeOff {
		return nil
	}
	return r
}

// ShownRestoration returns the restoration without its bounds, or nil.
func ShownRestoration(r *state.Restoration) *policy.Restoration {
	if r == nil {
		return nil
	}
	return &r.Restoration
}
