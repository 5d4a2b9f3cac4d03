package nomad

import (
	"fmt"
	"slices"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/clock"
)

// members returns the members of a group as they are known, and makes them of its
// allocations where these were just read.
func (s *snapshot) members(v *survey, state *groupState, t Target, g *group, checks map[string]policy.Readiness, now time.Time) (*members, error) {
	known := state.known
	switch {
	case known == nil && v.unread != nil:
		return nil, v.unread
	case known == nil:
		return nil, fmt.Errorf("list jobs of %v: %w: the allocations of job %q were not read", v.at, targets.ErrTransient, t.Job)
	case known.members != nil && state.remember:
		for _, instance := range known.members.instances {
			s.fleet.records.Keep(instance.ID, now)
		}
		return known.members, nil
	case known.members != nil:
		return known.members, nil
	case v.unmeasured != nil:
		return nil, v.unmeasured
	}
	made := *known
	made.members = s.gather(v.book, t, state.job, known.allocs, g, checks, now)
	made.allocs, made.marks = nil, marksOf(known.allocs)
	v.book.enter(t.groupKey(), &made, now)
	if !made.members.settled && known.read.Before(v.began) {
		return nil, fmt.Errorf("list jobs of %v: %w: the allocations of job %q were read in parts since %v ago, and may have changed", v.at, targets.ErrTransient, t.Job, v.began.Sub(known.read).Round(time.Second))
	}
	return made.members, nil
}

// gather makes members of allocations.
func (s *snapshot) gather(b *book, t Target, job *jobState, allocs []*allocStub, g *group, checks map[string]policy.Readiness, now time.Time) *members {
	m := &members{settled: !g.checked || s.fleet.config.Readiness != ReadinessChecks, failing: failing(allocs, t, now)}
	var living []*allocStub
	for _, alloc := range allocs {
		if !alloc.stopping() && !alloc.canary() && !alloc.failed() {
			living = append(living, alloc)
		}
		m.settled = m.settled && alloc.settled(job.spec.version, now)
	}
	count := g.count
	if job.stopped || job.spec.stopped {
		count = 0
	}
	beyond := surplus(living, count)
	m.settled = m.settled && len(beyond) == 0
	target := t.Name()
	s.fleet.names.gather(allocs)
	m.instances, m.locations = make([]policy.Instance, 0, len(allocs)), make([]targets.Location, 0, len(allocs))
	m.sampled = make([]sampledAlloc, 0, len(allocs))
	for _, alloc := range allocs {
		if alloc.canary() {
			continue
		}
		instance := s.instance(alloc, target, g, checks, now)
		instance.Deleting = alloc.stopping() || beyond[alloc.ID]
		if last := len(m.instances) - 1; last >= 0 && sameTasks(instance.Tasks, m.instances[last].Tasks) {
			instance.Tasks = m.instances[last].Tasks
		} else {
			instance.Tasks = s.fleet.names.shareTasks(instance.Tasks) // most have the same as others
		}
		if !instance.Deleting && !alloc.failed() {
			m.status++
		}
		m.settled = m.settled && instance.Readiness == policy.ReadinessTrue
		m.instances = append(m.instances, instance)
		m.locations = append(m.locations, alloc.location())
		if instance.Phase == policy.PhaseRunning && !instance.Deleting {
			m.sampled = append(m.sampled, sampledAlloc{Instance: &m.instances[len(m.instances)-1], node: alloc.NodeID, at: &b.at, mhz: s.fleet.speeds.of(alloc.NodeID)})
		}
	}
	gatherSlices(m.locations, func(l *targets.Location) *[]string { return &l.Addresses })
	gatherSlices(m.locations, func(l *targets.Location) *targets.Ports { return &l.Ports })
	return m
}

// watched is how long Nomad looks for the health of an allocation that it has not
// found any of: its default healthy_deadline.
const watched = 5 * time.Minute

// settled reports whether nothing will happen to an allocation of a job's version of
// which the job's stamp does not tell: its health, that a task is started again and
// what its tasks are told to do change without.
func (a *allocStub) settled(version uint64, now time.Time) bool {
	if a.phase() != policy.PhaseRunning || a.stopping() || a.canary() || a.JobVersion != version || a.restarting(now) {
		return false
	}
	changed := clock.Later(a.started(), time.Unix(0, a.ModifyTime))
	return a.JobType != api.JobTypeService || a.healthy() != nil || now.Sub(changed) > watched
}

// sameTasks reports whether tasks are the same.
func sameTasks(a, b []policy.Task) bool {
	return slices.EqualFunc(a, b, func(a, b policy.Task) bool {
		return a.Name == b.Name && slices.Equal(a.Requests, b.Requests) && a.RequestHint == b.RequestHint
	})
}

// instance returns an allocation of a target as an instance.
func (s *snapshot) instance(alloc *allocStub, target string, g *group, checks map[string]policy.Readiness, now time.Time) policy.Instance {
	checked, ok := checks[alloc.ID]
	if !ok {
		checked = policy.ReadinessTrue
	}
	known := s.fleet.records.SeeOf(target, alloc.ID, now, func(before record, _ bool) record { return judge(alloc, g, before, checked, now) })
	return policy.Instance{
		ID: alloc.ID, Phase: alloc.phase(), Readiness: known.Readiness,
		StartedAt: known.Started, ReadinessChanged: known.Changed,
		Tasks: alloc.tasks(s.fleet.speeds.of(alloc.NodeID)),
	}
}
