// Package drain chooses the instances that a scale-down takes, and sees to it
// that they lose their work before they are terminated.
//
// [Wrap] puts it around a fleet that can take instances by name. A scale-down then
// records one [Operation] for each victim in the fleet's store and returns; from
// that moment on the victims are Deleting and not counted, also after a restart.
// In the background a [Drainer] takes their work away, and what is drained, or out
// of time, is removed from the platform. A scale-up takes draining instances back
// before it asks the platform for new ones, and waits for none of this.
//
// Where nothing is to be drained a scale-down takes its victims at once, and answers
// what the platform says. They are recorded meanwhile: after an answer that was
// lost, or a restart, the same instances are removed, and no others.
//
// The kinds of drainers are in the packages below this one.
package drain
