package drain

import "time"

// State is how far an operation is.
type State string

// The states, in the order in which an operation that succeeds goes through them.
const (
	// Waiting: it is recorded, and the drainer has not taken it yet.
	Waiting State = "waiting"
	// Draining: the instance gets no new work, and finishes what it has.
	Draining State = "draining"
	// Drained: it is to be removed with the next call.
	Drained State = "drained"
	// Removing: its removal was requested, but may not have reached the platform.
	Removing State = "removing"
	// Terminating: the platform removes it.
	Terminating State = "terminating"
	// Finishing: the instance is gone, and the drainer clears up.
	Finishing State = "finishing"
	// Undoing: the instance is taken back, counts again, and is to get its work back.
	Undoing State = "undoing"
	// Ended: it has an Outcome.
	Ended State = "ended"
)

// Outcome is how an operation ended.
type Outcome string

// The outcomes.
const (
	// Terminated: the platform took the instance as hpad requested.
	Terminated Outcome = "terminated"
	// Vanished: the instance went by itself, or somebody else took it.
	Vanished Outcome = "vanished"
	// Undone: the instance was taken back, since the count is to be as it was.
	Undone Outcome = "undone"
	// Failed: the instance was taken back, since it could not be drained or removed.
	Failed Outcome = "failed"
)

// Operation is the drain and removal of one instance.
type Operation struct {
	// ID names the operation; no two have the same.
	ID string `json:"id"`
	// Instance is whom it is about.
	Instance Instance `json:"instance"`
	// Reason is why it is this instance, Decision why the count went down.
	Reason   string `json:"reason,omitempty"`
	Decision string `json:"decision,omitempty"`
	// Begun is when it was recorded, Deadline when the drain ends at the latest.
	Begun    time.Time `json:"begun"`
	Deadline time.Time `json:"deadline"`
	// State is how far it is, since Changed.
	State   State     `json:"state"`
	Changed time.Time `json:"changed"`
	// Attempts is how often the removal of the instance was requested.
	Attempts int `json:"attempts,omitempty"`
	// Why is why the instance was taken back; empty when it was not.
	Why string `json:"why,omitempty"`
	// Error is what went wrong last; empty when nothing did since.
	Error string `json:"error,omitempty"`
	// Outcome is how it ends, from Finishing or Undoing on; empty before.
	Outcome Outcome `json:"outcome,omitempty"`
	// Ended is when it ended; zero before.
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

// leaving reports whether the instance is on its way out, and not to be counted.
func (o *Operation) leaving() bool { return o.State != Undoing && o.State != Ended }

// Removes reports whether the instance is still there and on its way out.
func (o *Operation) Removes() bool { return o.leaving() && o.State != Finishing }

// Overdue reports whether the operation should be over at now and is not: its
// deadline has passed, and the instance is neither gone and cleared up nor taken
// back.
func (o *Operation) Overdue(now time.Time) bool { return o.leaving() && now.After(o.Deadline) }

// returnable reports whether the instance can still be taken back.
func (o *Operation) returnable() bool {
	return o.State == Waiting || o.State == Draining || o.State == Drained
}
