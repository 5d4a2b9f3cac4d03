// Package reason defines the reason code of a pass: why the count changed, why it did not change,
// or why there was no pass. The codes are stable and documented in docs/reasons.md. Conditions and
// events with the same reason use the same code.
package reason

// Code is the reason code of a pass. The zero value is None.
type Code uint8

// The codes. Their numbers are not stored.
const (
	// None is the code before the first pass.
	None Code = iota

	// MetricAboveTarget and AllBelowTarget are changes that the metrics request.
	MetricAboveTarget
	AllBelowTarget
	// MetricMissing means that the on_missing proposal of a failed metric determined the count.
	MetricMissing
	// EarlierRecommendation means that an earlier recommendation in the window determined the
	// count.
	EarlierRecommendation
	// AboveMax and BelowMin are corrections of a count outside the bounds.
	AboveMax
	BelowMin
	// InitialReplicas is the first start of a target.
	InitialReplicas
	// ForeignChanged is the restoration of a count after an external change.
	ForeignChanged
	// Commanded is a count that an operator set.
	Commanded
	// RescaledInPart is a partial change.
	RescaledInPart

	// MetricsAtTarget means that the metrics request the current count.
	MetricsAtTarget
	// SomeMetricsFailed means that the readable metrics request the current count.
	SomeMetricsFailed
	// ScaleDownStabilized and ScaleUpStabilized mean that a stabilization window prevents a change.
	ScaleDownStabilized
	ScaleUpStabilized
	// TooFewReplicas and TooManyReplicas mean that min or max prevents a change.
	TooFewReplicas
	TooManyReplicas
	// ScaleUpLimit and ScaleDownLimit mean that a rate limit prevents a change.
	ScaleUpLimit
	ScaleDownLimit
	// NoReadyInstance means that no instance is ready, so that the metrics do not lower the count.
	NoReadyInstance
	// DirectionDisabled means that the select policy or the mode excludes the direction.
	DirectionDisabled
	// PlatformMin and PlatformMax mean that the platform's own bound prevents a change.
	PlatformMin
	PlatformMax
	// ScalingDisabled means that the count was set to 0.
	ScalingDisabled
	// ModeOff means that the mode of the autoscaler is off.
	ModeOff

	// DryRun is a change that a dry run does not write.
	DryRun
	// Paused is a change that a pause prevents.
	Paused
	// BreakerOpen is a scale-down that the fleet's breaker prevents.
	BreakerOpen
	// ModeRecommend is a change that the mode recommend does not write.
	ModeRecommend
	// Held is a change that the platform currently does not accept.
	Held
	// ImplausibleReading means that the guard rejected the reading.
	ImplausibleReading

	// FailedGetScale means that the target could not be read.
	FailedGetScale
	// TargetNotFound means that the target does not exist.
	TargetNotFound
	// TargetUnscalable means that the target cannot be scaled until its configuration changes.
	TargetUnscalable
	// Forbidden means that hpad lacks permission to read or write the target.
	Forbidden
	// FailedComputeMetricsReplicas means that no metric could be read, or that a failed metric
	// prevents a scale-down.
	FailedComputeMetricsReplicas
	// FailedUpdateScale means that the write failed.
	FailedUpdateScale
	// UnknownOutcome means that the result of the write is unknown until the next reading.
	UnknownOutcome
	// ForeignWriter means that an external writer changed the count before hpad's write.
	ForeignWriter
	// NotOwner means that another member of the cluster might own the fleet.
	NotOwner

	// Panicked means that the pass panicked. Quarantined means that the autoscaler is not evaluated
	// for some minutes, after repeated panics or because the state store rejected its record.
	Panicked
	Quarantined
	// Late is a tick that arrived during an earlier pass.
	Late
	// Abandoned means that the daemon is stopping, or that the autoscaler was removed.
	Abandoned

	codes
)

var names = [codes]string{
	"", "MetricAboveTarget", "AllBelowTarget", "MetricMissing", "EarlierRecommendation", "AboveMax", "BelowMin", "InitialReplicas", "ForeignChanged", "Commanded", "RescaledInPart",
	"MetricsAtTarget", "SomeMetricsFailed", "ScaleDownStabilized", "ScaleUpStabilized", "TooFewReplicas", "TooManyReplicas",
	"ScaleUpLimit", "ScaleDownLimit", "NoReadyInstance", "DirectionDisabled", "PlatformMin", "PlatformMax", "ScalingDisabled", "ModeOff",
	"DryRun", "Paused", "BreakerOpen", "ModeRecommend", "Held", "ImplausibleReading",
	"FailedGetScale", "TargetNotFound", "TargetUnscalable", "Forbidden", "FailedComputeMetricsReplicas", "FailedUpdateScale", "UnknownOutcome", "ForeignWriter", "NotOwner",
	"Panicked", "Quarantined", "Late", "Abandoned",
}

// String returns the code as text, or "" for None.
func (c Code) String() string {
	if c >= codes {
		return ""
	}
	return names[c]
}

// All returns all codes except None, in the order of docs/reasons.md.
func All() []Code {
	all := make([]Code, 0, codes-1)
	for c := None + 1; c < codes; c++ {
		all = append(all, c)
	}
	return all
}
