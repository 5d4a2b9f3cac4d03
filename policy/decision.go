package policy

import "time"

// Case is the branch of R25 that a pass took.
type Case string

// The cases (R25).
const (
	// CaseUnreadable means that the target could not be read (R25.1).
	CaseUnreadable Case = "Unreadable"
	// CaseDisabled means that an operator scaled the target to zero (R51).
	CaseDisabled Case = "Disabled"
	// CaseStopped means that a schedule stopped the target, and that its window has not ended
	// (deviation). Metrics are not evaluated.
	CaseStopped Case = "Stopped"
	// CaseNeverStarted means that a target that has never been started starts with its initial count
	// (deviation). Metrics are not evaluated.
	CaseNeverStarted Case = "NeverStarted"
	// CaseOff means that the autoscaler's mode is off. Metrics are not read.
	CaseOff Case = "Off"
	// CaseAboveMax means that the target has more than max replicas. Metrics are not evaluated
	// (R25.4b).
	CaseAboveMax Case = "AboveMax"
	// CaseBelowMin means that the target has fewer than min replicas. Metrics are not evaluated
	// (R25.4c).
	CaseBelowMin Case = "BelowMin"
	// CaseRestored means that a manual change is reverted. The recommendation is stored but not
	// applied.
	CaseRestored Case = "Restored"
	// CaseCommanded means that an operator set the count. The recommendation is stored but not
	// applied.
	CaseCommanded Case = "Commanded"
	// CaseMetrics means that the metrics determined the recommendation (R25.5).
	CaseMetrics Case = "Metrics"
	// CaseMetricsFailed means that failed metrics prevented a recommendation (R47).
	CaseMetricsFailed Case = "MetricsFailed"
)

// RescaleReason is the reason for a change (R79).
type RescaleReason string

// The rescale reasons. NoReason is upstream's empty reason.
const (
	NoReason          RescaleReason = ""
	MetricAboveTarget RescaleReason = "MetricAboveTarget"
	AllBelowTarget    RescaleReason = "AllBelowTarget"
	// MetricMissing means that a fallback proposed the count.
	MetricMissing  RescaleReason = metricMissing
	AboveMax       RescaleReason = "AboveMax"
	BelowMin       RescaleReason = "BelowMin"
	ForeignChanged RescaleReason = "ForeignChanged"
	// InitialReplicas means that a target that has never been started starts.
	InitialReplicas RescaleReason = "InitialReplicas"
	Commanded       RescaleReason = "Commanded"
)

// Decision is the result of one pass, with every step and its numbers.
type Decision struct {
	// Time is the instant of the pass.
	Time time.Time `json:"time"`
	Case Case      `json:"case"`
	// CurrentReplicas is the target's desired count. StatusReplicas is its observed count. The API omits
	// both if the target could not be read.
	CurrentReplicas int32 `json:"current_replicas"`
	StatusReplicas  int32 `json:"status_replicas"`
	MinReplicas     int32 `json:"min_replicas"`
	MaxReplicas     int32 `json:"max_replicas"`
	// Command is the count that an operator set, or nil.
	Command *Command `json:"command,omitempty"`
	// PlatformMin and PlatformMax are the platform's own bounds; nil if the platform has none.
	PlatformMin *int32 `json:"platform_min,omitempty"`
	PlatformMax *int32 `json:"platform_max,omitempty"`
	// Foreign is a manual change since the last pass, or nil.
	Foreign *ForeignChange `json:"foreign,omitempty"`
	// NeverStarted reports whether the target has never been started. Finite reports whether its
	// instances end by themselves.
	NeverStarted bool `json:"never_started,omitempty"`
	Finite       bool `json:"finite,omitempty"`
	// Restore is the count to restore after a manual change, or nil.
	Restore *Restoration `json:"restore,omitempty"`
	// Mode restricts the autoscaler; empty for "on". Pauses lists the active pauses.
	Mode   Mode    `json:"mode,omitempty"`
	Pauses []Pause `json:"pauses,omitempty"`
	// Notices are other messages from the platform.
	Notices []Notice `json:"notices,omitempty"`
	// Metrics contains one result for each metric of the spec. It is empty if no metric was
	// evaluated.
	Metrics []MetricResult `json:"metrics,omitempty"`
	// Raw is the merged proposal (R46), or nil.
	Raw *int32 `json:"raw,omitempty"`
	// Winner is the index of the metric that determined Raw, or nil.
	Winner *int `json:"winner,omitempty"`
	// Recommendation is max(0, Raw), the stored count (R25.5), or nil. An outage can raise it.
	Recommendation *int32 `json:"recommendation,omitempty"`
	// Outage describes the lack of ready instances that raised the recommendation to the current
	// count, or is nil.
	Outage *Outage `json:"outage,omitempty"`
	// Stabilization describes the effect of the windows; nil in cases without stabilization.
	Stabilization *Stabilization `json:"stabilization,omitempty"`
	// Limit describes the effect of rates and bounds; nil in cases without limits.
	Limit *Limit `json:"limit,omitempty"`
	// RaisedToMin reports whether R53 raised the count from zero to min.
	RaisedToMin bool `json:"raised_to_min,omitempty"`
	// PlatformBound is the platform's bound that limited the count, or nil.
	PlatformBound *PlatformBound `json:"platform_bound,omitempty"`
	// DesiredReplicas is the count that the pass requests. It equals CurrentReplicas if there is no
	// change. The API omits it if the target could not be read.
	DesiredReplicas int32 `json:"desired_replicas"`
	// Write reports whether DesiredReplicas must be written. It is false if the count is unchanged,
	// or if a hold, pause or mode prevents the write.
	Write bool `json:"write"`
	// Hold is the platform's hold, or nil.
	Hold *Hold `json:"hold,omitempty"`
	// HeldBy is HeldByPause, HeldByBreaker or HeldByMode if one of them prevents a change;
	// otherwise empty.
	HeldBy HeldBy `json:"held_by,omitempty"`
	// Reason explains a change (R79). Message explains the decision to users, also in
	// events.
	Reason  RescaleReason `json:"reason,omitempty"`
	Message string        `json:"message"`
	// Error explains a failed metric or reading. A pass with an error may still write (R25.8).
	Error string `json:"error,omitempty"`

	// Draft is set until the decision is settled; see [Decision.Explained].
	*Draft `json:"-"`
}

