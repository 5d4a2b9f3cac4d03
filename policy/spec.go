package policy

import "time"

// Settings are the values that all autoscalers of a daemon share (R7, R8). Zero
// durations are accepted and mean what they say; nothing here is defaulted.
type Settings struct {
	// Tolerance is the band around a usage ratio of 1 inside which nothing
	// changes, where the autoscaler names none for the direction (R30). 0.1 is 10 %.
	Tolerance float64 `json:"tolerance"`
	// DownscaleStabilization is the window of R55, and of R61 where the
	// scale-down rules name none.
	DownscaleStabilization time.Duration `json:"downscale_stabilization"`
	// CPUInitializationPeriod is how long after its start an instance's cpu
	// samples need to be newer than its last readiness change (R27).
	CPUInitializationPeriod time.Duration `json:"cpu_initialization_period"`
	// InitialReadinessDelay is how long after its start a change to unready is
	// taken for "was never ready" (R27).
	InitialReadinessDelay time.Duration `json:"initial_readiness_delay"`
	// ScaleToZero is upstream's HPAScaleToZero switch (R8, section 15).
	ScaleToZero bool `json:"scale_to_zero"`
	// Mode is how much the autoscaler does by itself (deviation: upstream's only goes on).
	Mode Mode `json:"mode,omitempty"`
}

// Spec is what an autoscaler is asked to do: autoscaling/v2 in milli-units. A
// Spec as a user wrote it goes through [Default] and [Validate] before [Decide].
type Spec struct {
	// MinReplicas is the lower bound; nil is defaulted to 1 (R9). 0 needs
	// Settings.ScaleToZero and an Object or External metric (R15).
	MinReplicas *int32 `json:"min_replicas,omitempty"`
	// MaxReplicas is the upper bound, at least 1 and at least the lower bound (R14).
	MaxReplicas int32 `json:"max_replicas"`
	// Metrics are evaluated in this order (R46). None at all is defaulted to
	// cpu at 80 % (R10).
	Metrics []MetricSpec `json:"metrics,omitempty"`
	// Behavior selects sections 17 and 18 when present, even if empty, and
	// section 16 when nil (R11).
	Behavior *Behavior `json:"behavior,omitempty"`
}

// MetricType is the kind of a metric (R17).
type MetricType string

// The metric types. Upstream's Pods is called Instances here.
const (
	ResourceMetric          MetricType = "Resource"
	ContainerResourceMetric MetricType = "ContainerResource"
	InstancesMetric         MetricType = "Instances"
	ObjectMetric            MetricType = "Object"
	ExternalMetric          MetricType = "External"
)

// MetricSpec is one metric of a [Spec].
type MetricSpec struct {
	Type MetricType `json:"type"`
	// Name is the resource of Resource and ContainerResource ("cpu", "memory"),
	// the metric's name for the others.
	Name string `json:"name"`
	// Task is the task whose resource a ContainerResource metric measures.
	Task string `json:"task,omitempty"`
	// Object is what an Object metric describes, as "kind/name".
	Object string       `json:"object,omitempty"`
	Target MetricTarget `json:"target"`
	// OnMissing is what it proposes once it has failed for a while; nil is nothing, as
	// upstream.
	OnMissing *OnMissing `json:"on_missing,omitempty"`
}

// TargetType is the type word of a metric's target. Only Object metrics look at
// it (R33, R39, R40).
type TargetType string

// The target types (R18).
const (
	UtilizationTarget  TargetType = "Utilization"
	ValueTarget        TargetType = "Value"
	AverageValueTarget TargetType = "AverageValue"
)

// MetricTarget is the goal of a metric. Nil fields are absent.
type MetricTarget struct {
	Type TargetType `json:"type"`
	// ValueMilli is a goal for the metric as a whole.
	ValueMilli *int64 `json:"value_milli,omitempty"`
	// AverageValueMilli is a goal per instance.
	AverageValueMilli *int64 `json:"average_value_milli,omitempty"`
	// AverageUtilization is a goal in percent of what instances request.
	AverageUtilization *int32 `json:"average_utilization,omitempty"`
}

// Behavior holds the scaling rules of both directions; a nil direction is
// defaulted (R11).
type Behavior struct {
	ScaleUp   *ScalingRules `json:"scale_up,omitempty"`
	ScaleDown *ScalingRules `json:"scale_down,omitempty"`
}

// ScalingRules limit one direction.
type ScalingRules struct {
	// StabilizationWindowSeconds is 0 to 3600. Nil means 0 for scale-up and
	// Settings.DownscaleStabilization for scale-down (R11, R61).
	StabilizationWindowSeconds *int32 `json:"stabilization_window_seconds,omitempty"`
	// SelectPolicy is defaulted to Max when empty.
	SelectPolicy SelectPolicy `json:"select_policy,omitempty"`
	// Policies is defaulted when nil; an empty list is kept and invalid (R12, R19).
	Policies []ScalingPolicy `json:"policies,omitempty"`
	// Tolerance replaces Settings.Tolerance for this direction when not nil.
	// It is at least 0; 0.05 is 5 %. R6 says how a quantity becomes this float.
	Tolerance *float64 `json:"tolerance,omitempty"`
}

// SelectPolicy says which of several policies' limits holds.
type SelectPolicy string

// The select policies (R67, R68).
const (
	// MaxChange allows the largest change; its word is "Max".
	MaxChange SelectPolicy = "Max"
	// MinChange allows the smallest change; its word is "Min".
	MinChange SelectPolicy = "Min"
	// DisabledChange forbids the direction; its word is "Disabled".
	DisabledChange SelectPolicy = "Disabled"
)

// PolicyType is the unit of a scaling policy's value.
type PolicyType string //nolint:revive // a scaling policy's type; Type alone says nothing

// The policy types. Upstream's Pods is called Instances here.
const (
	InstancesPolicy PolicyType = "Instances"
	PercentPolicy   PolicyType = "Percent"
)

// ScalingPolicy allows a change of Value within PeriodSeconds.
type ScalingPolicy struct {
	Type PolicyType `json:"type"`
	// Value is greater than 0; percents above 100 are accepted (R19).
	Value int32 `json:"value"`
	// PeriodSeconds is 1 to 1800.
	PeriodSeconds int32 `json:"period_seconds"`
}
