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
//
// Every member handles requests about the whole cluster, by one rule for each kind of data. A request
// about one autoscaler goes to the owner of its fleet. A list contains each autoscaler from the first
// source that lists it: the daemons of this member, the other members, and then the cluster store.
// Recorded data are merged from all members that respond.
package cluster
