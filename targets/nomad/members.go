package nomad

import (
	"fmt"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/clock"
)

// members returns the members of a group as they are known, and makes them of its
// allocations where these were just read.
func (s *snapshot) members(v *survey, job *jobState, state *groupState, t Target, g *group, checks map[string]policy.Readiness, now time.Time) (*members, error) {
	known := state.known
	switch {
	case known == nil && v.unread != nil:
		return nil, v.unread
	case known == nil:
		return nil, fmt.Errorf("list jobs of %v: %w: the allocations of job %q were not read", v.at, targets.ErrTransient, t.Job)
	case known.members != nil && state.remember:
		for i := range known.members.each {
			s.fleet.records.Keep(known.members.each[i].id(), now)
		}
		return known.members, nil
	case known.members != nil:
		return known.members, nil
	case v.unmeasured != nil:
		return nil, v.unmeasured
	}
	made := &s.slabs.groups.take(1, &s.slabs)[0]
	*made = *known
	texts := s.slabs.pack(known.allocs)
	made.members = s.gather(v.book, t, job, known.allocs, texts, g, checks, now)
	made.allocs, made.marks = nil, s.slabs.marksOf(known.allocs, texts)
	s.slabs.left--
	v.book.enter(t.groupKey(), made, now)
	if !made.members.settled && known.read.Before(v.began) {
		return nil, fmt.Errorf("list jobs of %v: %w: the allocations of job %q were read in parts since %v ago, and may have changed", v.at, targets.ErrTransient, t.Job, v.began.Sub(known.read).Round(time.Second))
	}
	return made.members, nil
}

// gather makes members of allocations, of which texts is what stays.
func (s *snapshot) gather(b *book, t Target, job *jobState, allocs []*allocStub, texts []packed, g *group, checks map[string]policy.Readiness, now time.Time) *members {
	m := &s.slabs.members.take(1, &s.slabs)[0]
	*m = members{settled: !g.checked || s.fleet.config.Readiness != ReadinessChecks, failing: failing(allocs, t, now)}
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
	m.each = s.slabs.each.take(len(allocs), &s.slabs)[:0]
	target := t.Name()
	for i, alloc := range allocs {
		if alloc.canary() {
			continue
		}
		known := s.fleet.records.SeeOf(target, texts[i].id(), now, func(before record, _ bool) record {
			checked, ok := checks[alloc.ID]
			if !ok {
				checked = policy.ReadinessTrue
			}
			return judge(alloc, g, before, checked, now)
		})
		next := member{
			packed: texts[i], node: s.fleet.names.node(alloc.NodeID, alloc.NodeName), tasks: m.taskList(&s.fleet.names, alloc.tasks(s.fleet.speeds.of(alloc.NodeID))),
			phase: alloc.phase(), readiness: known.Readiness, deleting: alloc.stopping() || beyond[alloc.ID],
			started: momentOf(known.Started), changed: momentOf(known.Changed),
		}
		if !next.deleting && !alloc.failed() {
			m.status++
		}
		m.settled = m.settled && next.readiness == policy.ReadinessTrue
		m.each = append(m.each, next)
	}
	speeds := s.fleet.speeds // for what stays of the group is not to hold the snapshot
	m.listSampled = func() []sampledAlloc { return m.sampled(&b.at, speeds) }
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
