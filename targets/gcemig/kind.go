package gcemig

import (
	"github.com/hpad/hpad/targets"
)

// Kind is the kind of fleets of managed instance groups.
var Kind = targets.Kind{
	Name:   "gcemig",
	Config: func() targets.Config { return new(Config) },
	Target: func() targets.Target { return new(Target) },
	Reference: targets.Reference{
		Paths:   []string{"zones/{zone}/{group}", "regions/{region}/{group}", "{group}"},
		Example: "zones/europe-west4-a/web", Workload: "{name}", Around: []string{"zone", "region"},
	},
	Removes: true,
	Guarded: true,
	Without: map[string]string{
		"down, unready instances": "Compute Engine chooses, unless hpad takes instances by name",
		"partly done":             "Compute Engine takes a size or refuses it",
		"resource use":            "what machines use comes from node_exporter by way of Prometheus",
	},
}

// Build makes a fleet of that name.
func (c *Config) Build(name string, env targets.Env) (targets.Fleet, error) {
	return New(name, c, env), nil
}

// Requests returns false: what machines request is for the target of an autoscaler to say.
func (c *Config) Requests(string, string) (stated bool, at string) { return false, "" }
