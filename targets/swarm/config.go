package swarm

import (
	"maps"
	"slices"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/settings"
	"github.com/hpad/hpad/settings/httpclient"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/docker"
)

// Config is one [fleets.NAME] table of kind "swarm". The host is a manager of the swarm.
type Config struct {
	docker.Config
	// Nodes are the engines of the swarm's other nodes, by the ID or the hostname of the node.
	// They are needed for CPU and memory of tasks there. TLS and Timeout are those of the
	// manager.
	Nodes map[string]string `toml:"nodes"`
	// ScaleDuringUpdate also scales a service during an update. A rollback then returns to the
	// new version.
	ScaleDuringUpdate bool `toml:"scale_during_update"`
	// Discovery is by the labels of services.
	targets.Discovery
}

// SetDefaults sets missing values, from the environment if possible.
func (c *Config) SetDefaults() {
	c.Config.SetDefaults()
	settings.SetDefaults(c)
}

// Validate returns all errors of a configuration with defaults. Fields are paths below the
// fleet's table.
func (c *Config) Validate() []settings.FieldError {
	mistakes := append(c.Config.Validate(), settings.Validate(&c.Discovery)...)
	for _, node := range slices.Sorted(maps.Keys(c.Nodes)) {
		host := c.Nodes[node]
		switch detail := docker.CheckHost(host); {
		case node == "":
			mistakes = append(mistakes, settings.FieldError{Field: "nodes", Detail: "names a node without a name: each key is a node's id or hostname"})
		case detail != "":
			mistakes = append(mistakes, settings.FieldError{Field: "nodes." + node, Value: httpclient.QuoteAddress(host), Detail: detail})
		}
	}
	return mistakes
}

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

// Build returns a fleet with this configuration.
func (c *Config) Build(name string, _ targets.Env) (targets.Fleet, error) { return New(name, c) }

// Target is the part of an autoscaler's target table for swarm fleets.
type Target struct {
	// Service is the name of a replicated service. In a stack it starts with the name of the
	// stack: "shop_web".
	Service string `toml:"service"`
}

// Validate returns all errors of the target.
func (t *Target) Validate() []settings.FieldError {
	if t.Service == "" {
		return []settings.FieldError{{Field: "service", Detail: `is required: the name of a service, as "shop_web" for the service web of the stack shop`}}
	}
	return nil
}

// Name returns the target's name in a targets.Ref: the service's.
func (t *Target) Name() string { return t.Service }
