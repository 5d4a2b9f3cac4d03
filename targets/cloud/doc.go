// Package cloud holds what the kinds of fleets of cloud instance groups have in
// common: the [Accounts] that they call, each with a [Limiter] that keeps all fleets
// of an account below the platform's limits of calls and leaves the platform alone
// when it asks for that, the [Memory] of instances across restarts, and the
// [Shortages] of targets that lack instances.
package cloud
