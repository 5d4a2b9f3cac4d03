package awsasg

import (
	"fmt"
	"maps"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/cloud"
)

// The labels of an instance's location that are not its tags.
const (
	labelZone = "availability_zone"
	labelType = "instance_type"
)

// reading returns the reading of a group as it was described.
func (f *Fleet) reading(name string, described found, learned map[string]*detail, now time.Time) targets.Reading {
	g := described.group
	switch {
	case described.err != nil:
		return targets.Reading{Err: described.err}
	case g == nil:
		return targets.Reading{Err: reasoned(GroupNotFound, fmt.Errorf("%w: there is no Auto Scaling group %q", targets.ErrTargetNotFound, name))}
	}
	if err := g.unscalable(); err != nil {
		return targets.Reading{Err: err}
	}
	r := targets.Reading{
		SpecReplicas: g.desired(), StatusReplicas: g.observed(), Min: g.min(), Max: g.max(),
		Version: g.version(), Observed: now, Hold: f.hold(g),
		Notices: append(g.notices(), f.shortages.Notices(g.name())...),
	}
	var locations targets.LocationList
	for _, instance := range g.ordered() {
		s := stageOf(instance.LifecycleState)
		if s.outside {
			continue
		}
		r.Instances = append(r.Instances, f.instance(&instance, s, learned[aws.ToString(instance.InstanceId)], now))
		locations = append(locations, f.location(&instance))
	}
	r.Locations = locations
	return r
}

// hold returns why a group must not be scaled now; nil when it may be.
func (f *Fleet) hold(g *group) *policy.Hold {
	if hold := g.deleting(); hold != nil {
		return hold
	}
	known, _ := f.policies.Value() // none where they do not matter
	if hold := known.hold(g); hold != nil {
		return hold
	}
	return f.refreshes.hold(g.name())
}

// instance returns an instance, and remembers it.
func (f *Fleet) instance(i *types.Instance, s stage, learned *detail, now time.Time) policy.Instance {
	id := aws.ToString(i.InstanceId)
	sighting := cloud.Sighting{Readiness: s.readiness(aws.ToString(i.HealthStatus))}
	if learned != nil {
		sighting.Launched = learned.launched
	}
	if sighting.Readiness == policy.ReadinessTrue {
		sighting.Since = sighting.Launched // at the first sight of one that runs
	}
	known := f.memory.Update(id, sighting, now)
	if learned != nil {
		f.memory.Learn(id, learned.launched, &learned.facts)
	}
	return policy.Instance{
		ID: id, Phase: s.phase, Deleting: s.deleting,
		Readiness: known.Readiness, ReadinessChanged: known.Changed, StartedAt: known.Started(),
	}
}

// location returns where an instance is to be found.
func (f *Fleet) location(i *types.Instance) targets.Location {
	l := targets.Location{Protected: aws.ToBool(i.ProtectedFromScaleIn), Labels: map[string]string{}}
	if known, ok := f.memory.Recall(aws.ToString(i.InstanceId)); ok && known.Facts != nil {
		l.Name, l.Addresses = known.Facts.Name, known.Facts.Addresses
		maps.Copy(l.Labels, known.Facts.Labels)
	}
	l.Labels[labelZone], l.Labels[labelType] = aws.ToString(i.AvailabilityZone), aws.ToString(i.InstanceType)
	return l
}
