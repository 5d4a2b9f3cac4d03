package policy

import "time"

// PendingRestoration is the stored state of a manual change that is reverted. Other bounds end it.
type PendingRestoration struct {
	Restoration
	Min int32 `json:"min"`
	Max int32 `json:"max"`
}

// RestoreForeign returns the restoration after an external writer changed the count to found. It
// keeps the count of an earlier restoration, which may be nil.
func RestoreForeign(earlier *PendingRestoration, spec *Spec, replicas, found int32, now time.Time) *PendingRestoration {
	next := &PendingRestoration{
		Restoration: Restoration{Replicas: replicas, Foreign: found, Since: now},
		Min:         minReplicasOf(spec), Max: spec.MaxReplicas,
	}
	if earlier != nil {
		next.Replicas, next.Since = earlier.Replicas, earlier.Since
	}
	return next
}

// Under returns the restoration if it is still valid under a spec, and nil otherwise. It is valid if
// the bounds are the same and manual changes are reverted. The receiver may be nil.
func (r *PendingRestoration) Under(spec *Spec, reverts bool) *PendingRestoration {
	if r == nil || !reverts || r.Min != minReplicasOf(spec) || r.Max != spec.MaxReplicas {
		return nil
	}
	return r
}

// After returns the restoration after a pass. It is nil if the restoration is complete, or if a user
// set a different count. A dry run and the modes recommend and off do not restore counts.
func (r *PendingRestoration) After(decision *Decision, outcome Outcome, dryRun bool) *PendingRestoration {
	reached := decision.Case == CaseRestored && outcome.Kind == Written && outcome.Reached == decision.DesiredReplicas
	commanded := decision.Case == CaseCommanded && (outcome.Kind == Written || !decision.Write)
	if decision.Restore == nil || reached || commanded || dryRun || decision.Mode == ModeRecommend || decision.Mode == ModeOff {
		return nil
	}
	return r
}

// Shown returns the restoration without its bounds, or nil. The receiver may be nil.
func (r *PendingRestoration) Shown() *Restoration {
	if r == nil {
		return nil
	}
	return &r.Restoration
}
