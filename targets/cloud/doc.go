// Package cloud holds what the kinds of fleets of cloud instance groups have in
// common: the [Accounts] that they call, each with a [Limiter] that keeps all fleets
// of an account below the platform's limits of calls and leaves the platform alone
// when it asks for that, what each [Answer] means, the [Memory] of instances across
// restarts, what was [Written] and what became of it ([Failures]), the [Shortages] of
// targets that lack instances, and what is read [Aside].
package cloud
