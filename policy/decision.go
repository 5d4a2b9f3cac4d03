package policy

import "time"

// Case is which branch of R25 a pass took.
type Case string

// The cases (R25).
const (
	// CaseUnreadable: the target could not be read (R25.1).
	CaseUnreadable Case = "Unreadable"
	// CaseDisabled: zero replicas by hand, maintenance mode (R51).
	CaseDisabled Case = "Disabled"
	// CaseOff: the autoscaler's mode is off; metrics are not read.
	CaseOff Case = "Off"
	// CaseAboveMax: more replicas than max; metrics play no part (R25.4b).
	CaseAboveMax Case = "AboveMax"
	// CaseBelowMin: fewer replicas than min; metrics play no part (R25.4c).
	CaseBelowMin Case = "BelowMin"
	// CaseRestored: somebody else changed the count, and it is put back. Metrics
	// are remembered and play no other part.
	CaseRestored Case = "Restored"
	// CaseCommanded: a person set the count. Metrics are remembered and play no other
	// part.
	CaseCommanded Case = "Commanded"
	// CaseMetrics: the metrics decided (R25.5).
	CaseMetrics Case = "Metrics"
	// CaseMetricsFailed: the metrics could not decide (R47).
	CaseMetricsFailed Case = "MetricsFailed"
)

// RescaleReason is why a count changes (R79).
type RescaleReason string

// The rescale reasons. NoReason is upstream's empty reason.
const (
	NoReason          RescaleReason = ""
	MetricAboveTarget RescaleReason = "MetricAboveTarget"
	AllBelowTarget    RescaleReason = "AllBelowTarget"
	// MetricMissing: what a metric that failed proposes by its OnMissing wins.
	MetricMissing RescaleReason = metricMissing
	AboveMax      RescaleReason = "AboveMax"
	BelowMin      RescaleReason = "BelowMin"
	// ForeignChanged is the reason of a CaseRestored.
	ForeignChanged RescaleReason = "ForeignChanged"
	// Commanded is the reason of a CaseCommanded.
	Commanded RescaleReason = "Commanded"
)

// Decision is what one pass concluded, with every step that led to it and its
// numbers. What explains a decision to a person prints this record and
// computes nothing.
type Decision struct {
	// Time is the pass's one instant.
	Time time.Time `json:"time"`
	Case Case      `json:"case"`
	// CurrentReplicas and StatusReplicas are the counts as read.
	CurrentReplicas int32 `json:"current_replicas"`
	StatusReplicas  int32 `json:"status_replicas"`
	MinReplicas     int32 `json:"min_replicas"`
	MaxReplicas     int32 `json:"max_replicas"`
	// Command is the count that a person set in this pass; nil when none did.
	Command *Command `json:"command,omitempty"`
	// PlatformMin and PlatformMax are the platform's own bounds; nil where there is none.
	PlatformMin *int32 `json:"platform_min,omitempty"`
	PlatformMax *int32 `json:"platform_max,omitempty"`
	// Foreign is the change that somebody else made since the last pass; nil when
	// nobody did.
	Foreign *ForeignChange `json:"foreign,omitempty"`
	// Restore is the count that this pass is to put back, after a change of this
	// pass or of an earlier one; nil when there is none, or it is there again.
	Restore *Restoration `json:"restore,omitempty"`
	// Mode is the autoscaler's; empty for "on". Pauses are those in force; empty when
	// there is none.
	Mode   Mode    `json:"mode,omitempty"`
	Pauses []Pause `json:"pauses,omitempty"`
	// Notices are what else the platform said of the target; empty when nothing.
	Notices []Notice `json:"notices,omitempty"`
	// Metrics has one result per metric of the spec, in order; empty when none
	// was computed.
	Metrics []MetricResult `json:"metrics,omitempty"`
	// Raw is the merged proposal (R46); nil when there is none.
	Raw *int32 `json:"raw,omitempty"`
	// Winner is the index in Metrics of the metric that set Raw; nil when none did.
	Winner *int `json:"winner,omitempty"`
	// Recommendation is max(0, Raw): the count stored for stabilization (R25.5).
	// Nil when nothing was stored.
	Recommendation *int32 `json:"recommendation,omitempty"`
	// Stabilization is what the window made of it; nil in cases without one.
	Stabilization *Stabilization `json:"stabilization,omitempty"`
	// Limit is what rates and bounds made of that; nil in cases without one.
	Limit *Limit `json:"limit,omitempty"`
	// RaisedToMin reports whether R53 lifted the count from zero to min.
	RaisedToMin bool `json:"raised_to_min,omitempty"`
	// PlatformBound is the platform's bound that clamped the count; nil when
	// none did.
	PlatformBound *PlatformBound `json:"platform_bound,omitempty"`
	// DesiredReplicas is the count the pass wants. It equals CurrentReplicas
	// when nothing is to change.
	DesiredReplicas int32 `json:"desired_replicas"`
	// Write reports whether DesiredReplicas is to be written: it differs from
	// CurrentReplicas, and no hold, pause or mode forbids it.
	Write bool `json:"write"`
	// Hold is the platform's hold, nil when there is none.
	Hold *Hold `json:"hold,omitempty"`
	// HeldBy is what people decided that keeps the count from being changed; empty where
	// it is not to be changed, or nothing does.
	HeldBy HeldBy `json:"held_by,omitempty"`
	// Reason is why the count changes (R79), Message the sentence that events
	// and people read.
	Reason  RescaleReason `json:"reason,omitempty"`
	Message string        `json:"message"`
	// Error is what the pass reports as its error; empty when nothing failed.
	// A pass may act and report an error all the same (R25.8).
	Error string `json:"error,omitempty"`

	// Memory and Status are the next ones if nothing is written; Settle
	// completes them. Events are those up to the write.
	Memory Memory  `json:"-"`
	Status Status  `json:"-"`
	Events []Event `json:"-"`

	settling settling
}

