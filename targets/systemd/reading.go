package systemd

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/probe"
	"github.com/hpad/hpad/targets/proc"
)

const requestHint = "set CPUQuota= and MemoryHigh= or MemoryMax= in the unit file, or requests in the template's table of the fleet"

// read converts a list of units to the target's reading.
func (t *target) read(units map[int32]unit, cache *detailCache, at time.Time) targets.Reading {
	reading := targets.Reading{Observed: at}
	var m members
	t.with(func(s *state) {
		m = s.members
		reading.Notices = s.notices(units, cache, at)
	})
	reading.SpecReplicas, reading.Version = m.count(), m.versionText()
	if notice := t.replacementNotice(m, units, cache); notice != nil {
		reading.Notices = append(reading.Notices, *notice)
	}
	var locations targets.LocationList
	for _, index := range slices.Sorted(maps.Keys(units)) {
		u := units[index]
		leaving := m.Leaving.has(index) || !m.has(index) && u.state != failed
		if u.state == absent || m.Leaving.has(index) && u.state == failed {
			continue
		}
		d, _ := cache.get(u.Name)
		instance, why := t.instance(u, d, at)
		instance.Deleting = leaving || u.state == stopping
		reading.Instances = append(reading.Instances, instance)
		location := t.location(index, u)
		location.Failing = u.state == failed || d.restartedRecently(u, at)
		location.Limits, location.UnreadyReason = d.limits, t.unreadyReason(m, index, u, d, &instance, why)
		locations = append(locations, location)
		if !instance.Deleting && instance.Phase != policy.PhaseFailed {
			reading.StatusReplicas++
		}
	}
	reading.Locations = locations
	return reading
}

// instance returns an instance, and the result of its readiness probe if it is not ready.
func (t *target) instance(u unit, d details, at time.Time) (instance policy.Instance, why string) {
	instance = policy.Instance{
		ID: u.Name, Phase: phaseOf(u.state), Readiness: policy.ReadinessFalse,
		StartedAt: d.started, ReadinessChanged: d.active,
		Tasks: []policy.Task{{Name: string(t.template), Requests: requestsOf(t.config, d), RequestHint: requestHint}},
	}
	if instance.Phase != policy.PhaseRunning {
		return instance, ""
	}
	if instance.StartedAt.IsZero() {
		instance.StartedAt = at
	}
	if instance.ReadinessChanged.IsZero() {
		instance.ReadinessChanged = instance.StartedAt
	}
	if u.state == running {
		instance.Readiness = policy.ReadinessTrue
	}
	switch {
	case t.prober != nil:
		instance.Readiness, instance.ReadinessChanged, why = t.prober.readiness(u.Name, d.activation, instance.ReadinessChanged)
	case t.config.ReadyProbe.probes():
		instance.Readiness = policy.ReadinessUnknown // probes do not run before Start
	}
	return instance, why
}

// unreadyReason returns the reason why an instance is not ready, mostly as systemctl shows it.
func (t *target) unreadyReason(m members, index int32, u unit, d details, instance *policy.Instance, probed string) string {
	words := fmt.Sprintf("%s (%s)", u.ActiveState, u.SubState)
	if d.result != "" && d.result != "success" {
		words += ", last result: " + d.result
	}
	switch {
	case u.state == absent:
		return "not started"
	case u.state == stopping:
		return "stopping: " + words
	case instance.Deleting && m.Leaving.has(index) && t.config.DrainDelay > 0:
		return "draining: waits for drain_delay"
	case instance.Deleting:
		return "waits to be stopped"
	case instance.Readiness == policy.ReadinessTrue:
		return ""
	case u.restarting():
		return fmt.Sprintf("restarting: %s, %d restarts", words, d.restarts)
	case u.state == pending:
		return "starting: " + words
	case u.state == failed:
		return words
	case probed != "":
		return probed
	}
	return new(probe.State).Reason()
}

// unreadyReasons returns the names of the unready instances among some with their reasons.
func (t *target) unreadyReasons(m members, some indexes, units map[int32]unit, cache *detailCache) (reasons []string) {
	for _, index := range some {
		u := units[index]
		d, _ := cache.get(u.Name)
		instance, probed := t.instance(u, d, time.Now())
		if why := t.unreadyReason(m, index, u, d, &instance, probed); why != "" {
			reasons = append(reasons, t.template.unit(index)+": "+why)
		}
	}
	return reasons
}

func phaseOf(s unitState) policy.Phase {
	switch s {
	case running, stopping:
		return policy.PhaseRunning
	case failed:
		return policy.PhaseFailed
	}
	return policy.PhasePending
}

func (t *target) location(index int32, u unit) targets.Location {
	location := targets.Location{
		Name: string(t.template) + "@" + strconv.Itoa(int(index)), Node: proc.Hostname(), Addresses: []string{"127.0.0.1"},
		Labels: map[string]string{"unit": u.Name, "template": t.template.file(), "index": strconv.Itoa(int(index))},
	}
	if port := portAt(t.config.Port, index); port != 0 {
		location.Ports = targets.Ports{{Number: port}}
	}
	return location
}

func isMasked(state string) bool { return state == "masked" || state == "masked-runtime" }
