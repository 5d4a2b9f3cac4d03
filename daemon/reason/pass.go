package reason

import (
	"cmp"
	"errors"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
)

// Pass contains the inputs of Of.
type Pass struct {
	Decision *policy.Decision
	Outcome  policy.Outcome
	// Err is the error of reading or writing the target, or nil.
	Err error
	// Implausible means that the guard rejected the reading. Lost means that an external writer
	// changed the count before hpad's write. Fenced means that another member of the cluster might
	// own the fleet.
	Implausible, Lost, Fenced bool
	// Failed reports whether the pass ended with an error.
	Failed bool
}

// Of returns the code of a complete pass. It is never None.
func Of(p Pass) Code {
	d := p.Decision
	switch {
	case d.Case == policy.CaseUnreadable:
		return ofRead(p.Err)
	case p.Implausible:
		return ImplausibleReading
	case d.Case == policy.CaseOff:
		return ModeOff
	case d.Case == policy.CaseDisabled:
		return ScalingDisabled
	case d.Case == policy.CaseMetricsFailed:
		return FailedComputeMetricsReplicas
	case d.DesiredReplicas == d.CurrentReplicas && d.Case == policy.CaseCommanded:
		return Commanded
	case d.DesiredReplicas == d.CurrentReplicas:
		return ofNoChange(d, p.Failed)
	case d.HeldBy == policy.HeldByPause:
		return Paused
	case d.HeldBy == policy.HeldByBreaker:
		return BreakerOpen
	case d.HeldBy == policy.HeldByMode:
		return ModeRecommend
	case d.Hold != nil || p.Outcome.Kind == policy.WriteHeld:
		return Held
	case p.Outcome.Kind == policy.Written && p.Outcome.Reached != d.DesiredReplicas:
		return RescaledInPart
	case p.Outcome.Kind == policy.Written:
		return ofChange(d)
	case p.Outcome.Kind == policy.WriteFailed:
		return ofWrite(p)
	}
	return DryRun // the only remaining reason
}

func ofRead(err error) Code {
	switch {
	case errors.Is(err, targets.ErrForbidden):
		return Forbidden
	case errors.Is(err, targets.ErrTargetNotFound):
		return TargetNotFound
	case errors.Is(err, targets.ErrUnscalable):
		return TargetUnscalable
	}
	return FailedGetScale
}

func ofWrite(p Pass) Code {
	switch {
	case p.Fenced:
		return NotOwner
	case p.Lost:
		return ForeignWriter
	case errors.Is(p.Err, targets.ErrUnknownOutcome):
		return UnknownOutcome
	case errors.Is(p.Err, targets.ErrForbidden):
		return Forbidden
	}
	return FailedUpdateScale
}

// ofChange returns the reason for a changed count. It can differ from the reason of the metrics,
// because the window can reverse the direction (R25.5).
func ofChange(d *policy.Decision) Code {
	up := cmp.Compare(d.DesiredReplicas, d.CurrentReplicas) > 0
	switch {
	case d.Reason == policy.MetricMissing && d.Recommendation != nil &&
		cmp.Compare(*d.Recommendation, d.CurrentReplicas) == cmp.Compare(d.DesiredReplicas, d.CurrentReplicas):
		return MetricMissing
	case d.Reason == policy.AboveMax:
		return AboveMax
	case d.Reason == policy.BelowMin:
		return BelowMin
	case d.Reason == policy.InitialReplicas:
		return InitialReplicas
	case d.Reason == policy.ForeignChanged:
		return ForeignChanged
	case d.Reason == policy.Commanded:
		return Commanded
	case d.Reason == policy.MetricAboveTarget && up:
		return MetricAboveTarget
	case d.Reason == policy.AllBelowTarget && !up:
		return AllBelowTarget
	}
	return EarlierRecommendation
}

// ofNoChange returns the reason for an unchanged count: the last step that prevented a change.
func ofNoChange(d *policy.Decision, failed bool) Code {
	switch {
	case d.Case == policy.CaseStopped:
		return TooManyReplicas
	case d.PlatformBound != nil && d.PlatformBound.Wanted > d.CurrentReplicas:
		return PlatformMax
	case d.PlatformBound != nil:
		return PlatformMin
	case d.Limit != nil && d.Limit.Limited:
		return ofLimit(d.Limit)
	case d.Outage != nil:
		return NoReadyInstance
	case d.Recommendation == nil || *d.Recommendation == d.CurrentReplicas:
	case *d.Recommendation > d.CurrentReplicas:
		return ScaleUpStabilized
	default:
		return ScaleDownStabilized
	}
	if d.Winner != nil && *d.Winner < len(d.Metrics) && d.Metrics[*d.Winner].FallsBack() {
		return MetricMissing
	}
	if failed {
		return SomeMetricsFailed
	}
	return MetricsAtTarget
}

func ofLimit(l *policy.Limit) Code {
	switch {
	case l.Reason == TooFewReplicas.String():
		return TooFewReplicas
	case l.Reason == TooManyReplicas.String():
		return TooManyReplicas
	case l.Policy == nil: // without behavior the rate always allows a step
		return DirectionDisabled
	case l.Reason == ScaleUpLimit.String():
		return ScaleUpLimit
	}
	return ScaleDownLimit
}
