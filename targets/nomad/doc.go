// Package nomad is the fleet of a Nomad region: each target is a task group of a
// job, its instances are the group's allocations.
//
// A round reads two lists for each namespace in use (jobs and active deployments),
// whatever the number of targets, the specification of each job whose JobModifyIndex
// moved, and the allocations of each job whose indexes say that something happened, or
// of whose allocations something may happen that they do not say: a [survey], which
// keeps what it knows in a [book]. A [sweep] looks after the rest. The version of a
// reading is the JobModifyIndex, and every write names it, so that nobody's change is
// overwritten.
//
// Cpu is counted in cores. Nomad itself counts MHz, in what a task reserves as in
// what it uses; both are divided by the node's MHz per core, so that utilization
// is MHz over MHz, exactly as Nomad means it.
package nomad