// Draft contains the inputs of [Settle].
type Draft struct {
	// Memory and Status are the memory and status after the pass if nothing is written. Events are
	// the events before the write. Settle completes all three.
	Memory Memory
	Status Status
	Events []Event

	previous Status
	rules    eventRules
}

// MetricResult is the calculation of one metric.
type MetricResult struct {
	Type   MetricType `json:"type"`
	Name   string     `json:"name"`
	Task   string     `json:"task,omitempty"`
	Object string     `json:"object,omitempty"`
	// Input reports whether the metric is only an input of a formula, so that its proposal does not
	// count unless it is a fallback.
	Input bool `json:"input,omitempty"`
	// Error explains the failure of the metric. If it is set, only the results of the preceding
	// steps and the proposal of a fallback are set.
	Error string `json:"error,omitempty"`
	// Fallback is the current or future proposal of a failed metric with on_missing, or nil.
	Fallback *Fallback `json:"fallback,omitempty"`
	// Warnings are the source's warnings. Partial is the warning that marks a partial result.
	Warnings []string `json:"warnings,omitempty"`
	Partial  string   `json:"partial,omitempty"`
	// TargetType is the target field in use (R31, R39, R40). TargetValue is its value in percent or
	// milli-units.
	TargetType  TargetType `json:"target_type,omitempty"`
	TargetValue int64      `json:"target_value,omitempty"`
	// UtilizationOf is the base of a utilization, "request" or "limit"; empty means "request".
	UtilizationOf string `json:"utilization_of,omitempty"`
	// Binary reports whether the target value is written with a binary unit, such as "100Mi".
	Binary bool `json:"binary,omitempty"`
	// Current is the metric's value in the status (R76).
	Current MetricStatus `json:"current"`
	// Groups contains the number of instances in each group (R27). It is nil for Object and
	// External metrics.
	Groups *Groups `json:"groups,omitempty"`
	// Ratio is usage divided by target; nil if it was not calculated or is not finite.
	Ratio *float64 `json:"ratio,omitempty"`
	// CompletedRatio is the ratio after missing and unready instances were added (R36.4); nil if
	// there are no such instances.
	CompletedRatio *float64 `json:"completed_ratio,omitempty"`
	// ToleranceDown and ToleranceUp are the limits of the tolerance band (R30).
	ToleranceDown float64 `json:"tolerance_down"`
	ToleranceUp   float64 `json:"tolerance_up"`
	// ActivationMilli is the metric's activation if the metric proposes 0 because of it, or nil.
	ActivationMilli *int64 `json:"activation_milli,omitempty"`
	// Total is the whole value of an External or Object metric with a target per instance, in
	// milli-units.
	Total int64 `json:"total,omitempty"`
	// Series is the number of values in the sum of an External metric (R42, R43); 0 for a single
	// value.
	Series int32 `json:"series,omitempty"`
	// Ready is the number of running and ready instances (R41), or -1 if there are no instances. It
	// is set only for a target of type Value.
	Ready int32 `json:"ready,omitempty"`
	// Requests is set for a utilization with missing or unready instances (R36.3).
	Requests *Requests `json:"requests,omitempty"`
	// Within reports whether the ratio that determined the proposal was inside the tolerance band.
	Within bool `json:"within"`
	// BaseCount is the count that was multiplied by the ratio; 0 if the ratio was not used.
	BaseCount int32 `json:"base_count,omitempty"`
	Proposal  int32 `json:"proposal"`
	// Rule is a number in docs/algorithm.md, such as "R36.2", of the step that determined the
	// proposal.
	Rule string `json:"rule,omitempty"`
}

// Requests contains the summed requests of each group of instances, in milli-units.
type Requests struct {
	Ready   int64 `json:"ready"`
	Missing int64 `json:"missing,omitempty"`
	Unready int64 `json:"unready,omitempty"`
	// MissingFill is the assumed usage of missing instances (R36.3).
	MissingFill int64 `json:"missing_fill,omitempty"`
}

