package nomad

import (
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
)

// Kind is the kind of fleets of Nomad.
var Kind = targets.Kind{
	Name:   "nomad",
	Config: func() targets.Config { return new(Config) },
	Target: func() targets.Target { return new(Target) },
	Reference: targets.Reference{
		Paths:   []string{"{job}/{group}", "{namespace}/{job}/{group}", "{region}/{namespace}/{job}/{group}"},
		Escaped: true, Example: "checkout/api", Workload: "{name}/{name}",
		Around: []string{"region", "namespace"},
	},
	Samples:       true,
	Failing:       []policy.ConditionType{AllocationsFailing},
	Unique:        true,
	InstanceLabel: "alloc_id",
	LabelPlace:    "the meta of the task group, in the job's file",
	Without: map[string]string{
		"down, unready instances": "Nomad's scheduler chooses",
		"partly done":             "Nomad takes a count or refuses it",
	},
}

// Build makes a fleet of that name.
func (c *Config) Build(name string, env targets.Env) (targets.Fleet, error) {
	return New(name, c, env)
}
