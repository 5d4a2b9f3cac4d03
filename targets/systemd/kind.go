package systemd

import (
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
)

// Kind is the kind of fleets of systemd.
var Kind = targets.Kind{
	Name:      "systemd",
	Config:    func() targets.Config { return new(Config) },
	Target:    func() targets.Target { return new(Target) },
	Reference: targets.Reference{Paths: []string{"{template}"}, Whole: true, Example: "worker@.service", Workload: "{name}@.service", Suffix: "@.service"},
	Samples:   true,
	Failing:   []policy.ConditionType{UnitsFailing, UnitsMissing, UnitsStuck},
	Without: map[string]string{
		"out of range": "a template may have any number of instances",
	},
}

// Build makes a fleet of that name.
func (c *Config) Build(name string, env targets.Env) (targets.Fleet, error) {
	return New(name, c, env), nil
}
