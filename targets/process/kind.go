package process

import (
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
)

// Kind is the kind of fleets of local processes.
var Kind = targets.Kind{
	Name:      "process",
	Config:    func() targets.Config { return new(Config) },
	Target:    func() targets.Target { return new(Target) },
	Reference: targets.Reference{Paths: []string{"{service}"}, Whole: true, Example: "worker", Workload: "{name}"},
	Samples:   true,
	Failing:   []policy.ConditionType{ProcessesFailing},
	Hosted:    true,
	Without: map[string]string{
		"read, after somebody else's change":    "nobody else starts or stops its processes",
		"a rival writes between read and write": "nobody else starts or stops its processes",
		"held":                                  "nothing but the fleet itself acts on its processes",
		"throttled":                             "the kernel does not count calls",
		"restart, readiness":                    "its processes end with it",
		"partly done":                           "the fleet takes a count or refuses it; processes that do not start are tried again",
		"platform gone":                         "the platform is the machine that hpad runs on",
		"no answer":                             "the kernel answers",
	},
}

// Build makes a fleet of that name.
func (c *Config) Build(name string, env targets.Env) (targets.Fleet, error) {
	return New(name, c, env), nil
}
