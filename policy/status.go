package policy

import "time"

// Status is what an autoscaler shows of itself (R74 to R77), and reads back
// (R22): the ScaledToZero condition and the last desired count matter to later
// passes.
type Status struct {
	// CurrentReplicas is the count before the write of the last pass (R74).
	CurrentReplicas int32 `json:"current_replicas"`
	DesiredReplicas int32 `json:"desired_replicas"`
	// LastScaleTime is zero until the first write.
	LastScaleTime time.Time `json:"last_scale_time,omitzero"`
	// Metrics has one entry per metric of the spec, or none where no metric was
	// computed (R76).
	Metrics []MetricStatus `json:"metrics,omitempty"`
	// Conditions are in order of first appearance (R77).
	Conditions []Condition `json:"conditions,omitempty"`
}

// MetricStatus is the current value of one metric. One that failed has none of it (R76),
// but for FirstFailureTime.
type MetricStatus struct {
	Type   MetricType `json:"type,omitempty"`
	Name   string     `json:"name,omitempty"`
	Task   string     `json:"task,omitempty"`
	Object string     `json:"object,omitempty"`
	// AverageUtilization is in percent of the requests.
	AverageUtilization *int32 `json:"average_utilization,omitempty"`
	AverageValueMilli  *int64 `json:"average_value_milli,omitempty"`
	ValueMilli         *int64 `json:"value_milli,omitempty"`
	// FirstFailureTime is since when a metric with an OnMissing has failed; zero when it
	// has not.
	FirstFailureTime time.Time `json:"first_failure_time,omitzero"`
}

// ConditionType names one aspect of an autoscaler's condition.
type ConditionType string

// The condition types (R77).
const (
	AbleToScale    ConditionType = "AbleToScale"
	ScalingActive  ConditionType = "ScalingActive"
	ScalingLimited ConditionType = "ScalingLimited"
	ScaledToZero   ConditionType = "ScaledToZero"
	// ForeignWriter is True after somebody else changed the count, until the
	// autoscaler writes it again (deviation: upstream does not look).
	ForeignWriter ConditionType = "ForeignWriter"
	// Paused is True while a person's pause is in force; an autoscaler that was never
	// paused does not have it (deviation: upstream cannot be paused).
	Paused ConditionType = "Paused"
	// ExternalMetricFallbackActive is True while a metric of whatever type that failed
	// proposes what its OnMissing says (deviation: the name is that of KEP-5679).
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

// Condition is one aspect of an autoscaler's state.
type Condition struct {
	Type   ConditionType   `json:"type"`
	Status ConditionStatus `json:"status"`
	// Since is when Status last changed; the reason may change without it (R77).
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

// Event is something that happened in a pass (R78).
type Event struct {
	Kind    EventKind `json:"kind"`
	Reason  string    `json:"reason"`
	Message string    `json:"message"`
}
