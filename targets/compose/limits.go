package compose

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/docker/docker/api/types/container"

	"github.com/hpad/hpad/targets"
)

// limits restricts a service's replica count based on the settings of a container.
type limits struct {
	// refusal is set if the service cannot be scaled at all.
	refusal error
	// most is the maximum count, or nil if there is no limit. setting describes the setting
	// that imposes the limit.
	most    *int32
	setting string
}

func limitsOf(m *member, inspected *container.InspectResponse) limits {
	refuse := func(reason, setting, wayOut string) limits {
		return limits{refusal: &targets.ReasonError{Reason: reason, Err: fmt.Errorf("%w: service %q of project %q uses %s, which only one container can use: %s, and run \"docker compose up -d %s\"",
			targets.ErrUnscalable, m.key.service, m.key.project, setting, wayOut, m.key.service)}}
	}
	if !replaced.MatchString(m.name) && namePrefix(m, inspected) == "" {
		return refuse(fixedContainerName, fmt.Sprintf("container_name %q", m.name), "remove container_name from the service")
	}
	if mode := inspected.HostConfig.NetworkMode; mode.IsContainer() {
		return refuse(sharedNetwork, fmt.Sprintf("the network of another container (network_mode, now %q)", shortMode(string(mode))), "replace network_mode with networks")
	}
	for _, name := range slices.Sorted(maps.Keys(inspected.NetworkSettings.Networks)) {
		endpoint := inspected.NetworkSettings.Networks[name]
		if endpoint == nil || endpoint.IPAMConfig == nil {
			continue
		}
		if address := cmp.Or(endpoint.IPAMConfig.IPv4Address, endpoint.IPAMConfig.IPv6Address); address != "" {
			return refuse(staticIP, fmt.Sprintf("the fixed address %s in network %q", address, name), "remove ipv4_address and ipv6_address from the service's network")
		}
	}
	return portLimits(inspected.HostConfig, refuse)
}

// portLimits returns the limits imposed by a container's host ports.
func portLimits(c *container.HostConfig, refuse func(reason, setting, wayOut string) limits) limits {
	var found limits
	ports := slices.Sorted(maps.Keys(c.PortBindings))
	for _, port := range ports {
		for _, binding := range c.PortBindings[port] {
			count, ok := portCount(binding.HostPort)
			if !ok {
				continue // the engine chooses the port
			}
			if count == 1 {
				return refuse(staticHostPort, fmt.Sprintf("host port %s for container port %s", binding.HostPort, port),
					fmt.Sprintf("publish %q alone, or a range such as \"%s-%d:%s\", and let a proxy find the containers", port.Port(), binding.HostPort, atoi(binding.HostPort)+9, port.Port()))
			}
			if found.most == nil || count < *found.most {
				found.most = &count
				found.setting = fmt.Sprintf("the host ports %s, one for each container", binding.HostPort)
			}
		}
	}
	return found
}

// portCount returns the number of ports in a binding, or false if the engine chooses the port.
func portCount(text string) (int32, bool) {
	if text == "" || text == "0" {
		return 0, false
	}
	first, last, isRange := strings.Cut(text, "-")
	if !isRange {
		return 1, true
	}
	return int32(max(1, atoi(last)-atoi(first)+1)), true
}

// atoi returns 0 if the text is not a number.
func atoi(text string) int {
	n, _ := strconv.Atoi(text)
	return n
}

// namePrefix returns the prefix that Compose uses for the names of the service's containers, or
// "" if the service has a container_name. A renamed container keeps its first name as an alias
// in its networks. If it has no alias, as in the host's network, a number above 1 shows that
// Compose numbers the containers.
func namePrefix(m *member, inspected *container.InspectResponse) string {
	names := []string{m.name}
	for _, endpoint := range inspected.NetworkSettings.Networks {
		if endpoint != nil {
			names = append(names, endpoint.Aliases...)
		}
	}
	for _, name := range names {
		if prefix := prefixOf(m.key, name); prefix != "" {
			return prefix
		}
	}
	if m.number > 1 && !slices.Contains(names[1:], m.name) {
		return m.key.project + "-" + m.key.service + "-"
	}
	return ""
}

// prefixOf returns the part before the number in a name that Compose generated for a service:
// "shop-web-" for "shop-web-3", with underscores in older projects. It returns "" for other
// names.
func prefixOf(k key, name string) string {
	for _, separator := range []string{"-", "_"} {
		prefix := k.project + separator + k.service + separator
		text, ok := strings.CutPrefix(name, prefix)
		if number := atoi(text); ok && number > 0 && strconv.Itoa(number) == text {
			return prefix
		}
	}
	return ""
}

func shortMode(mode string) string {
	name, id, ok := strings.Cut(mode, ":")
	if !ok {
		return mode
	}
	return name + ":" + shortID(id)
}
