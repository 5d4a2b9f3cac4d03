package policy

import "time"

// Case is the branch of R25 that a pass took.
type Case string

// The cases (R25).
const (
	// CaseUnreadable: the target could not be read (R25.1).
	CaseUnreadable Case = "Unreadable"
	// CaseDisabled: an operator scaled to zero (R51).
	CaseDisabled Case = "Disabled"
	// CaseOff: the autoscaler's mode is off; metrics are not read.
	CaseOff Case = "Off"
	// CaseAboveMax: more replicas than max; metrics are not evaluated (R25.4b).
	CaseAboveMax Case = "AboveMax"
	// CaseBelowMin: fewer replicas than min; metrics are not evaluated (R25.4c).
	CaseBelowMin Case = "BelowMin"
	// CaseRestored: a manual change is reverted. Recommendations are stored only.
	CaseRestored Case = "Restored"
	// CaseCommanded: an operator set the count. Recommendations are stored only.
	CaseCommanded Case = "Commanded"
	// CaseMetrics: the metrics decided (R25.5).
	CaseMetrics Case = "Metrics"
	// CaseMetricsFailed: the metrics could not decide (R47).
	CaseMetricsFailed Case = "MetricsFailed"
)

// RescaleReason is the reason of a change (R79).
type RescaleReason string

// The rescale reasons. NoReason is upstream's empty reason.
const (
	NoReason          RescaleReason = ""
	MetricAboveTarget RescaleReason = "MetricAboveTarget"
	AllBelowTarget    RescaleReason = "AllBelowTarget"
	// MetricMissing: the proposal of a fallback wins.
	MetricMissing  RescaleReason = metricMissing
	AboveMax       RescaleReason = "AboveMax"
	BelowMin       RescaleReason = "BelowMin"
	ForeignChanged RescaleReason = "ForeignChanged"
	Commanded      RescaleReason = "Commanded"
)

// Decision is the result of one pass, with every step and its numbers.
type Decision struct {
	// Time is the instant of the pass.
	Time time.Time `json:"time"`
	Case Case      `json:"case"`
	// CurrentReplicas and StatusReplicas are the wanted and the observed count.
	CurrentReplicas int32 `json:"current_replicas"`
	StatusReplicas  int32 `json:"status_replicas"`
	MinReplicas     int32 `json:"min_replicas"`
	MaxReplicas     int32 `json:"max_replicas"`
	// Command is the count that an operator set; nil if absent.
	Command *Command `json:"command,omitempty"`
	// PlatformMin and PlatformMax are the platform's own bounds; nil if absent.
	PlatformMin *int32 `json:"platform_min,omitempty"`
	PlatformMax *int32 `json:"platform_max,omitempty"`
	// Foreign is a manual change since the last pass; nil if absent.
	Foreign *ForeignChange `json:"foreign,omitempty"`
	// Restore is a count to restore after a manual change; nil if absent.
	Restore *Restoration `json:"restore,omitempty"`
	// Mode is empty for "on". Pauses are the active pauses.
	Mode   Mode    `json:"mode,omitempty"`
	Pauses []Pause `json:"pauses,omitempty"`
	// Notices are other messages of the platform.
	Notices []Notice `json:"notices,omitempty"`
	// Metrics has one result for each metric of the spec; empty if none was evaluated.
	Metrics []MetricResult `json:"metrics,omitempty"`
	// Raw is the merged proposal (R46); nil if absent.
	Raw *int32 `json:"raw,omitempty"`
	// Winner is the index of the metric that determined Raw; nil if absent.
	Winner *int `json:"winner,omitempty"`
	// Recommendation is max(0, Raw), the stored count (R25.5); nil if absent.
	Recommendation *int32 `json:"recommendation,omitempty"`
	// Stabilization is nil in cases without stabilization.
	Stabilization *Stabilization `json:"stabilization,omitempty"`
	// Limit is nil in cases without limits.
	Limit *Limit `json:"limit,omitempty"`
	// RaisedToMin reports whether R53 raised the count from zero to min.
	RaisedToMin bool `json:"raised_to_min,omitempty"`
	// PlatformBound is the platform's bound that limited the count; nil if absent.
	PlatformBound *PlatformBound `json:"platform_bound,omitempty"`
	// DesiredReplicas equals CurrentReplicas if there is no change.
	DesiredReplicas int32 `json:"desired_replicas"`
	// Write reports whether DesiredReplicas is to be written. It is false if the count is the
	// same, or if a hold, pause or mode prevents the write.
	Write bool `json:"write"`
	// Hold is the platform's hold; nil if absent.
	Hold *Hold `json:"hold,omitempty"`
	// HeldBy is the pause, breaker or mode that prevents a change; empty if absent.
	HeldBy HeldBy `json:"held_by,omitempty"`
	// Reason is the reason of a change (R79), and Message the text for events and users.
	Reason  RescaleReason `json:"reason,omitempty"`
	Message string        `json:"message"`
	// Error is the error of the pass. A pass with an error may still write (R25.8).
	Error string `json:"error,omitempty"`

	// Memory and Status are the next ones if nothing is written; Settle completes them. Events
	// are those before the write.
	Memory Memory  `json:"-"`
	Status Status  `json:"-"`
	Events []Event `json:"-"`

	settling settling
}

