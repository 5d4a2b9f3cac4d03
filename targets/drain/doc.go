// Package drain chooses the instances that a scale-down takes, and takes their work
// away before they are terminated.
//
// [Wrap] puts it around a fleet that can take instances by name. A scale-down then
// records one [Operation] for each victim in the fleet's store and returns; from
// that moment on the victims are Deleting and not counted, also after a restart.
// In the background a [Drainer] takes their work away, and what is drained, or out
// of time, is removed from the platform. A scale-up takes draining instances back
// before it asks the platform for new ones, and waits for none of this.
//
// Where nothing is to be drained a scale-down takes its victims at once, and returns
// the platform's error. They are recorded meanwhile: when the outcome is unknown, or
// after a restart, the same instances are removed, and no others.
//
// An operation is a state machine of values: step takes it and an event to the next
// one and the effects to be carried out. A book, without lock, has the operations of
// all targets; Fleet.locked is the one place with the lock.
//
// The kinds of drainers are in the packages below this one.
package drain
