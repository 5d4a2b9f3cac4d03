// Package cluster has several hpads share the fleets of one configuration.
//
// A shard is a fleet with its autoscalers, or a part of one that has many. Each is owned by
// one member at a time, which runs a [daemon.Daemon] for all that it owns of a fleet: with
// the shards' state, under a clock that goes on with theirs. To take a shard over is to
// start a daemon with the state that the last owner left, and to hand it over is to stop
// one; what else is owned of the fleet is in the daemon before and in the one after. Fleets
// that are the machine's own stay with their member, and so does history.
//
// What keeps two members from acting on one shard: a term is written before anything
// else, and every write of the state is refused once it is over; a platform is asked only
// after the intention to do so is written, and before the member's lease can be over by
// its own monotonic clock; and where platforms compare and set, they do. A member that
// cannot reach the coordinator goes on observing, and acts again once its lease is
// renewed, or somebody else's term is known to have ended.
package cluster