// MetricResult is the calculation of one metric.
type MetricResult struct {
	Type   MetricType `json:"type"`
	Name   string     `json:"name"`
	Task   string     `json:"task,omitempty"`
	Object string     `json:"object,omitempty"`
	// Error is the error of the metric. Then only the steps before it are set, and the proposal
	// of a fallback.
	Error string `json:"error,omitempty"`
	// Fallback is set if a metric with OnMissing failed.
	Fallback *Fallback `json:"fallback,omitempty"`
	// Warnings are the warnings of the source. Partial is the warning that marks a partial
	// result.
	Warnings []string `json:"warnings,omitempty"`
	Partial  string   `json:"partial,omitempty"`
	// TargetType is the target field in use (R31, R39, R40), and TargetValue its value in percent or
	// milli-units.
	TargetType  TargetType `json:"target_type,omitempty"`
	TargetValue int64      `json:"target_value,omitempty"`
	// Current is the value in the status (R76).
	Current MetricStatus `json:"current"`
	// Groups are the groups of instances (R27); nil for Object and External.
	Groups *Groups `json:"groups,omitempty"`
	// Ratio is usage over target; nil if it was not calculated or is not finite.
	Ratio *float64 `json:"ratio,omitempty"`
	// CompletedRatio is the ratio after missing and unready instances were added (R36.4); nil
	// if there are none.
	CompletedRatio *float64 `json:"completed_ratio,omitempty"`
	// ToleranceDown and ToleranceUp are the tolerance band (R30).
	ToleranceDown float64 `json:"tolerance_down"`
	ToleranceUp   float64 `json:"tolerance_up"`
	// Total is the total of an External or Object metric with a target per instance, in
	// milli-units.
	Total int64 `json:"total,omitempty"`
	// Series is the number of values in the sum of an External metric (R42, R43); 0 for a
	// single value.
	Series int32 `json:"series,omitempty"`
	// Ready is the number of running and ready instances, for a target of the metric as a whole
	// (R41); -1 if there are no instances.
	Ready int32 `json:"ready,omitempty"`
	// Requests are set for a utilization with missing or unready instances (R36.3).
	Requests *Requests `json:"requests,omitempty"`
	// Within reports whether the decisive ratio was inside the band.
	Within bool `json:"within"`
	// BaseCount is the factor of the ratio; 0 if the ratio was not used.
	BaseCount int32 `json:"base_count,omitempty"`
	Proposal  int32 `json:"proposal"`
	// Rule is the rule of the proposal, as "R36.2".
	Rule string `json:"rule,omitempty"`
}

