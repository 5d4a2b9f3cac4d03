// Package policy is the Kubernetes Horizontal Pod Autoscaler as pure functions.
//
// [Decide] turns one [Observation] into a [Decision]; after the platform was
// asked to scale, [Settle] turns the decision and what became of the write into
// the next [Memory], the next [Status] and the events of the pass. [Default]
// and [Validate] complete and check a [Spec].
//
// The package does no I/O, reads no clock, starts no goroutine and keeps no
// state: everything a decision depends on is an argument, and everything it
// leads to is a result. Values handed in are never modified; results may share
// with them what did not change, so that nothing handed in or out is to be
// modified afterwards.
//
// Comments cite the rules of the algorithm (R1 to R80) as docs/algorithm.md
// numbers them. Amounts are milli-units in a signed 64-bit integer (R2):
// 1 cpu is 1000, 1 byte is 1000.
package policy
