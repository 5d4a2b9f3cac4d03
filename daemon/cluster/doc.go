// Package cluster lets several hpad instances share the fleets of one configuration.
//
// Each fleet is owned by one member at a time. The owner runs a [daemon.Daemon] with the state
// that the last owner left. To hand a fleet over is to stop that daemon. Fleets of the host
// itself, and the history, stay with their member.
//
// Three rules keep two members from scaling one fleet. A term is written before any other
// change, and every write of the state is rejected once the term is over. A platform is scaled
// only after the intention is written, and before the lease can end by the member's monotonic
// clock. Platforms that support compare-and-set compare the version.
package cluster
