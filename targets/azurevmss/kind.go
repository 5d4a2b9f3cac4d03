package azurevmss

import (
	"github.com/hpad/hpad/targets"
)

// Kind is the kind of fleets of virtual machine scale sets.
var Kind = targets.Kind{
	Name:   "azurevmss",
	Config: func() targets.Config { return new(Config) },
	Target: func() targets.Target { return new(Target) },
	Reference: targets.Reference{
		Paths:   []string{"{resource_group}/{scale_set}"},
		Example: "shop/web", Workload: "{namespace}/{name}", Around: []string{"resource_group"},
	},
	Removes: true,
	Guarded: true,
	Without: map[string]string{
		"down, unready instances": "Azure chooses, unless hpad takes instances by name",
		"partly done":             "Azure takes a capacity or refuses it",
		"resource use":            "what machines use comes from node_exporter by way of Prometheus",
	},
}

// Build makes a fleet of that name.
func (c *Config) Build(name string, env targets.Env) (targets.Fleet, error) {
	return New(name, c, env), nil
}

// Requests returns false: what machines request is for the target of an autoscaler to say.
func (c *Config) Requests(string, string) (stated bool, at string) { return false, "" }