// Groups counts the instances of each group (R27).
type Groups struct {
	Ready   int `json:"ready"`
	Unready int `json:"unready"`
	Missing int `json:"missing"`
	Ignored int `json:"ignored"`
	// Extraneous counts samples of unknown instances (R34).
	Extraneous int `json:"extraneous,omitempty"`
}

// Stabilization is the step from the recommendation to the stabilized count (R55, R62).
type Stabilization struct {
	// UpWindow and DownWindow are the stabilization windows. UpWindow is 0 if the spec has no behavior.
	UpWindow   time.Duration `json:"up_window"`
	DownWindow time.Duration `json:"down_window"`
	Replicas   int32         `json:"replicas"`
	// Binding is the earlier recommendation that determines the count; nil if the current
	// recommendation does.
	Binding *Recommendation `json:"binding,omitempty"`
	// BindingLeaves is the end of Binding's window. At exactly that time, Binding no longer applies
	// with behavior (R62) but still applies without behavior (R55).
	BindingLeaves time.Time `json:"binding_leaves,omitzero"`
	// Reason is ReadyForNewScale, ScaleDownStabilized or ScaleUpStabilized.
	Reason string `json:"reason"`
}

// Limit is the step from the stabilized count to the allowed count (R57, R69).
type Limit struct {
	// Allowed is the bound in the direction of the change.
	Allowed int32 `json:"allowed"`
	// Rate is the count that the policy permits before min or max is applied, or nil.
	Rate *int32 `json:"rate,omitempty"`
	// Policy is the scaling policy that set the rate, or nil.
	Policy *ScalingPolicy `json:"policy,omitempty"`
	// PeriodStart is the count at the start of the policy's period (R66).
	PeriodStart int32 `json:"period_start,omitempty"`
	// Replicas is the count after this step.
	Replicas int32 `json:"replicas"`
	// Limited reports whether this step changed the count.
	Limited bool   `json:"limited"`
	Reason  string `json:"reason"`
}

// PlatformBound is a bound of the platform that limited the count.
type PlatformBound struct {
	// Reason is "PlatformMin" or "PlatformMax".
	Reason   string `json:"reason"`
	Replicas int32  `json:"replicas"`
	// Wanted is the count before the limit.
	Wanted int32 `json:"wanted"`
}

// OutcomeKind is the kind of an Outcome.
type OutcomeKind uint8

// The outcomes of a write.
const (
	// NotWritten means that no write was necessary, or that writes are disabled.
	NotWritten OutcomeKind = iota
	// Written means that the platform accepted the count (R72).
	Written
	// WriteFailed means that the platform rejected the count, or that the outcome is unknown (R71).
	WriteFailed
	// WriteHeld means that the platform currently does not accept writes. This is not an error.
	WriteHeld
)

// Outcome is the result of a decision's write.
type Outcome struct {
	Kind OutcomeKind
	// Reached is the accepted count if Kind is Written. It differs from the desired count after a
	// partial change (R73).
	Reached int32
	// Error is set if Kind is WriteFailed, or if Kind is Written after a partial change. It names
	// the operation.
	Error string
	// Reason is the platform's reason code for a failed write. If it is empty, R71 defines the
	// reason.
	Reason string
	// Hold is set for WriteHeld.
	Hold *Hold
}

// Settlement is the result of [Settle].
type Settlement struct {
	Memory Memory
	Status Status
	// StatusChanged reports whether Status differs from the previous status (R74).
	StatusChanged bool
	// Events are all events of the pass, in order (R78).
	Events []Event
	// Error explains the failure of the whole pass, or is empty.
	Error string
}

// Intention describes a write whose outcome is not known yet. It is set before each write and
// cleared when the outcome is known.
type Intention struct {
	From    int32         `json:"from"`
	To      int32         `json:"to"`
	Time    time.Time     `json:"time"`
	Reason  RescaleReason `json:"reason,omitempty"`
	Message string        `json:"message,omitempty"`
}

// Engine is the version of the rules. Increase it when the same inputs can lead to a different
// decision or to a different record of the decision.
const Engine = 8

// Inputs are all inputs of a decision. With the same [Engine], [Inputs.Decide] always returns
// the same decision.
type Inputs struct {
	Settings    Settings    `json:"settings"`
	Spec        Spec        `json:"spec"`
	Memory      Memory      `json:"memory,omitzero"`
	Status      Status      `json:"status,omitzero"`
	Observation Observation `json:"observation"`
	// Now is the instant of the pass.
	Now time.Time `json:"now"`
	// Meanwhile lists pauses that began after the decision and prevented it.
	Meanwhile []Pause `json:"meanwhile,omitempty"`
}

// Decide calls [Decide] and then [Decision.HoldBy].
func (in *Inputs) Decide() Decision {
	d := Decide(in.Settings, in.Spec, in.Memory, in.Status, in.Observation, in.Now)
	d.HoldBy(in.Meanwhile, in.Now)
	return d
}
