package policy

import (
	"time"

	"github.com/hpad/hpad/settings/formula"
)

// Settings are shared by all autoscalers (R7, R8). This package applies no defaults to them.
type Settings struct {
	// Tolerance is the band around a ratio of 1 in which the count does not change (R30); 0.1 is 10
	// %. An autoscaler's own tolerance replaces it.
	Tolerance float64 `json:"tolerance"`
	// DownscaleStabilization is the window of R55. R61 uses it if the spec sets no window.
	DownscaleStabilization time.Duration `json:"downscale_stabilization"`
	// CPUInitializationPeriod is the period after an instance starts in which its cpu samples must
	// be newer than its last readiness change (R27).
	CPUInitializationPeriod time.Duration `json:"cpu_initialization_period"`
	// InitialReadinessDelay is the period after an instance starts in which a change to unready
	// means that the instance has never been ready (R27).
	InitialReadinessDelay time.Duration `json:"initial_readiness_delay"`
	// ScaleToZero is upstream's HPAScaleToZero (R8, R50 to R54).
	ScaleToZero bool `json:"scale_to_zero"`
	// Kubernetes is the version of Kubernetes that the decisions agree with.
	Kubernetes Kubernetes `json:"kubernetes,omitempty"`
	// Mode limits the actions of the autoscaler (deviation).
	Mode Mode `json:"mode,omitempty"`
	// OutageHold is the longest time for which metrics may not lower the count while no instance is
	// ready (deviation). 0 disables it.
	OutageHold time.Duration `json:"outage_hold,omitempty"`
}

// Spec is the configuration of an autoscaler: autoscaling/v2 in milli-units. [Default] and
// [Validate] prepare it for [Decide].
type Spec struct {
	// MinReplicas is the lower bound; nil means 1 (R9). 0 requires Settings.ScaleToZero and an
	// Object or External metric (R15).
	MinReplicas *int32 `json:"min_replicas,omitempty"`
	// MaxReplicas is the upper bound, at least 1 and MinReplicas (R14).
	MaxReplicas int32 `json:"max_replicas"`
	// InitialReplicas is the count of a target that has never been started (deviation): 0 to
	// MaxReplicas. Nil leaves such a target disabled (R51).
	InitialReplicas *int32 `json:"initial_replicas,omitempty"`
	// Metrics are evaluated in this order (R46). An empty list means cpu at 80 % (R10).
	Metrics []MetricSpec `json:"metrics,omitempty"`
	// Behavior selects R61 to R70, even without rules. Nil selects R55 to R59 (R11).
	Behavior *Behavior `json:"behavior,omitempty"`
}

// MetricType is the type of a metric (R17).
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
	// Name is the resource for Resource and ContainerResource ("cpu", "memory"), otherwise the
	// name of the metric.
	Name string `json:"name"`
	// Task is the name of the measured task, for a ContainerResource metric.
	Task string `json:"task,omitempty"`
	// Object is the "kind/name" that an Object metric describes.
	Object string       `json:"object,omitempty"`
	Target MetricTarget `json:"target"`
	// Formula computes the value of an External metric from the values of the other metrics
	// (deviation). Such a metric is the last one. It replaces the proposals of the others.
	Formula string `json:"formula,omitempty"`
	// Compiled is Formula in the form of [Compile]. If it is nil, each pass compiles the formula.
	Compiled *formula.Formula `json:"-"`
	// ActivationMilli is the value of an Object or External metric up to which the metric proposes
	// 0 while the target has 0 replicas (deviation). Nil disables it.
	ActivationMilli *int64 `json:"activation_milli,omitempty"`
	// OnMissing configures the fallback if the metric is missing. It is optional.
	OnMissing *OnMissing `json:"on_missing,omitempty"`
}

// TargetType is the type of a target. Only Object metrics use it (R33, R39, R40).
type TargetType string

// The target types (R18).
const (
	UtilizationTarget  TargetType = "Utilization"
	ValueTarget        TargetType = "Value"
	AverageValueTarget TargetType = "AverageValue"
)

// MetricTarget is the target of a metric. Nil fields are absent.
type MetricTarget struct {
	Type TargetType `json:"type"`
	// ValueMilli is the target value of the metric as a whole.
	ValueMilli *int64 `json:"value_milli,omitempty"`
	// AverageValueMilli is the target value per instance.
	AverageValueMilli *int64 `json:"average_value_milli,omitempty"`
	// AverageUtilization is the target utilization, as a percentage of the resource requests.
	AverageUtilization *int32 `json:"average_utilization,omitempty"`
	// UtilizationOf is "limit" if AverageUtilization is a percentage of the limits
	// instead of the requests (deviation). The caller then passes the limits as the requests of the
	// instances, so that this field only affects the text of the result. Empty means the requests.
	UtilizationOf string `json:"average_utilization_of,omitempty"`
	// Binary reports whether the target value is written with a binary unit, such as "100Mi". It only
	// affects the text of the result.
	Binary bool `json:"binary,omitempty"`
}

// UtilizationOfLimit is the value of UtilizationOf for a percentage of the limits.
const UtilizationOfLimit = "limit"

// Behavior contains the scaling rules of both directions. Nil rules mean the defaults (R11).
type Behavior struct {
	ScaleUp   *ScalingRules `json:"scale_up,omitempty"`
	ScaleDown *ScalingRules `json:"scale_down,omitempty"`
}

// ScalingRules limit one direction.
type ScalingRules struct {
	// StabilizationWindowSeconds is 0 to 3600. Nil means 0 for scale-up and
	// Settings.DownscaleStabilization for scale-down (R11, R61).
	StabilizationWindowSeconds *int32 `json:"stabilization_window_seconds,omitempty"`
	// SelectPolicy defaults to Max.
	SelectPolicy SelectPolicy `json:"select_policy,omitempty"`
	// Policies is replaced by the default policies if it is nil. An empty list is invalid (R12,
	// R19).
	Policies []ScalingPolicy `json:"policies,omitempty"`
	// Tolerance replaces Settings.Tolerance for this direction. It is at least 0; 0.05 is 5 % (R6).
	Tolerance *float64 `json:"tolerance,omitempty"`
}

// SelectPolicy selects one of several policies.
type SelectPolicy string

// The select policies (R67, R68).
const (
	// MaxChange selects the largest change.
	MaxChange SelectPolicy = "Max"
	// MinChange selects the smallest change.
	MinChange SelectPolicy = "Min"
	// DisabledChange disables the direction.
	DisabledChange SelectPolicy = "Disabled"
)

// PolicyType is the unit of a scaling policy's value.
type PolicyType string //nolint:revive // a scaling policy's type; Type alone is too vague

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

func minReplicasOf(spec *Spec) int32 {
	if spec.MinReplicas == nil {
		return defaultMinReplicas
	}
	return *spec.MinReplicas
}

// hasWholeMetric reports whether a metric can be read without instances (R15, R51, R72).
func hasWholeMetric(spec *Spec) bool {
	inputs, combined := inputsOf(spec)
	whole := 0
	for i := range inputs {
		if isWhole(&inputs[i]) {
			whole++
		}
	}
	return whole > 0 && (!combined || whole == len(inputs))
}

func isWhole(metric *MetricSpec) bool {
	return metric.Type == ObjectMetric || metric.Type == ExternalMetric
}

// inputsOf returns the metrics without the formula, and whether there is a formula.
func inputsOf(spec *Spec) (inputs []MetricSpec, combined bool) {
	last := len(spec.Metrics) - 1
	if last < 0 || spec.Metrics[last].Formula == "" {
		return spec.Metrics, false
	}
	return spec.Metrics[:last], true
}
