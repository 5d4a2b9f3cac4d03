// Package cloud is the skeleton of fleets of cloud instance groups. A [Fleet] reads and
// writes groups through the calls of a [Platform], which a kind implements: it lists
// groups and their instances, remembers instances in a [Memory], and applies writes that
// the platform does not show yet. A [Limiter] keeps all fleets of an account below the
// platform's limits, and classifies the errors of calls by the rules of [Errors].
package cloud
