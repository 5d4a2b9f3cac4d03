package compose

import (
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
)

// Kind is the kind of fleets of Docker Compose.
var Kind = targets.Kind{
	Name:       "compose",
	Config:     func() targets.Config { return new(Config) },
	Target:     func() targets.Target { return new(Target) },
	Reference:  targets.Reference{Paths: []string{"{project}/{service}"}, Example: "shop/web", Workload: "{namespace}/{name}"},
	Samples:    true,
	Failing:    []policy.ConditionType{ContainersFailing},
	Unique:     true,
	LabelPlace: "the labels of the service, in the project's compose.yaml",
}

// Build makes a fleet of that name.
func (c *Config) Build(name string, env targets.Env) (targets.Fleet, error) {
	return New(name, c, env)
}
