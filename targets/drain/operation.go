package drain

import "time"

// State is the progress of an operation.
type State string

// The states, in the order of a successful operation.
const (
	// Waiting: it is recorded, and the drainer was not called yet.
	Waiting State = "waiting"
	// Draining: the drainer has accepted it.
	Draining State = "draining"
	// Drained: it waits for its removal.
	Drained State = "drained"
	// Removing: its removal was requested, with an unknown outcome.
	Removing State = "removing"
	// Terminating: the platform removes the instance.
	Terminating State = "terminating"
	// Finishing: the instance is gone, and the drainer cleans up.
	Finishing State = "finishing"
	// Undoing: the instance counts again, and the drainer undoes the drain.
	Undoing State = "undoing"
	// Ended: it has an Outcome.
	Ended State = "ended"
)

// Outcome is the result of an operation.
type Outcome string

// The outcomes.
const (
	// Terminated: the platform removed the instance on hpad's request.
	Terminated Outcome = "terminated"
	// Vanished: the instance disappeared without a request of hpad.
	Vanished Outcome = "vanished"
	// Undone: the instance was taken back because the count increased.
	Undone Outcome = "undone"
	// Failed: the instance was taken back because its drain or removal failed.
	Failed Outcome = "failed"
)

// Operation is the drain and removal of one instance.
type Operation struct {
	// ID is a unique identifier.
	ID string `json:"id"`
	// Instance is the drained instance.
	Instance Instance `json:"instance"`
	// Reason is the reason for choosing the instance, Decision the reason for the scale-down.
	Reason   string `json:"reason,omitempty"`
	Decision string `json:"decision,omitempty"`
	// Begun is the time of recording, Deadline the end of the drain.
	Begun    time.Time `json:"begun"`
	Deadline time.Time `json:"deadline"`
	// State is the progress, Changed the time of its last change.
	State   State     `json:"state"`
	Changed time.Time `json:"changed"`
	// Attempts is the number of removal requests.
	Attempts int `json:"attempts,omitempty"`
	// Why is the reason for taking the instance back; empty if it was not taken back.
	Why string `json:"why,omitempty"`
	// Error is the last error; empty after a success.
	Error string `json:"error,omitempty"`
	// Outcome is the result; empty before Finishing or Undoing.
	Outcome Outcome `json:"outcome,omitempty"`
	// Ended is the end of the operation; zero before.
	Ended time.Time `json:"ended,omitzero"`

	// The other fields are not stored.

	// next is the earliest time of the next call of the drainer, failures the number of
	// its consecutive failures.
	next     time.Time
	failures int
	// drainerCalled reports whether the drainer may have been called for the instance.
	drainerCalled bool
	// removalPending reports whether a call that removes the instance is in progress, and
	// removalReturned is the end of the last such call.
	removalPending  bool
	removalReturned time.Time
	// missingSince is the time of the first of the latest readings without the instance;
	// zero if the last reading has it.
	missingSince time.Time
}

// leaving reports whether the instance is being drained or removed, and does not count.
func (o *Operation) leaving() bool { return o.State != Undoing && o.State != Ended }

// Removes reports whether the instance is present, and being drained or removed.
func (o *Operation) Removes() bool { return o.leaving() && o.State != Finishing }

// Overdue reports whether the deadline has passed, and the operation has neither ended nor been
// undone.
func (o *Operation) Overdue(now time.Time) bool { return o.leaving() && now.After(o.Deadline) }

// returnable reports whether the instance can still be taken back.
func (o *Operation) returnable() bool {
	return o.State == Waiting || o.State == Draining || o.State == Drained
}
