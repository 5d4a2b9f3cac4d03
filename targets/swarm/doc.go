// Package swarm is the fleet of a Docker swarm: each target is a replicated
// service, its instances are the service's tasks.
//
// A round reads two lists from a manager, of services and of tasks, whatever the number
// of targets, and a third where tasks may have failed. The version of a reading is the
// service's own, and every write names it, so that nobody's change is overwritten.
//
// While a service is being updated its count is held: a write in between would
// make the new version the one that a rollback returns to.
package swarm
