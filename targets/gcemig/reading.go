package gcemig

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"google.golang.org/api/compute/v1"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/cloud"
)

// readings returns what was read of every target.
func (s *snapshot) readings() map[targets.Ref]targets.Reading {
	now := time.Now()
	readings := make(map[targets.Ref]targets.Reading, len(s.wanted))
	for ref, a := range s.wanted {
		if a.err != nil {
			readings[ref] = targets.Reading{Err: a.err}
			continue
		}
		readings[ref] = s.reading(a, now)
	}
	return readings
}

// reading returns what was read of one target.
func (s *snapshot) reading(a *wanted, now time.Time) targets.Reading {
	reading := targets.Reading{
		SpecReplicas: replicas(a.group.TargetSize), Version: versionOf(a.group), Observed: s.listing.observed,
		Hold: s.hold(a), Notices: s.fleet.notices(a, now),
	}
	var locations targets.LocationList
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
		locations = append(locations, location)
	}
	reading.Locations = locations
	return reading
}

// instance returns what a member of a group is to policy, and where it is.
func (s *snapshot) instance(group *compute.InstanceGroupManager, m *compute.ManagedInstance, standing standing, now time.Time) (policy.Instance, targets.Location) {
	id := idOf(m)
	before, _ := s.fleet.memory.Recall(id)
	found, looked := s.found[id]
	sighting := cloud.Sighting{Launched: found.started, Readiness: policy.ReadinessFalse}
	if standing.phase == policy.PhaseRunning {
		sighting.Readiness = healthOf(m, watched(group))
		sighting.Since = slices.MaxFunc([]time.Time{found.started, before.Launched}, time.Time.Compare)
	}
	record := s.fleet.memory.Update(id, sighting, now)
	if looked {
		s.fleet.memory.Learn(id, found.started, found.facts)
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

// hold returns why a group must not be resized now; nil when it may be.
func (s *snapshot) hold(a *wanted) *policy.Hold {
	if hold := s.fleet.autoscalers.hold(&a.target, autoscalerOf(a.group)); hold != nil {
		return hold
	}
	return s.fleet.config.rolloutHold(&a.target, a.group)
}

// rolloutHold returns the hold of a group whose instances are being updated, where
// the fleet is to wait for that.
func (c *Config) rolloutHold(t *Target, group *compute.InstanceGroupManager) *policy.Hold {
	if !c.HoldDuringRollout || !rolling(group) {
		return nil
	}
	return &policy.Hold{Reason: RolloutInProgress, Message: fmt.Sprintf("a proactive update of %v is under way", t)}
}

// versionOf returns the version of a reading: which group it was, and its size.
func versionOf(group *compute.InstanceGroupManager) string {
	return strconv.FormatUint(group.Id, 10) + "/" + strconv.FormatInt(group.TargetSize, 10)
}

func replicas(size int64) int32 { return int32(min(max(size, 0), math.MaxInt32)) }
