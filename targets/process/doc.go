// Package process implements fleets of local processes. Each target is a service whose
// instances hpad itself starts, monitors, restarts and stops. It runs on Linux.
//
// An instance is a process with its process group. Like a pod, it keeps its ID
// ("worker-3-x7k2pq": service, index and a random suffix) and its start time when it is
// restarted after a crash; only its readiness changes. It is Pending while it has no process:
// before the first start, while it waits for a port, and during the back-off after a crash.
//
// A process writes its output to a FIFO. The collector, a process of its own, writes it to a bounded
// file, and the relay copies new lines of the file to targets.Env.Output.
//
// Each process has a record in the fleet's store, so that it survives hpad, and the next hpad
// adopts it. If targets.Env.Exiting is nil, or with stop_with_hpad, all instances end with hpad;
// if hpad is killed, the kernel then kills the process of each instance, but not its children.
package process
