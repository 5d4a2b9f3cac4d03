// Package adapter connects hpad to platforms through adapters: programs and servers of operators
// that read and scale targets. It contains the messages of the protocol and the [Fleet] that kinds
// of fleets build with their [Transport]. docs/fleets-http.md describes the protocol.
package adapter

import (
	"time"

	"github.com/hpad/hpad/policy"
)

// Protocol is the version of the messages.
const Protocol = 1

// Call is the operation that a request calls.
type Call string

// The calls. Describe, Snapshot and Scale are required; the others are optional, and an adapter
// lists those it supports in the response to Describe.
const (
	// Describe: return the version of the protocol and the optional calls.
	Describe Call = "describe"
	// Snapshot: read targets.
	Snapshot Call = "snapshot"
	// Scale: set the count of a target. The adapter returns when the platform has accepted the
	// count, and does not wait for instances.
	Scale Call = "scale"
	// Samples: read the resource usage of the instances of targets.
	Samples Call = "samples"
	// Remove: remove named instances of a target, and lower its count by their number in the same
	// change.
	Remove Call = "remove"
	// Discover: list the targets that have labels with the prefix "hpad.".
	Discover Call = "discover"
)

// Request is the message from hpad to an adapter.
type Request struct {
	// Protocol is the version of the messages, which is 1.
	Protocol int `json:"protocol"`
	// ID identifies the request. hpad never uses an ID twice.
	ID string `json:"id"`
	// Call is the operation.
	Call Call `json:"call"`
	// Targets are the names of the targets of Snapshot and Samples: at most 1,000.
	Targets []string `json:"targets,omitempty"`
	// Target is the name of the target of Scale and Remove.
	Target string `json:"target,omitempty"`
	// From is the count on which Scale or Remove is based. The adapter should return the error
	// "conflict" if it is no longer the count.
	From *int32 `json:"from,omitempty"`
	// To is the count that Scale sets.
	To *int32 `json:"to,omitempty"`
	// Instances are the IDs of the instances that Remove removes. The adapter ignores instances
	// that no longer exist.
	Instances []string `json:"instances,omitempty"`
	// Version is the version of the target on which Scale or Remove is based. The adapter must
	// return the error "conflict" if it is no longer the version. It is absent if the snapshot
	// contained none.
	Version string `json:"version,omitempty"`
	// Reason is a sentence for the records of the platform.
	Reason string `json:"reason,omitempty"`
}

// Response is the message from an adapter to hpad.
type Response struct {
	// ID is the ID of the request. It is optional over HTTP.
	ID string `json:"id,omitempty"`
	// Error means that the call failed for all targets, or that Scale or Remove failed.
	Error *Error `json:"error,omitempty"`
	// Protocol is the response to Describe: the version of the protocol, which is 1.
	Protocol int `json:"protocol,omitempty"`
	// Name is an optional part of the response to Describe: the name and version of the adapter.
	Name string `json:"name,omitempty"`
	// Calls is a part of the response to Describe: the supported optional calls.
	Calls []Call `json:"calls,omitempty"`
	// Targets is the response to Snapshot: each requested target by name. A target that does not
	// exist has the error "not_found".
	Targets map[string]Target `json:"targets,omitempty"`
	// Samples is the response to Samples, by the names of targets. Unknown targets, and instances
	// without a sample, are absent.
	Samples map[string][]Sample `json:"samples,omitempty"`
	// Discovered is the response to Discover.
	Discovered []Discovered `json:"discovered,omitempty"`
}

// ErrorCode classifies an error.
type ErrorCode string

// The error codes.
const (
	// NotFound: the target does not exist.
	NotFound ErrorCode = "not_found"
	// Conflict: the target changed since it was read. hpad reads it again.
	Conflict ErrorCode = "conflict"
	// Held: the platform does not accept a count now, for example during a deployment.
	Held ErrorCode = "held"
	// OutOfRange: the count is outside of the bounds of the platform.
	OutOfRange ErrorCode = "out_of_range"
	// Partial: a part of the change was made. The error contains the count.
	Partial ErrorCode = "partial"
	// Throttled: the platform limits the rate of calls. hpad pauses all calls of the fleet.
	Throttled ErrorCode = "throttled"
	// Forbidden: the credentials or permissions are insufficient.
	Forbidden ErrorCode = "forbidden"
	// Unscalable: the target cannot be scaled until its own configuration changes.
	Unscalable ErrorCode = "unscalable"
	// Unavailable: a temporary failure that changed nothing.
	Unavailable ErrorCode = "unavailable"
	// Failed: any other failure. It may have changed the count; the next snapshot shows the count.
	Failed ErrorCode = "failed"
)

