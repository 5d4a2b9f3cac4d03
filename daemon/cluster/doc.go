// Package cluster lets several hpad instances share the fleets of one configuration.
//
// Each fleet is owned by one member at a time. The owner runs a [daemon.Daemon] with the state
// that the last owner wrote. It hands the fleet over by stopping that daemon. The host's own
// fleets and the history are not handed over.
//
// Three rules prevent two members from scaling the same fleet. First, a member writes its term
// before any other change, and the store rejects every write to the state once the term has ended.
// Second, a member scales a platform only after it has stored the planned change, and only before
// its lease can end by its monotonic clock. Third, if a platform supports compare-and-set, a write
// compares the target's version.
package cluster
