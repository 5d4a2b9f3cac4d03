// Package cluster lets several hpads share the fleets of one configuration.
//
// Each fleet is owned by one member at a time. The owner runs a [daemon.Daemon] for the fleet,
// with the fleet's state and a clock that continues that of the last owner. To take a fleet
// over is to start a daemon with the state that the last owner left, and to hand it over is to
// stop that daemon. Fleets of the host itself stay with their member, and so does history.
//
// Three rules keep two members from scaling one fleet. A term is written before anything else,
// and every write of the state is rejected once it is over. A platform is scaled only after the
// intention is written, and before the lease can end by the member's monotonic clock. Platforms
// that support compare-and-set compare the version. A member that cannot reach the coordinator
// continues to observe, and scales again once its lease is renewed or the end of another
// member's term is certain.
//
// The files: coordinator (the store), membership (joining, the view), ownership (who runs which
// fleet), run (one fleet), configuration and reload, forward (requests to the owner), peer and
// lists (what the members know together), transfer (import and export).
package cluster
