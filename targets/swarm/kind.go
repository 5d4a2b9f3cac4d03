package swarm

import (
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
)

// Kind is the kind of fleets of Docker Swarm.
var Kind = targets.Kind{
	Name:       "swarm",
	Config:     func() targets.Config { return new(Config) },
	Target:     func() targets.Target { return new(Target) },
	Reference:  targets.Reference{Paths: []string{"{service}"}, Whole: true, Example: "shop_web", Workload: "{name}"},
	Samples:    true,
	Failing:    []policy.ConditionType{TasksFailing},
	Unique:     true,
	LabelPlace: "the labels of the service: docker service update --label-rm hpad.enable SERVICE",
	Without: map[string]string{
		"down, unready instances": "the swarm chooses",
		"read, readiness":         "a swarm calls a task running once it is healthy, and replaces it when it no longer is",
		"out of range":            "a service of a swarm may have any number of tasks",
		"partly done":             "a swarm takes a count or refuses it",
	},
}

// Build makes a fleet of that name.
func (c *Config) Build(name string, _ targets.Env) (targets.Fleet, error) { return New(name, c) }
