// Package swarm is the fleet of a Docker swarm: each target is a replicated service, and its
// instances are the service's tasks.
//
// A reading lists the services and the tasks of all targets, and the ended tasks if some may have
// failed. The version of a reading is the service's version, and every write includes it, so that
// no other change is overwritten.
//
// During an update of a service its count is held: a write would make the new version the one
// that a rollback returns to.
package swarm
