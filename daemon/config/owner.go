package config

import (
	"cmp"
	"maps"
	"slices"

	"github.com/hpad/hpad/targets"
)

// owners maps targets to their autoscalers. Fleets on the same engine share their targets.
type owners struct {
	// first maps each fleet to the alphabetically first fleet on the same engine.
	first map[string]string
	names map[targets.Ref]string
}

// Owners returns the owners of all targets in the configuration.
func (c *Config) Owners() owners {
	o := newOwners(c.Fleets)
	for _, name := range slices.Sorted(maps.Keys(c.Autoscalers)) {
		o.Add(c.Autoscalers[name].Target, name)
	}
	return o
}

func newOwners(fleets map[string]Fleet) owners {
	o := owners{first: make(map[string]string, len(fleets)), names: map[targets.Ref]string{}}
	type engine struct{ kind, name string }
	first := map[engine]string{}
	for _, name := range slices.Sorted(maps.Keys(fleets)) {
		o.first[name] = name
		named, ok := fleets[name].Config.(targets.EngineIdentifier)
		if !ok {
			continue
		}
		key := engine{fleets[name].Kind, named.Engine()}
		if _, known := first[key]; !known {
			first[key] = name
		}
		o.first[name] = first[key]
	}
	return o
}

// Add makes an autoscaler the owner of a target unless the target already has an owner.
func (o owners) Add(ref targets.Ref, name string) {
	ref.Fleet = cmp.Or(o.first[ref.Fleet], ref.Fleet)
	o.names[ref] = cmp.Or(o.names[ref], name)
}

// Of returns the autoscaler of a target, which may have aliases, or "" if the target has no
// autoscaler.
func (o owners) Of(ref targets.Ref, aliases []string) string {
	ref.Fleet = cmp.Or(o.first[ref.Fleet], ref.Fleet)
	owner := o.names[ref]
	for _, alias := range aliases {
		owner = cmp.Or(owner, o.names[targets.Ref{Fleet: ref.Fleet, Name: alias}])
	}
	return owner
}
