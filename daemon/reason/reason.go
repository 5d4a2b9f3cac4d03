// Package reason has the one word that each pass ends with: why the count changed, why it
// did not, or why there was no pass. The words are stable, docs/reasons.md says what each
// means, and those that conditions and events have too are spelled as there.
package reason

// Code is why a pass ended as it did. The zero Code is that of no pass.
type Code uint8

// The codes. Their numbers mean nothing outside of the process.
const (
	// None: there was no pass yet.
	None Code = iota

	// MetricAboveTarget and AllBelowTarget: the metrics changed the count.
	MetricAboveTarget
	AllBelowTarget
	// MetricMissing: a metric that failed decided, by what its on_missing proposes.
	MetricMissing
	// EarlierRecommendation: one that the window remembers raised the count.
	EarlierRecommendation
	// AboveMax and BelowMin: the count was outside of the bounds, or came back from zero.
	AboveMax
	BelowMin
	// ForeignChanged: what somebody else had changed was put back.
	ForeignChanged
	// Commanded: a person set it.
	Commanded
	// RescaledInPart: only a part of the change could be made.
	RescaledInPart

	// MetricsAtTarget: the metrics ask for the count that there is.
	MetricsAtTarget
	// SomeMetricsFailed: those that were read ask for the count that there is.
	SomeMetricsFailed
	// ScaleDownStabilized and ScaleUpStabilized: a window holds the count.
	ScaleDownStabilized
	ScaleUpStabilized
	// TooFewReplicas and TooManyReplicas: min or max holds the count.
	TooFewReplicas
	TooManyReplicas
	// ScaleUpLimit and ScaleDownLimit: a rate does.
	ScaleUpLimit
	ScaleDownLimit
	// DirectionDisabled: the select policy of that direction is Disabled, or the mode is
	// that of the other one.
	DirectionDisabled
	// PlatformMin and PlatformMax: the platform's own bound holds the count.
	PlatformMin
	PlatformMax
	// ScalingDisabled: the count is 0, and not by the autoscaler.
	ScalingDisabled
	// ModeOff: the autoscaler's mode is off.
	ModeOff

	// DryRun: a change was decided, and hpad writes none.
	DryRun
	// Paused: a change was decided, and somebody paused it.
	Paused
	// BreakerOpen: a scale-down was decided, and the fleet's breaker holds all.
	BreakerOpen
	// ModeRecommend: a change was decided, and the autoscaler's mode is recommend.
	ModeRecommend
	// Held: a change was decided, and the platform does not take any for now.
	Held
	// ImplausibleReading: the guard does not believe the reading.
	ImplausibleReading

	// FailedGetScale: the target could not be read.
	FailedGetScale
	// TargetNotFound: there is no such target.
	TargetNotFound
	// TargetUnscalable: it cannot be scaled until its own configuration changes.
	TargetUnscalable
	// Forbidden: hpad may not read or write the target.
	Forbidden
	// FailedComputeMetricsReplicas: no metric could be read, or one that failed keeps
	// the others from scaling down.
	FailedComputeMetricsReplicas
	// FailedUpdateScale: the write failed.
	FailedUpdateScale
	// UnknownOutcome: nobody knows whether the write was made; the next reading says.
	UnknownOutcome
	// ForeignWriter: somebody else wrote the count meanwhile.
	ForeignWriter
	// NotOwner: another member of the cluster may own the fleet, and the count was left to
	// it.
	NotOwner

	// Panicked: the pass did. Quarantined: it did again and again, and there are none
	// for a while.
	Panicked
	Quarantined
	// Late: the tick went by while an earlier pass was still under way.
	Late
	// Abandoned: the daemon stops, or the autoscaler was removed.
	Abandoned

	codes
)

var names = [codes]string{
	"", "MetricAboveTarget", "AllBelowTarget", "MetricMissing", "EarlierRecommendation", "AboveMax", "BelowMin", "ForeignChanged", "Commanded", "RescaledInPart",
	"MetricsAtTarget", "SomeMetricsFailed", "ScaleDownStabilized", "ScaleUpStabilized", "TooFewReplicas", "TooManyReplicas",
	"ScaleUpLimit", "ScaleDownLimit", "DirectionDisabled", "PlatformMin", "PlatformMax", "ScalingDisabled", "ModeOff",
	"DryRun", "Paused", "BreakerOpen", "ModeRecommend", "Held", "ImplausibleReading",
	"FailedGetScale", "TargetNotFound", "TargetUnscalable", "Forbidden", "FailedComputeMetricsReplicas", "FailedUpdateScale", "UnknownOutcome", "ForeignWriter", "NotOwner",
	"Panicked", "Quarantined", "Late", "Abandoned",
}

// String returns the word, "" for None.
func (c Code) String() string {
	if c >= codes {
		return ""
	}
	return names[c]
}

// All returns every code but None, in the order of docs/reasons.md.
func All() []Code {
	all := make([]Code, 0, codes-1)
	for c := None + 1; c < codes; c++ {
		all = append(all, c)
	}
	return all
}
