// Package swarm implements fleets of Docker Swarm services. Each target is a replicated
// service, and its instances are the service's tasks.
//
// A reading lists the services and the tasks of all targets. If some tasks may have failed, it
// also lists the ended tasks. The version of a reading is the service's version. Every write
// includes it, so that no other change is overwritten.
//
// While a service is being updated, its count is held, because after a write, a rollback would
// return to the new version.
package swarm
