package nomad

import (
	"slices"
	"time"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
)

// allocSet is the allocations of a task group at the time of a reading. It is not modified once it
// is in the cache.
type allocSet struct {
	at  scope
	key groupKey
	// stamp is the job's before the allocations were read.
	stamp stamp
	// read is when their reading began; since is when the stamp was first seen.
	read, since time.Time
	// deployed means that a deployment of the job was active.
	deployed bool
	// allocs are the allocations until built is set, which needs the specification of the
	// job; the other fields are empty until then.
	allocs []*alloc
	built  bool

	instances []policy.Instance
	// details are in the order of instances.
	details []detail
	// status is the number of instances that stay.
	status int32
	// failing is a notice of instances that fail; nil if no instance fails.
	failing *policy.Notice
	// settled means that the job's stamp reveals all further changes: each instance runs,
	// is ready, and its health is known or no longer awaited.
	settled bool
}

// detail is the data of an allocation that its instance does not contain.
type detail struct {
	name, node, nodeName string
	version              uint64
	// mhz is the speed of a core of the node.
	mhz      float64
	reserved *reserved
}

// At returns the location of an instance.
func (s *allocSet) At(i int) targets.Location {
	d := &s.details[i]
	return targets.Location{Name: d.name, Node: d.nodeName, Addresses: d.reserved.addresses, Ports: d.reserved.ports}
}

// sampled returns the allocations whose resource use can be read.
func (s *allocSet) sampled() []sampledAlloc {
	var all []sampledAlloc
	for i := range s.instances {
		if instance := &s.instances[i]; instance.Phase == policy.PhaseRunning && !instance.Deleting {
			all = append(all, sampledAlloc{Instance: instance, node: s.details[i].node, at: s.at, mhz: s.details[i].mhz})
		}
	}
	return all
}

// build returns the set with instances. Checks are the results of service checks by the IDs
// of allocations.
func (f *Fleet) build(read *allocSet, job *jobState, g *group, checks map[string]policy.Readiness, now time.Time) *allocSet {
	s := *read
	s.built, s.allocs = true, nil
	s.failing = failing(read.allocs, s.key.group, now)
	s.settled = !g.checked || f.config.Readiness != ReadinessChecks
	var living []*alloc
	for _, alloc := range read.allocs {
		if !alloc.stopping() && !alloc.canary() && !alloc.failed() {
			living = append(living, alloc)
		}
		s.settled = s.settled && alloc.settled(job.spec.version, now)
	}
	count := g.count
	if job.Stop || job.spec.stopped {
		count = 0
	}
	beyond := surplus(living, count)
	s.settled = s.settled && len(beyond) == 0
	s.instances, s.details = make([]policy.Instance, 0, len(read.allocs)), make([]detail, 0, len(read.allocs))
	for _, alloc := range read.allocs {
		if alloc.canary() {
			continue
		}
		known := f.records.See(alloc.ID, now, func(before record, _ bool) record {
			checked, ok := checks[alloc.ID]
			if !ok {
				checked = policy.ReadinessTrue
			}
			return judge(alloc, g, before, checked, now)
		})
		mhz := f.speeds.of(alloc.NodeID)
		instance := policy.Instance{
			ID: alloc.ID, Phase: alloc.phase(), Readiness: known.Readiness, Deleting: alloc.stopping() || beyond[alloc.ID],
			StartedAt: known.Started.Round(0).UTC(), ReadinessChanged: known.Changed.Round(0).UTC(),
		}
		if n := len(s.details); n > 0 && s.details[n-1].mhz == mhz && slices.Equal(s.details[n-1].reserved.tasks, alloc.reserved.tasks) {
			instance.Tasks = s.instances[n-1].Tasks // as in most groups
		} else {
			instance.Tasks = alloc.reserved.requests(mhz)
		}
		if !instance.Deleting && !alloc.failed() {
			s.status++
		}
		s.settled = s.settled && instance.Readiness == policy.ReadinessTrue
		s.instances = append(s.instances, instance)
		s.details = append(s.details, detail{name: alloc.Name, node: alloc.NodeID, nodeName: alloc.NodeName, version: alloc.JobVersion, mhz: mhz, reserved: alloc.reserved})
	}
	return &s
}
