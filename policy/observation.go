package policy

import "time"

// Observation is the input of one pass from the platform and the sources.
type Observation struct {
	// ReadError is set if the target could not be read (R25.1). In that case, the policy ignores
	// the fields that describe the target and its metrics.
	ReadError string `json:"read_error,omitempty"`
	// ReadReason is the platform's reason code, such as JobNotFound (deviation). If it is empty,
	// R25.1 defines the reason.
	ReadReason string `json:"read_reason,omitempty"`
	// Unscalable is set with ReadError if the target must be reconfigured before it can be
	// scaled.
	Unscalable bool `json:"unscalable,omitempty"`
	// SpecReplicas is the desired count. The rules call it "current".
	SpecReplicas int32 `json:"spec_replicas"`
	// StatusReplicas is the observed count (R44).
	StatusReplicas int32 `json:"status_replicas"`
	// PlatformMin and PlatformMax are the platform's own bounds; nil if the platform has none. They
	// are applied after all other steps (deviation).
	PlatformMin *int32 `json:"platform_min,omitempty"`
	PlatformMax *int32 `json:"platform_max,omitempty"`
	// Hold is set while the platform does not accept writes (deviation).
	Hold *Hold `json:"hold,omitempty"`
	// Foreign is set after a manual change since the last pass (deviation).
	Foreign *ForeignChange `json:"foreign,omitempty"`
	// Finite reports whether instances end by themselves, so that SpecReplicas falls without a write,
	// and writes only raise it (deviation).
	Finite bool `json:"finite,omitempty"`
	// NeverStarted reports whether every reading of the target had 0 replicas, and no operator has
	// set its count (deviation).
	NeverStarted bool `json:"never_started,omitempty"`
	// Restore is the count to restore (deviation), or nil.
	Restore *Restoration `json:"restore,omitempty"`
	// Command is an operator's accepted request for a count (deviation), or nil.
	Command *Command `json:"command,omitempty"`
	// Pauses are the active pauses of the autoscaler (deviation). Resumed describes the end of the
	// last pause.
	Pauses  []Pause `json:"pauses,omitempty"`
	Resumed string  `json:"resumed,omitempty"`
	// Notices are other messages from the platform (deviation). They do not affect the decision.
	Notices []Notice `json:"notices,omitempty"`
	// Instances are all instances, in any phase.
	Instances []Instance `json:"instances,omitempty"`
	// Metrics contains one reading for each metric of the defaulted spec.
	Metrics []Reading `json:"metrics,omitempty"`
}

// Hold is a temporary reason not to write to the platform. The pass still stores its
// recommendation.
type Hold struct {
	// Reason is a code from docs/reasons.md. Message is a sentence.
	Reason  string `json:"reason"`
	Message string `json:"message"`
	// Until is the end of the hold according to the platform's clock; zero if unknown.
	Until time.Time `json:"until,omitzero" clock:"wall"`
}

// Notice is a message from the platform to the operator, for example about a failed placement. The
// status shows it as a condition.
type Notice struct {
	// Condition is the type to set, Reason is a code from docs/reasons.md, and Message is a
	// sentence.
	Condition ConditionType `json:"condition"`
	Reason    string        `json:"reason"`
	Message   string        `json:"message"`
}

// ForeignChange is a change of the desired count by an external writer.
type ForeignChange struct {
	// From is the count that the autoscaler wrote; SpecReplicas is the current count.
	From int32 `json:"from"`
}

// Restoration is a count to restore within min and max, regardless of metrics, stabilization
// and rates. A count of 0 on the target is not changed (R51).
type Restoration struct {
	// Replicas is the count to restore.
	Replicas int32 `json:"replicas"`
	// Foreign is the count of the last manual change.
	Foreign int32 `json:"foreign"`
	// Since is when the first change was noticed.
	Since time.Time `json:"since"`
}

// Phase is a stage in the life of an instance.
type Phase uint8

// The phases (R27). The zero value is PhaseUnknown.
const (
	PhaseUnknown Phase = iota
	PhasePending
	PhaseRunning
	PhaseSucceeded
	PhaseFailed
)

func (p Phase) String() string {
	switch p {
	case PhasePending:
		return "Pending"
	case PhaseRunning:
		return "Running"
	case PhaseSucceeded:
		return "Succeeded"
	case PhaseFailed:
		return "Failed"
	default:
		return "Unknown"
	}
}

