// Package memory holds what kinds of fleets share that remember their instances
// across restarts: the [Records] of instances in the fleet's store, and when one
// has [Begun] and its readiness has [Turned].
//
// It is no kind of its own.
package memory
