package policy

import "time"

// Observation is everything one pass saw of its target and its metrics.
type Observation struct {
	// ReadError says why the target could not be read; empty when it was (R25.1).
	// With an error nothing else in the observation counts.
	ReadError string `json:"read_error,omitempty"`
	// ReadReason is the platform's own reason of a ReadError, one CamelCase word, as
	// JobNotFound; empty means R25.1's (deviation: upstream has one for all).
	ReadReason string `json:"read_reason,omitempty"`
	// Unscalable says of a ReadError that the target is there and cannot be scaled
	// until its own configuration changes.
	Unscalable bool `json:"unscalable,omitempty"`
	// SpecReplicas is the wanted count as read: "current" in the rules.
	SpecReplicas int32 `json:"spec_replicas"`
	// StatusReplicas is the observed count (R44).
	StatusReplicas int32 `json:"status_replicas"`
	// PlatformMin and PlatformMax are bounds the platform itself enforces; nil
	// means none. They clamp the result last, after R53 (deviation: upstream's
	// targets have no bounds of their own).
	PlatformMin *int32 `json:"platform_min,omitempty"`
	PlatformMax *int32 `json:"platform_max,omitempty"`
	// Hold is set while writing must not be attempted (deviation: upstream has
	// no such state).
	Hold *Hold `json:"hold,omitempty"`
	// Foreign is set when somebody else changed the count since the last pass
	// (deviation: upstream does not look).
	Foreign *ForeignChange `json:"foreign,omitempty"`
	// Restore is a count to put back, in whichever pass the platform lets it be
	// written; nil when there is none (deviation as Foreign).
	Restore *Restoration `json:"restore,omitempty"`
	// Command is a count that a person sets in this pass; nil when none does. It has no
	// refusal (deviation: upstream's count is set behind its back).
	Command *Command `json:"command,omitempty"`
	// Pauses are those of persons that bear on the autoscaler now (deviation: upstream
	// cannot be paused). Resumed says how the last one ended; empty when that is not known.
	Pauses  []Pause `json:"pauses,omitempty"`
	Resumed string  `json:"resumed,omitempty"`
	// Notices are what else the platform says of the target; they change no
	// decision (deviation: upstream's targets say nothing else).
	Notices []Notice `json:"notices,omitempty"`
	// Instances are all members of the target, in whatever phase.
	Instances []Instance `json:"instances,omitempty"`
	// Metrics has one reading per metric of the defaulted spec, same order.
	Metrics []Reading `json:"metrics,omitempty"`
}

// Hold is why a platform does not want to be written to for now. The pass
// still decides and records its recommendation.
type Hold struct {
	// Reason is one CamelCase word for conditions, Message a sentence.
	Reason  string `json:"reason"`
	Message string `json:"message"`
	// Until is when the hold ends, by the platform's clock; zero when nobody knows.
	Until time.Time `json:"until,omitzero" clock:"wall"`
}

// Notice is something that a platform says of a target and a person should know:
// instances that find no place, a template that grew old. It is a condition for
// as long as it is said, and changes no decision.
type Notice struct {
	// Condition is the condition's type, Reason one CamelCase word for it, Message
	// a sentence.
	Condition ConditionType `json:"condition"`
	Reason    string        `json:"reason"`
	Message   string        `json:"message"`
}

// ForeignChange is a change of the wanted count that the autoscaler did not make.
type ForeignChange struct {
	// From is the count the autoscaler left; SpecReplicas is what it is now.
	From int32 `json:"from"`
}

// Restoration is a count that is to be put back, within min and max and without
// regard to metrics, stabilization and rates. A count of 0 on the target is not
// touched: it switches the autoscaler off (R51).
type Restoration struct {
	// Replicas is the count to put back: the one the autoscaler had left.
	Replicas int32 `json:"replicas"`
	// Foreign is the count that somebody else set, the newest one where there were
	// several.
	Foreign int32 `json:"foreign"`
	// Since is when the first of them was noticed.
	Since time.Time `json:"since"`
}

// Phase is where an instance is in its life.
type Phase uint8

// The phases (R27). The zero value is PhaseUnknown.
const (
	PhaseUnknown Phase = iota
	PhasePending
	PhaseRunning
	PhaseSucceeded
	PhaseFailed
)