// Readiness is the health of an instance. R27 distinguishes all four values.
type Readiness uint8

// The readiness values. ReadinessNotKnown means that the platform reports no health, which
// makes the instance unready for cpu.
const (
	ReadinessNotKnown Readiness = iota
	ReadinessTrue
	ReadinessFalse
	ReadinessUnknown
)

// String returns the status of upstream's Ready condition, or "" if upstream has no such condition.
func (r Readiness) String() string {
	switch r {
	case ReadinessTrue:
		return "True"
	case ReadinessFalse:
		return "False"
	case ReadinessUnknown:
		return "Unknown"
	default:
		return ""
	}
}

// Instance is one instance of a target (upstream: pod).
type Instance struct {
	// ID is never reused for another instance of the target.
	ID string `json:"id,omitempty"`
	// Name identifies the instance in messages; empty means ID.
	Name      string    `json:"name,omitempty"`
	Phase     Phase     `json:"phase,omitempty"`
	Readiness Readiness `json:"readiness,omitempty"`
	// Deleting is set while the instance is being stopped or drained.
	Deleting bool `json:"deleting,omitempty"`
	// StartedAt is when the host accepted the instance; zero if unknown, which makes the
	// instance unready for cpu.
	StartedAt time.Time `json:"started_at,omitzero"`
	// ReadinessChanged is the last change of Readiness.
	ReadinessChanged time.Time `json:"readiness_changed,omitzero"`
	// Requests are the resource requests of the whole instance (R29). They are usually empty.
	Requests []Amount `json:"requests,omitempty"`
	// Tasks are the long-running tasks.
	Tasks []Task `json:"tasks,omitempty"`
}

// Task is a long-running task of an instance (upstream: container).
type Task struct {
	Name string `json:"name"`
	// Requests are the reserved amounts. R28 distinguishes a missing resource from 0.
	Requests []Amount `json:"requests,omitempty"`
	// RequestHint describes how to set a missing request, such as "set its cpus".
	RequestHint string `json:"request_hint,omitempty"`
}

// Amount is a quantity of one resource.
type Amount struct {
	// Resource is "cpu" in cores, "memory" in bytes, or another name.
	Resource string `json:"resource"`
	// Milli is the amount in milli-units, rounded away from zero (R2).
	Milli int64 `json:"milli"`
	// RoundedUpNano is the rounding difference: Milli·10⁶ minus the exact amount in nano-units,
	// 0 to 999999. R29 adds exact amounts.
	RoundedUpNano int32 `json:"rounded_up_nano,omitempty"`
}

// Reading is the result of a source for one metric.
type Reading struct {
	// Error explains the failure of the source. An empty result is not such an error (R26).
	Error string `json:"error,omitempty"`
	// Warnings are the source's warnings. Only explanations use them.
	Warnings []string `json:"warnings,omitempty"`
	// Partial is the warning that marks a partial result; empty if the result is complete. A
	// partial result does not scale down (deviation).
	Partial string `json:"partial,omitempty"`
	// Empty reports whether the value is 0 because the result of the query was empty. It only affects
	// the text of the result.
	Empty bool `json:"empty,omitempty"`
	// Samples is used by Resource, ContainerResource and Instances metrics. Samples[i] belongs to
	// Observation.Instances[i]; additional samples belong to unknown instances (R34).
	Samples []Sample `json:"samples,omitempty"`
	// ValueMilli is used by Object metrics. It is nil if there is no value.
	ValueMilli *int64 `json:"value_milli,omitempty"`
	// ValuesMilli is used by External metrics (R42, R43).
	ValuesMilli []int64 `json:"values_milli,omitempty"`
}

// Sample is the value of a metric for one instance.
type Sample struct {
	// Milli is the value in milli-units. It is valid if OK is set.
	Milli int64 `json:"milli,omitempty"`
	OK    bool  `json:"ok,omitempty"`
	// At is when the sample was taken, and Window is the interval that it covers. Only cpu metrics
	// use them (R27).
	At     time.Time     `json:"at,omitzero"`
	Window time.Duration `json:"window,omitempty"`
}

// TaskUsage is the resource usage of one task.
type TaskUsage struct {
	Task string
	// Usage contains the measured resources.
	Usage []Amount
}
