// Package cloud holds what the kinds of fleets of cloud instance groups have in
// common: a [Limiter] that keeps a fleet below the platform's limits of calls and
// leaves it alone when it asks for that, the [Memory] of instances across
// restarts, and the [Shortages] of targets that lack instances.
package cloud
