// Package policy implements the algorithm of the Kubernetes Horizontal Pod Autoscaler as pure
// functions.
//
// [Decide] turns an [Observation] into a [Decision]. After the write, [Settle] turns the
// decision and the [Outcome] into the next [Memory] and [Status] and the events of the pass.
// [Default] and [Validate] complete and check a [Spec].
//
// The package does no I/O, reads no clock, starts no goroutine and stores no state. Functions never
// modify their arguments; results can share memory with them, so callers must not modify either
// afterwards.
//
// R1 to R80 are the rules in docs/algorithm.md. "(deviation)" marks behavior that upstream does not
// have. Amounts are signed 64-bit integers in milli-units (R2): 1 cpu is 1000, and 1 byte is 1000.
package policy
