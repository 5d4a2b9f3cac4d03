package compose

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"

	"github.com/docker/docker/api/types/container"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
)

// instance returns a container as policy has it. Its only task has the name of the
// service.
func (m *member) instance(known record, requests []policy.Amount) policy.Instance {
	return policy.Instance{
		ID: m.ID, Phase: m.phase(), Readiness: known.Readiness, Deleting: m.doomed || m.State == container.StateRemoving,
		StartedAt: known.Started, ReadinessChanged: known.Changed,
		Tasks: []policy.Task{{Name: m.key.service, Requests: requests, RequestHint: requestHint(m.key)}},
	}
}

// requestHint returns how a service states what it reserves.
func requestHint(k key) string {
	return fmt.Sprintf("set cpus and mem_limit of service %q (or deploy.resources.limits; reservations only count for memory) and run \"docker compose up -d %s\", "+
		"or say requests = { cpu = \"500m\", memory = \"256Mi\" } in the autoscaler's target", k.service, k.service)
}

// location returns a container's addresses in its networks, and the ports that it
// exposes there, each by its number.
func (m *member) location() targets.Location {
	l := targets.Location{Name: m.name, Labels: m.Labels}
	if m.NetworkSettings != nil {
		for _, name := range slices.Sorted(maps.Keys(m.NetworkSettings.Networks)) {
			endpoint := m.NetworkSettings.Networks[name]
			if endpoint == nil {
				continue
			}
			for _, address := range []string{endpoint.IPAddress, endpoint.GlobalIPv6Address} {
				if _, err := netip.ParseAddr(address); err == nil {
					l.Addresses = append(l.Addresses, address)
				}
			}
		}
	}
	for _, port := range m.Ports {
		if port.Type != "tcp" {
			continue
		}
		l.Ports.Set(strconv.Itoa(int(port.PrivatePort)), int(port.PrivatePort))
	}
	return l
}

// ContainersFailing is the condition of a service with containers that ended by
// themselves, or do so again and again.
const ContainersFailing policy.ConditionType = "ContainersFailing"

// failing returns that containers have exited or keep restarting, with what hpad does
// about some; nil when none has.
func failing(members []*member, known map[string]*detail, all map[string]revival) *policy.Notice {
	reason := ""
	var told []string
	for _, m := range members {
		d := known[m.ID]
		if d == nil {
			continue
		}
		switch m.State {
		case container.StateRestarting:
			reason = "ContainersRestarting"
			told = append(told, fmt.Sprintf("%s %s and was restarted %d times", m.name, d.ended(), d.restarts))
		case container.StateExited:
			if reason == "" {
				reason = "ContainersExited"
			}
			text := m.name + " " + d.ended()
			if one, ok := all[m.ID]; ok && d.end == endFailed {
				text += one.plan()
			}
			told = append(told, text)
		}
	}
	if reason == "" {
		return nil
	}
	message := fmt.Sprintf("%d of %d containers do not run: ", len(told), len(members))
	return &policy.Notice{Condition: ContainersFailing, Reason: reason, Message: message + shortened(told)}
}
