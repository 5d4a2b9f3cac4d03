// Package process is the fleet of local processes: each target is a service
// whose instances hpad itself starts, watches, restarts and stops. It runs on
// Linux.
//
// An instance is a process and its process group. It keeps its id
// ("worker-3-x7k2pq": service, index, and a suffix made anew for each instance)
// and its start time for as long as it exists, a restart after a crash
// included, as a pod does; only its readiness turns False and True again. It is
// Pending while it has no process: before the first start, while it waits for a
// port, and during the back-off after a crash.
//
// Instances end with hpad, whatever way hpad ends: see guard.go.
package process
