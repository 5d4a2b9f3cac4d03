// Package nomad is the fleet of a Nomad region: each target is a task group of a
// job, its instances are the group's allocations.
//
// A round reads three lists for each namespace in use (jobs, allocations, active
// deployments), whatever the number of targets, and the specification of each
// job whose JobModifyIndex moved. The version of a reading is that index, and
// every write names it, so that nobody's change is overwritten.
//
// Cpu is counted in cores. Nomad itself counts MHz, in what a task reserves as in
// what it uses; both are divided by the node's MHz per core, so that utilization
// is MHz over MHz, exactly as Nomad means it.
package nomad
