package policy

import "time"

// Status is the visible state of an autoscaler (R74 to R77). Later passes read the ScaledToZero
// condition and the last desired count (R22).
type Status struct {
	// CurrentReplicas is the count before the write of the last pass (R74).
	CurrentReplicas int32 `json:"current_replicas"`
	DesiredReplicas int32 `json:"desired_replicas"`
	// LastScaleTime is zero until the first write.
	LastScaleTime time.Time `json:"last_scale_time,omitzero"`
	// Metrics contains one entry for each metric of the spec. It is empty if no metric was
	// evaluated (R76).
	Metrics []MetricStatus `json:"metrics,omitempty"`
	// Conditions are ordered by first appearance (R77).
	Conditions []Condition `json:"conditions,omitempty"`
}

// MetricStatus is the current value of one metric. For a failed metric, only FirstFailureTime is
// set (R76).
type MetricStatus struct {
	Type               MetricType `json:"type,omitempty"`
	Name               string     `json:"name,omitempty"`
	Task               string     `json:"task,omitempty"`
	Object             string     `json:"object,omitempty"`
	AverageUtilization *int32     `json:"average_utilization,omitempty"`
	AverageValueMilli  *int64     `json:"average_value_milli,omitempty"`
	ValueMilli         *int64     `json:"value_milli,omitempty"`
	// Empty reports whether the value is 0 because the result of the query was empty (deviation).
	Empty bool `json:"empty,omitempty"`
	// FirstFailureTime is when a metric with on_missing began to fail; zero if the metric does not
	// fail.
	FirstFailureTime time.Time `json:"first_failure_time,omitzero"`
}

// ConditionType is the type of a condition.
type ConditionType string

// The condition types (R77).
const (
	AbleToScale    ConditionType = "AbleToScale"
	ScalingActive  ConditionType = "ScalingActive"
	ScalingLimited ConditionType = "ScalingLimited"
	ScaledToZero   ConditionType = "ScaledToZero"
	// ForeignWriter is True after a manual change until the autoscaler writes the count
	// (deviation).
	ForeignWriter ConditionType = "ForeignWriter"
	// Paused is True while a pause is active, and absent before the first one (deviation).
	Paused ConditionType = "Paused"
	// ExternalMetricFallbackActive is True while the fallback of a metric of any type is active
	// (deviation; the name is from KEP-5679).
	ExternalMetricFallbackActive ConditionType = "ExternalMetricFallbackActive"
)

// ConditionStatus is True, False or Unknown.
type ConditionStatus string

// The condition statuses.
const (
	ConditionTrue    ConditionStatus = "True"
	ConditionFalse   ConditionStatus = "False"
	ConditionUnknown ConditionStatus = "Unknown"
)

// Condition is one aspect of the status.
type Condition struct {
	Type   ConditionType   `json:"type"`
	Status ConditionStatus `json:"status"`
	// Since is when Status last changed (R77).
	Since   time.Time `json:"since"`
	Reason  string    `json:"reason"`
	Message string    `json:"message"`
}

// EventKind is Normal or Warning.
type EventKind string

// The event kinds.
const (
	NormalEvent  EventKind = "Normal"
	WarningEvent EventKind = "Warning"
)

// Event reports an action or a failure of a pass (R78).
type Event struct {
	Kind    EventKind `json:"kind"`
	Reason  string    `json:"reason"`
	Message string    `json:"message"`
}

// Memory is the state of an autoscaler between passes (R21). A new autoscaler starts with the zero
// Memory (R25.3). The order of the lists matters: R55, R63 and R73 overwrite entries in place.
type Memory struct {
	Recommendations []Recommendation `json:"recommendations,omitempty"`
	ScaleUpEvents   []ScaleEvent     `json:"scale_up_events,omitempty"`
	ScaleDownEvents []ScaleEvent     `json:"scale_down_events,omitempty"`
	// Missing contains an entry for each metric with OnMissing, in the order of the spec. The slice
	// is replaced and never modified.
	Missing []MissingMetric `json:"missing,omitempty"`
	// NoReadySince is the start of the current outage (deviation); zero if an instance is ready.
	NoReadySince time.Time `json:"no_ready_since,omitzero"`
	// Stopped reports whether a schedule with max_replicas = 0 stopped the target (deviation), and
	// nobody has changed the count since.
	Stopped bool `json:"stopped,omitempty"`
}

// Recommendation is a count before stabilization and limits.
type Recommendation struct {
	Replicas int32     `json:"replicas"`
	Time     time.Time `json:"time"`
	// Held reports whether an outage raised the recommendation to the count of its pass (deviation).
	Held bool `json:"held,omitempty"`
}

// ScaleEvent is a completed change of the count.
type ScaleEvent struct {
	// Change is the absolute difference.
	Change int32     `json:"change"`
	Time   time.Time `json:"time"`
	// Outdated marks an entry that may be overwritten (R73). The entry still applies while its time
	// is inside a period (R65).
	Outdated bool `json:"outdated,omitempty"`
}
