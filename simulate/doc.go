// Package simulate replays the recorded load of an autoscaler through other policies. It computes
// the counts that a policy would have requested, with the resulting shortage and cost.
//
// A [Recording] contains one [Tick] for each recorded pass. [Run] evaluates a [Policy] at each tick
// with policy.Decide and policy.Settle, exactly like the daemon. As long as the simulated count
// equals the recorded count, the recorded readings are used unchanged, so that the active policy
// reproduces the recorded counts. Afterwards, a [Model] for each metric derives the readings.
//
// The package does no I/O, reads no clock and starts no goroutine.
package simulate