// String returns upstream's word for the phase.
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

// Readiness is the health of an instance as its platform has it. R27 keeps
// the four values apart.
type Readiness uint8

// The readiness values. The zero value is ReadinessNotKnown: the platform said
// nothing at all, which for cpu makes the instance unready.
const (
	ReadinessNotKnown Readiness = iota
	ReadinessTrue
	ReadinessFalse
	ReadinessUnknown
)

// String returns upstream's word for the readiness, and "" where upstream has
// no condition at all.
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

// Instance is one member of a target (upstream: pod).
type Instance struct {
	// ID is the instance's alone: no later instance of the target has it.
	ID        string    `json:"id,omitempty"`
	Phase     Phase     `json:"phase,omitempty"`
	Readiness Readiness `json:"readiness,omitempty"`
	// Deleting is set while the instance is being stopped or drained.
	Deleting bool `json:"deleting,omitempty"`
	// StartedAt is when the instance's machine accepted it; zero when not known,
	// which for cpu makes the instance unready.
	StartedAt time.Time `json:"started_at,omitzero"`
	// ReadinessChanged is when Readiness last changed, also to False.
	ReadinessChanged time.Time `json:"readiness_changed,omitzero"`
	// Requests are stated for the instance as a whole (R29); usually empty.
	Requests []Amount `json:"requests,omitempty"`
	// Tasks are its long-running tasks; one-shot start-up tasks are left out.
	Tasks []Task `json:"tasks,omitempty"`
}

// Task is one long-running task of an instance (upstream: container).
type Task struct {
	Name string `json:"name"`
	// Requests are the reserved amounts. A resource that is not listed is not
	// stated, which R28 distinguishes from 0.
	Requests []Amount `json:"requests,omitempty"`
	// RequestHint says how to state a request that is missing, as "set
	// its cpus"; empty where the platform has no word on it.
	RequestHint string `json:"request_hint,omitempty"`
}

// Amount is how much of one resource.
type Amount struct {
	// Resource is "cpu" in cores, "memory" in bytes, or another resource's name.
	Resource string `json:"resource"`
	// Milli is the amount in milli-units, rounded away from zero (R2).
	Milli int64 `json:"milli"`
	// RoundedUpNano is how much that rounding added: Milli·10⁶ less the exact
	// amount in nano-units, 0 to 999999. R29 adds exact amounts.
	RoundedUpNano int32 `json:"rounded_up_nano,omitempty"`
}

// Reading is what a metric's source answered.
type Reading struct {
	// Error says why the source failed; empty when it did not. An empty result
	// is an error of the metric too, which policy says by itself (R26).
	Error string `json:"error,omitempty"`
	// Warnings are what the source added to its result; they change nothing and
	// are kept for explanations.
	Warnings []string `json:"warnings,omitempty"`
	// Partial is the warning by which the source marks its result as partial; empty if it
	// does not. A partial result does not scale down (deviation: upstream believes it).
	Partial string `json:"partial,omitempty"`
	// Samples belongs to Resource, ContainerResource and Instances metrics:
	// Samples[i] is of Observation.Instances[i], and any after the last instance
	// are of instances that are not (or no longer) there (R34). Empty or nil
	// means the source's result was empty.
	Samples []Sample `json:"samples,omitempty"`
	// ValueMilli belongs to Object metrics; nil means no value.
	ValueMilli *int64 `json:"value_milli,omitempty"`
	// ValuesMilli belongs to External metrics, to be summed by R42 or R43.
	ValuesMilli []int64 `json:"values_milli,omitempty"`
}

// Sample is one instance's value of a metric.
type Sample struct {
	// Milli is the value in milli-units; it counts only when OK.
	Milli int64 `json:"milli,omitempty"`
	// OK is false when there is no usable value for the instance.
	OK bool `json:"ok,omitempty"`
	// At is when the sample was taken and Window the span it covers; they
	// matter for cpu only (R27).
	At     time.Time     `json:"at,omitzero"`
	Window time.Duration `json:"window,omitempty"`
}

// TaskUsage is the use of resources by one task of an instance.
type TaskUsage struct {
	Task string
	// Usage lists what was measured; a resource that is not listed was not.
	Usage []Amount
}
