package awsasg

import (
	"github.com/hpad/hpad/targets"
)

// Kind is the kind of fleets of Auto Scaling groups.
var Kind = targets.Kind{
	Name:      "awsasg",
	Config:    func() targets.Config { return new(Config) },
	Target:    func() targets.Target { return new(Target) },
	Reference: targets.Reference{Paths: []string{"{group}"}, Whole: true, Example: "web-asg", Workload: "{name}"},
	Removes:   true,
	Guarded:   true,
	Unique:    true,
	Without: map[string]string{
		"down, unready instances": "AWS chooses, unless hpad takes instances by name",
		"partly done":             "AWS takes a count or refuses it",
		"resource use":            "what machines use comes from node_exporter by way of Prometheus",
	},
}

// Build makes a fleet of that name.
func (c *Config) Build(name string, env targets.Env) (targets.Fleet, error) {
	return New(name, c, env), nil
}

// Requests returns false: what machines request is for the target of an autoscaler to say.
func (c *Config) Requests(string, string) (stated bool, at string) { return false, "" }