// Error describes a failed call, or a target that could not be read.
type Error struct {
	// Code is the class of the error.
	Code ErrorCode `json:"code"`
	// Message is the cause.
	Message string `json:"message"`
	// Reason is one CamelCase word for the condition in hpad, such as "JobNotFound"; may be absent.
	Reason string `json:"reason,omitempty"`
	// Reached is the current count after the error "partial".
	Reached *int32 `json:"reached,omitempty"`
	// Min and Max are the bounds of the platform after the error "out_of_range".
	Min *int32 `json:"min,omitempty"`
	Max *int32 `json:"max,omitempty"`
	// RetryAfter is the pause in seconds after the error "throttled".
	RetryAfter float64 `json:"retry_after,omitempty"`
}

// Target is the state of one target.
type Target struct {
	// Error means that this target could not be read. All other fields are then ignored.
	Error *Error `json:"error,omitempty"`
	// Count is the desired number of instances. It is required, and does not include terminating
	// instances.
	Count *int32 `json:"count,omitempty"`
	// Instances are the existing instances, in any phase. If the field is absent, the adapter does
	// not report instances; if it is empty, there are none.
	Instances []Instance `json:"instances,omitzero"`
	// Version is any text that changes with each change of the count. If it is absent, hpad reads
	// the target again directly before it scales it, and compares the count.
	Version string `json:"version,omitempty"`
	// Min and Max are bounds that the platform enforces; absent if there are none.
	Min *int32 `json:"min,omitempty"`
	Max *int32 `json:"max,omitempty"`
	// Hold is the reason why the count must not be changed now; absent if it may be changed.
	Hold *policy.Hold `json:"hold,omitempty"`
	// Notices are messages for operators, at most one for each condition type.
	Notices []policy.Notice `json:"notices,omitempty"`

	// text is the JSON of a target that was received and is not parsed yet. invalid is the error of a
	// target without a valid text.
	text    []byte
	invalid error
}

// Phase is a stage in the life of an instance.
type Phase string

// The phases. Instances that succeeded or failed have ended.
const (
	PhasePending   Phase = "pending"
	PhaseRunning   Phase = "running"
	PhaseSucceeded Phase = "succeeded"
	PhaseFailed    Phase = "failed"
	PhaseUnknown   Phase = "unknown"
)

// Instance is one instance of a target.
type Instance struct {
	// ID is never reused for another instance of the target.
	ID string `json:"id"`
	// Name is the name of the instance; absent if it is the ID.
	Name string `json:"name,omitempty"`
	// Node is the host on which the instance runs.
	Node string `json:"node,omitempty"`
	// Phase is "running" if it is absent.
	Phase Phase `json:"phase,omitempty"`
	// Terminating is set while the instance is being removed.
	Terminating bool `json:"terminating,omitempty"`
	// Ready is the readiness. If it is absent, a running instance is ready.
	Ready *bool `json:"ready,omitempty"`
	// UnreadyReason is the reason why the instance is not ready.
	UnreadyReason string `json:"unready_reason,omitempty"`
	// StartedAt is the time of the last start. If it is absent, hpad uses the time at which it first
	// observed the instance.
	StartedAt time.Time `json:"started_at,omitzero"`
	// ReadyChanged is the time of the last change of Ready. If it is absent, hpad uses the time at
	// which it first observed the change.
	ReadyChanged time.Time `json:"ready_changed,omitzero"`
	// Addresses are host names and IP addresses without a port.
	Addresses []string `json:"addresses,omitempty"`
	// Ports maps labels to the numbers of ports. A single port can have the label "".
	Ports map[string]int `json:"ports,omitempty"`
	// Labels are the labels of the platform.
	Labels map[string]string `json:"labels,omitempty"`
	// Requests maps resources to quantities that are reserved for the instance, such as
	// {"cpu": "500m", "memory": "1Gi"}.
	Requests map[string]string `json:"requests,omitempty"`
	// Limits maps resources to the limits of the instance, as quantities.
	Limits map[string]string `json:"limits,omitempty"`
	// Protected means that a scale-down must not remove the instance.
	Protected bool `json:"protected,omitempty"`
}

// Sample is the resource usage of one instance over a time window.
type Sample struct {
	// ID is the ID of the instance.
	ID string `json:"id"`
	// At is the end of the window.
	At time.Time `json:"at"`
	// Window is the length of the window in seconds.
	Window float64 `json:"window"`
	// Usage maps resources to quantities: "cpu" in cores, "memory" in bytes.
	Usage map[string]string `json:"usage"`
}

// Discovered is a target with labels for hpad.
type Discovered struct {
	// Name is the name of the target.
	Name string `json:"name"`
	// Labels are the labels with the prefix "hpad.". hpad ignores other labels.
	Labels map[string]string `json:"labels"`
}