// Requests are sums over the instances of each group, in milli-units.
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
	// UpWindow is 0 without behavior.
	UpWindow   time.Duration `json:"up_window"`
	DownWindow time.Duration `json:"down_window"`
	Replicas   int32         `json:"replicas"`
	// Binding is the earlier recommendation that determines the count; nil if the current one
	// does.
	Binding *Recommendation `json:"binding,omitempty"`
	// BindingLeaves is the end of Binding's window. At that time it no longer counts with
	// behavior (R62), but still counts without (R55).
	BindingLeaves time.Time `json:"binding_leaves,omitzero"`
	// Reason is ReadyForNewScale, ScaleDownStabilized or ScaleUpStabilized.
	Reason string `json:"reason"`
}

// Limit is the step from the stabilized count to the allowed one (R57, R69).
type Limit struct {
	// Allowed is the bound in the direction of the change.
	Allowed int32 `json:"allowed"`
	// Rate is the rate limit before min or max; nil if absent.
	Rate *int32 `json:"rate,omitempty"`
	// Policy is the scaling policy of the rate; nil if absent.
	Policy *ScalingPolicy `json:"policy,omitempty"`
	// PeriodStart is the count at the start of the policy's period (R66).
	PeriodStart int32 `json:"period_start,omitempty"`
	// Replicas is the count after this step.
	Replicas int32  `json:"replicas"`
	Limited  bool   `json:"limited"`
	Reason   string `json:"reason"`
}

// PlatformBound is a bound of the platform that limited the count.
type PlatformBound struct {
	// Reason is PlatformMin or PlatformMax.
	Reason   string `json:"reason"`
	Replicas int32  `json:"replicas"`
	// Wanted is the count before the limit.
	Wanted int32 `json:"wanted"`
}

// OutcomeKind is the kind of an Outcome.
type OutcomeKind uint8

// The outcomes of a write.
const (
	// NotWritten: there was no write, or writing is disabled.
	NotWritten OutcomeKind = iota
	// Written: the platform accepted the count (R72).
	Written
	// WriteFailed: the platform rejected the count, or the outcome is unknown (R71).
	WriteFailed
	// WriteHeld: the platform must not be written to now; no error.
	WriteHeld
)

// Outcome is the result of a decision's write.
type Outcome struct {
	Kind OutcomeKind
	// Reached is the accepted count, for Written. It differs from the desired count after a
	// partial change (R73).
	Reached int32
	// Error is set for WriteFailed, and for Written after a partial change. It names the
	// operation.
	Error string
	// Reason is the platform's reason code of a WriteFailed; empty means the reason of R71.
	Reason string
	// Hold is set for WriteHeld.
	Hold *Hold
}

// Settlement is the result of [Settle].
type Settlement struct {
	Memory Memory
	Status Status
	// StatusChanged reports whether Status differs from the previous one (R74).
	StatusChanged bool
	// Events are all events of the pass, in order (R78).
	Events []Event
	// Error is the error of the whole pass; empty if absent.
	Error string
}

// Intention is a write without a known outcome.
type Intention struct {
	From    int32         `json:"from"`
	To      int32         `json:"to"`
	Time    time.Time     `json:"time"`
	Reason  RescaleReason `json:"reason,omitempty"`
	Message string        `json:"message,omitempty"`
}

// Engine is the version of the rules. It must be increased when the same inputs can lead to
// another decision or another record of it.
const Engine = 3

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
	// Meanwhile are pauses that began after the decision and prevented it.
	Meanwhile []Pause `json:"meanwhile,omitempty"`
}

// Decide calls [Decide] and then [Decision.HoldBy].
func (in *Inputs) Decide() Decision {
	d := Decide(in.Settings, in.Spec, in.Memory, in.Status, in.Observation, in.Now)
	d.HoldBy(in.Meanwhile, in.Now)
	return d
}
