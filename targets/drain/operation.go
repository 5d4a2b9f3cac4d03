package drain

import "time"

// State is the progress of an operation.
type State string

// The states, in the order of a successful operation.
const (
	// Waiting: the operation is recorded, and the drainer has not accepted it yet.
	Waiting State = "waiting"
	// Draining: the drainer has accepted the operation.
	Draining State = "draining"
	// Drained: the instance is waiting for its removal.
	Drained State = "drained"
	// Removing: the removal was requested, and its outcome is unknown.
	Removing State = "removing"
	// Terminating: the platform is removing the instance.
	Terminating State = "terminating"
	// Finishing: the instance is gone, and the drainer is cleaning up.
	Finishing State = "finishing"
	// Undoing: the instance is in service again, and the drainer is undoing the drain.
	Undoing State = "undoing"
	// Ended: the operation is complete and has an Outcome.
	Ended State = "ended"
)

// Outcome is the result of an operation.
type Outcome string

// The outcomes.
const (
	// Terminated: the platform removed the instance on hpad's request.
	Terminated Outcome = "terminated"
	// Vanished: the instance disappeared without a request from hpad.
	Vanished Outcome = "vanished"
	// Undone: the instance was returned to service because the count increased.
	Undone Outcome = "undone"
	// Failed: the instance was returned to service because its drain or removal failed.
	Failed Outcome = "failed"
)

// Operation is the drain and removal of one instance.
type Operation struct {
	// ID is a unique identifier.
	ID string `json:"id"`
	// Instance is the drained instance.
	Instance Instance `json:"instance"`
	// Reason explains the choice of the instance. Decision explains the scale-down.
	Reason   string `json:"reason,omitempty"`
	Decision string `json:"decision,omitempty"`
	// Started is the time when the operation was recorded, and Deadline is the time limit for
	// the drain.
	Started  time.Time `json:"begun"`
	Deadline time.Time `json:"deadline"`
	// State is the progress, and Changed is the time of the last state change.
	State   State     `json:"state"`
	Changed time.Time `json:"changed"`
	// Attempts is the number of removal requests.
	Attempts int `json:"attempts,omitempty"`
	// Why is the reason for returning the instance to service; empty if it was not returned.
	Why string `json:"why,omitempty"`
	// Error is the last error; empty after a success.
	Error string `json:"error,omitempty"`
	// Outcome is the result; empty before Finishing or Undoing.
	Outcome Outcome `json:"outcome,omitempty"`
	// Ended is the time when the operation ended; zero while it is active.
	Ended time.Time `json:"ended,omitzero"`

	// The following fields are not stored.

	// next is the earliest time of the next drainer call, and failures is the number of consecutive
	// failed calls.
	next     time.Time
	failures int
	// drainerCalled reports whether the drainer may have been called for the instance.
	drainerCalled bool
	// removalPending reports whether a call that removes the instance is in progress.
	// removalReturned is the time when the last such call returned.
	removalPending  bool
	removalReturned time.Time
	// missingSince is the time of the first of the consecutive readings that did not contain the
	// instance; zero if the last reading contained it.
	missingSince time.Time
}

// leaving reports whether the instance is being drained or removed, and the count excludes it.
func (o *Operation) leaving() bool { return o.State != Undoing && o.State != Ended }

// Removes reports whether the instance still exists and is being drained or removed.
func (o *Operation) Removes() bool { return o.leaving() && o.State != Finishing }

// Overdue reports whether the deadline has passed, and the operation has neither ended nor been
// undone.
func (o *Operation) Overdue(now time.Time) bool { return o.leaving() && now.After(o.Deadline) }

// returnable reports whether the instance can still be returned to service.
func (o *Operation) returnable() bool {
	return o.State == Waiting || o.State == Draining || o.State == Drained
}
