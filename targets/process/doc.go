// Package process implements fleets of local processes. Each target is a service whose
// instances hpad itself starts, monitors, restarts and stops. It runs on Linux.
//
// An instance is a process with its process group. Like a pod, it keeps its ID
// ("worker-3-x7k2pq": service, index and a random suffix) and its start time when it is
// restarted after a crash; only its readiness changes. It is Pending while it has no process:
// before the first start, while it waits for a port, and during the back-off after a crash.
//
// When hpad exits, all instances end. If hpad is killed, the kernel kills the process of each
// instance, but not its children.
package process