// MetricResult is how one metric came to its proposal.
type MetricResult struct {
	Type   MetricType `json:"type"`
	Name   string     `json:"name"`
	Task   string     `json:"task,omitempty"`
	Object string     `json:"object,omitempty"`
	// Error is why the metric failed; empty when it did not. With an error only
	// the steps before it are filled, and the proposal where a fallback has one.
	Error string `json:"error,omitempty"`
	// Fallback is what the metric proposes, or will, because it failed; nil when it did
	// not, or has no OnMissing.
	Fallback *Fallback `json:"fallback,omitempty"`
	// Warnings are the warnings of the source. Partial is the warning that marks a partial result.
	Warnings []string `json:"warnings,omitempty"`
	Partial  string   `json:"partial,omitempty"`
	// Goal is the target field that was used (R31, R39, R40), GoalValue its
	// value: percent for Utilization, milli-units otherwise.
	Goal      TargetType `json:"goal,omitempty"`
	GoalValue int64      `json:"goal_value,omitempty"`
	// Current is the value reported in the status (R76).
	Current MetricStatus `json:"current"`
	// Groups are the instances as R27 divides them; nil for Object and External.
	Groups *Groups `json:"groups,omitempty"`
	// Ratio is usage over goal; nil when it was not computed or is not finite.
	Ratio *float64 `json:"ratio,omitempty"`
	// CompletedRatio is the ratio after missing and unready instances were filled
	// in (R36.4); nil when that was not needed.
	CompletedRatio *float64 `json:"completed_ratio,omitempty"`
	// ToleranceDown and ToleranceUp are the band that held (R30).
	ToleranceDown float64 `json:"tolerance_down"`
	ToleranceUp   float64 `json:"tolerance_up"`
	// Total is the value of the metric as a whole where its goal is per instance and its
	// type External or Object, in milli-units.
	Total int64 `json:"total,omitempty"`
	// Series is how many values an External metric is the sum of (R42, R43); 0 where it
	// is one.
	Series int32 `json:"series,omitempty"`
	// Ready is how many instances run and are ready, for a goal of the metric as a whole
	// (R41); -1 where there are no instances at all. With 0 wanted replicas it is 0.
	Ready int32 `json:"ready,omitempty"`
	// Requests are what the instances request, for a utilization that instances without
	// a sample, or that are not ready, bear on (R36.3); else nil.
	Requests *Requests `json:"requests,omitempty"`
	// Within reports whether the ratio that counted was inside the band.
	Within bool `json:"within"`
	// BaseCount is the number of instances that the ratio was multiplied by; 0
	// when nothing was multiplied.
	BaseCount int32 `json:"base_count,omitempty"`
	// Proposal is the metric's own count.
	Proposal int32 `json:"proposal"`
	// Rule is the rule that gave the proposal, as "R36.2".
	Rule string `json:"rule,omitempty"`
}

