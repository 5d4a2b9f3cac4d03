package gcemig

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"time"

	"google.golang.org/api/compute/v1"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/cloud"
)

// readings answers what was read of every target.
func (s *snapshot) readings() map[targets.Ref]targets.Reading {
	answer := make(map[targets.Ref]targets.Reading, len(s.asked))
	now := time.Now()
	for ref, a := range s.asked {
		if a.err != nil {
			answer[ref] = targets.Reading{Err: a.err, Observed: now}
			continue
		}
		answer[ref] = s.reading(a, now)
	}
	return answer
}

// reading answers what was read of one target.
func (s *snapshot) reading(a *asked, now time.Time) targets.Reading {
	reading := targets.Reading{
		SpecReplicas: replicas(a.group.TargetSize), Version: versionOf(a.group), Observed: s.listing.observed,
		Hold: s.hold(a), Notices: s.fleet.notices(a, now),
	}
	for _, m := range a.members {
		standing := standingOf(m)
		if !standing.counted {
			continue
		}
		if !standing.deleting {
			reading.StatusReplicas++
		}
		instance, location := s.instance(a.group, m, standing, now)
		reading.Instances = append(reading.Instances, instance)
		reading.Locations = append(reading.Locations, location)
	}
	return reading
}

// instance answers what a member of a group is to policy, and where it is.
func (s *snapshot) instance(group *compute.InstanceGroupManager, m *compute.ManagedInstance, standing standing, now time.Time) (policy.Instance, targets.Location) {
	id := idOf(m)
	before, _ := s.fleet.memory.Recall(id)
	found, looked := s.found[id]
	sighting := cloud.Sighting{Launched: found.started, Readiness: policy.ReadinessFalse}
	if standing.phase == policy.PhaseRunning {
		sighting.Readiness = healthOf(m, watched(group))
		sighting.Since = later(found.started, before.Launched)
	}
	record := s.fleet.memory.Update(id, sighting, now)
	if looked {
		s.fleet.memory.Learn(id, found.started, found.facts)
		s.fleet.noteStarted(id)
		record.Facts = found.facts
	}
	instance := policy.Instance{
		ID: id, Phase: standing.phase, Readiness: record.Readiness, Deleting: standing.deleting,
		ReadinessChanged: record.Changed,
	}
	if standing.phase == policy.PhaseRunning {
		instance.StartedAt = record.Started()
	}
	location := targets.Location{Name: nameOf(m)}
	if record.Facts != nil {
		location.Name = cmp.Or(record.Facts.Name, location.Name)
		location.Addresses, location.Labels = record.Facts.Addresses, record.Facts.Labels
	}
	return instance, location
}

// noteRestart remembers that a machine whose start time is known does not run now.
func (f *Fleet) noteRestart(id string, learned bool) {
	if !learned {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.restarting[id] = true
}

// noteStarted remembers that a machine's start time was looked up.
func (f *Fleet) noteStarted(id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.restarting, id)
}

// isRestarting says that a machine did not run when it was last seen, so that its
// start time has to be looked up again.
func (f *Fleet) isRestarting(id string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.restarting[id]
}

// hold answers why a group must not be resized now; nil when it may be.
func (s *snapshot) hold(a *asked) *policy.Hold {
	if hold := s.fleet.autoscalers.hold(&a.target, autoscalerOf(a.group)); hold != nil {
		return hold
	}
	return s.fleet.config.rolloutHold(&a.target, a.group)
}

// rolloutHold answers the hold of a group whose instances are being updated, where
// the fleet is to wait for that.
func (c *Config) rolloutHold(t *Target, group *compute.InstanceGroupManager) *policy.Hold {
	if !c.HoldDuringRollout || !rolling(group) {
		return nil
	}
	return &policy.Hold{Reason: RolloutInProgress, Message: fmt.Sprintf("a proactive update of %v is under way", t)}
}

// versionOf answers the version of a reading: which group it was, and its size.
func versionOf(group *compute.InstanceGroupManager) string {
	return strconv.FormatUint(group.Id, 10) + "/" + strconv.FormatInt(group.TargetSize, 10)
}

func replicas(size int64) int32 { return int32(min(max(size, 0), math.MaxInt32)) }

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
