package compose

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"
	"github.com/docker/docker/api/types/network"
)

// blueprint contains the settings for a new container of a service. They are the settings that
// Compose requested for an existing container, without its identity. hpad never computes
// Compose's labels, because their hashes differ between versions of Compose.
type blueprint struct {
	// Prefix is the name of a container without its number.
	Prefix string `json:"prefix"`
	// ImageID identifies the image. Its name may later refer to a different image.
	ImageID    string                `json:"image_id"`
	Config     *container.Config     `json:"config"`
	HostConfig *container.HostConfig `json:"host_config"`
	// Networks maps each network to its endpoint settings. In their aliases, ownName stands for
	// the container's own name.
	Networks map[string]*network.EndpointSettings `json:"networks,omitempty"`
	// Files lists what Compose copied into the container.
	Files []file `json:"files,omitempty"`
}

// ownName is a placeholder that cannot be a container name.
const ownName = "{name}"

// anonymous matches the names of anonymous volumes.
var anonymous = regexp.MustCompile(`^[0-9a-f]{64}$`)

func newBlueprint(m *member, inspected *container.InspectResponse) (*blueprint, error) {
	b := &blueprint{
		Prefix: namePrefix(m, inspected), ImageID: inspected.Image,
		Config: inspected.Config, HostConfig: inspected.HostConfig,
	}
	// Work on a copy, because inspected must not be modified.
	b, err := b.clone()
	if err != nil {
		return nil, err
	}
	b.dropIdentity(inspected.ID)
	b.freshVolumes()
	b.endpoints(m, inspected)
	return b, nil
}

func (b *blueprint) clone() (*blueprint, error) {
	text, err := json.Marshal(b)
	if err != nil {
		return nil, fmt.Errorf("copy the settings of a container: %w", err)
	}
	fresh := new(blueprint)
	if err := json.Unmarshal(text, fresh); err != nil {
		return nil, fmt.Errorf("copy the settings of a container: %w", err)
	}
	return fresh, nil
}

// dropIdentity removes the settings that identify one container.
func (b *blueprint) dropIdentity(id string) {
	mode := b.HostConfig.NetworkMode
	if b.Config.Hostname == shortID(id) || mode.IsHost() || mode.IsContainer() {
		b.Config.Hostname = ""
	}
	// Podman adds the host name to the environment.
	b.Config.Env = slices.DeleteFunc(b.Config.Env, func(variable string) bool { return variable == "HOSTNAME="+shortID(id) })
	// The engine does not report whether the address was requested or assigned.
	b.Config.MacAddress = "" //nolint:staticcheck // old engines return an address
	b.HostConfig.ContainerIDFile = ""
	b.translatePodman()
	if b.Config.Labels == nil {
		b.Config.Labels = map[string]string{}
	}
	delete(b.Config.Labels, labelNumber)
	for _, name := range []string{labelReplace, labelBeside, labelReplaces} {
		delete(b.Config.Labels, name)
	}
}

// translatePodman changes the settings that Podman returns in a form that it does not accept: two forms
// of the cpu limit, and resource limits such as RLIMIT_NOFILE instead of nofile.
func (b *blueprint) translatePodman() {
	if b.HostConfig.NanoCPUs != 0 {
		b.HostConfig.CPUPeriod, b.HostConfig.CPUQuota = 0, 0
	}
	for _, limit := range b.HostConfig.Ulimits {
		if name, found := strings.CutPrefix(limit.Name, "RLIMIT_"); found {
			limit.Name = strings.ToLower(name)
		}
	}
}

// freshVolumes replaces anonymous volumes with new volumes. A container that Compose has recreated
// refers to its predecessor's anonymous volumes by name.
func (b *blueprint) freshVolumes() {
	for i, m := range b.HostConfig.Mounts {
		if m.Type == mount.TypeVolume && anonymous.MatchString(m.Source) {
			b.HostConfig.Mounts[i].Source = ""
		}
	}
	b.HostConfig.Binds = slices.DeleteFunc(b.HostConfig.Binds, func(bind string) bool {
		volume, rest, _ := strings.Cut(bind, ":")
		if !anonymous.MatchString(volume) {
			return false
		}
		path, _, _ := strings.Cut(rest, ":")
		if b.Config.Volumes == nil {
			b.Config.Volumes = map[string]struct{}{}
		}
		b.Config.Volumes[path] = struct{}{}
		return true
	})
}

// endpoints restores the requested networks, without assigned addresses.
func (b *blueprint) endpoints(m *member, inspected *container.InspectResponse) {
	mode := b.HostConfig.NetworkMode
	if mode.IsHost() || mode.IsNone() || mode.IsContainer() {
		return
	}
	b.Networks = map[string]*network.EndpointSettings{}
	for of, found := range inspected.NetworkSettings.Networks {
		if found == nil {
			continue
		}
		endpoint := &network.EndpointSettings{Links: slices.Clone(found.Links), DriverOpts: maps.Clone(found.DriverOpts), GwPriority: found.GwPriority}
		if found.IPAMConfig != nil {
			endpoint.IPAMConfig = &network.EndpointIPAMConfig{LinkLocalIPs: slices.Clone(found.IPAMConfig.LinkLocalIPs)}
		}
		for _, alias := range found.Aliases {
			switch {
			case alias == shortID(inspected.ID): // the engine adds it
			case alias == m.name || prefixOf(m.key, alias) != "":
				endpoint.Aliases = append(endpoint.Aliases, ownName)
			default:
				endpoint.Aliases = append(endpoint.Aliases, alias)
			}
		}
		b.Networks[of] = endpoint
	}
}

// replica returns the name of a replica, and a copy of the blueprint with its number and
// labels.
func (b *blueprint) replica(number int, labels map[string]string) (string, *blueprint, error) {
	r, err := b.clone()
	if err != nil {
		return "", nil, err
	}
	name := r.Prefix + strconv.Itoa(number)
	maps.Copy(r.Config.Labels, labels)
	r.Config.Labels[labelNumber] = strconv.Itoa(number)
	for _, endpoint := range r.Networks {
		for i, alias := range endpoint.Aliases {
			if alias == ownName {
				endpoint.Aliases[i] = name
			}
		}
	}
	return name, r, nil
}

// primary returns the network in which a container is created, or "" if it has no network of
// its own.
func (b *blueprint) primary() string {
	mode := b.HostConfig.NetworkMode
	if _, ok := b.Networks[string(mode)]; ok {
		return string(mode)
	}
	if _, ok := b.Networks[network.NetworkBridge]; ok && (mode.IsDefault() || mode == "") {
		return network.NetworkBridge
	}
	if names := slices.Sorted(maps.Keys(b.Networks)); mode.IsBridge() && len(names) > 0 { // Podman reports this mode for all networks
		return names[0]
	}
	return ""
}

func (b *blueprint) volumes() []string {
	var names []string
	for _, m := range b.HostConfig.Mounts {
		if m.Type == mount.TypeVolume && m.Source != "" {
			names = append(names, m.Source)
		}
	}
	for _, bind := range b.HostConfig.Binds {
		if source, _, _ := strings.Cut(bind, ":"); source != "" && !strings.HasPrefix(source, "/") {
			names = append(names, source)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
