// Package nomad is the fleet of a Nomad region: each target is a task group of a
// job, its instances are the group's allocations.
//
// A round reads two lists for each namespace in use (jobs and active deployments),
// whatever the number of targets, the specification of each job with a new JobModifyIndex,
// and the allocations of each job with new indexes, or with indexes that do not reveal all
// changes: a [scopeReading]. The other allocations are in the [cache], and are read again
// in turn. The version of a reading is the JobModifyIndex, and every write contains it, so
// that it overwrites no other change.
//
// CPU is counted in cores. Nomad itself counts MHz, for requests and for usage;
// both are divided by the node's MHz per core, so that utilization
// is MHz over MHz, exactly as Nomad means it.
package nomad