// Requests are sums over the instances of a group, in milli-units.
type Requests struct {
	Ready   int64 `json:"ready"`
	Missing int64 `json:"missing,omitempty"`
	Unready int64 `json:"unready,omitempty"`
	// MissingFill is what R36.3 takes the missing ones to use.
	MissingFill int64 `json:"missing_fill,omitempty"`
}

// Groups counts the instances in each group of R27.
type Groups struct {
	Ready   int `json:"ready"`
	Unready int `json:"unready"`
	Missing int `json:"missing"`
	Ignored int `json:"ignored"`
	// Extraneous counts samples of instances that are not there (R34).
	Extraneous int `json:"extraneous,omitempty"`
}

// Stabilization is the step from the recommendation to the stabilized count
// (R55, R62).
type Stabilization struct {
	// UpWindow and DownWindow are the windows looked at. UpWindow is 0 without
	// behavior.
	UpWindow   time.Duration `json:"up_window"`
	DownWindow time.Duration `json:"down_window"`
	// Replicas is the stabilized count.
	Replicas int32 `json:"replicas"`
	// Binding is the remembered recommendation that holds the count; nil when
	// the present one does.
	Binding *Recommendation `json:"binding,omitempty"`
	// BindingLeaves is Binding's time plus the window: from then on it no longer
	// counts with behavior (R62), after it not without (R55).
	BindingLeaves time.Time `json:"binding_leaves,omitzero"`
	// Reason is ReadyForNewScale, ScaleDownStabilized or ScaleUpStabilized.
	Reason string `json:"reason"`
}

// Limit is the step from the stabilized count to the allowed one (R57, R69).
type Limit struct {
	// Allowed is the bound that was looked at, in the direction of the change.
	Allowed int32 `json:"allowed"`
	// Rate is the limit on speed alone, before min or max; nil when none applied.
	Rate *int32 `json:"rate,omitempty"`
	// Policy is the scaling policy that set the rate; nil without behavior, when
	// the direction is Disabled, or when no rate applied.
	Policy *ScalingPolicy `json:"policy,omitempty"`
	// PeriodStart is the count at the start of that policy's period (R66).
	PeriodStart int32 `json:"period_start,omitempty"`
	// Replicas is the count after this step.
	Replicas int32 `json:"replicas"`
	// Limited reports whether this step changed the count.
	Limited bool   `json:"limited"`
	Reason  string `json:"reason"`
}

// PlatformBound is a bound of the platform that clamped the count.
type PlatformBound struct {
	// Reason is PlatformMin or PlatformMax.
	Reason   string `json:"reason"`
	Replicas int32  `json:"replicas"`
	// Wanted is the count before the clamp.
	Wanted int32 `json:"wanted"`
}

// OutcomeKind is what became of a decision's write.
type OutcomeKind uint8

// The outcomes of a write.
const (
	// NotWritten: nothing was asked of the platform, because the decision does
	// not ask for a write or because acting is switched off.
	NotWritten OutcomeKind = iota
	// Written: the platform accepted the count (R72).
	Written
	// WriteFailed: the platform refused, or nobody knows (R71).
	WriteFailed
	// WriteHeld: the platform does not want to be written to for now; no error.
	WriteHeld
)

// Outcome is what became of a decision's write.
type Outcome struct {
	Kind OutcomeKind
	// Reached is the count really accepted, for Written; it differs from the
	// desired one where only a part could be done, and R73 records that change.
	Reached int32
	// Error says why, for WriteFailed, and for Written where only a part was done.
	// It names what was attempted: nothing is put before it.
	Error string
	// Reason is the platform's own reason of a WriteFailed, one CamelCase word;
	// empty means R71's.
	Reason string
	// Hold says why, for WriteHeld.
	Hold *Hold
}

// Settlement is what a pass leaves behind.
type Settlement struct {
	Memory Memory
	Status Status
	// StatusChanged reports whether Status differs from the one the pass read (R74).
	StatusChanged bool
	// Events are all of the pass, in order (R78).
	Events []Event
	// Error is the error of the pass as a whole; empty when it had none.
	Error string
}

// Intention is a write whose outcome is not yet known.
type Intention struct {
	From int32     `json:"from"`
	To   int32     `json:"to"`
	Time time.Time `json:"time"`
	// Reason and Message are those of the decision (R79).
	Reason  RescaleReason `json:"reason,omitempty"`
	Message string        `json:"message,omitempty"`
}
