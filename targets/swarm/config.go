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

// Config is one [fleets.NAME] table of kind "swarm". Its host must be a manager of the swarm.
type Config struct {
	docker.Config
	// Nodes maps other nodes of the swarm, by ID or hostname, to the addresses of their
	// engines. They are needed to sample CPU and memory of the tasks there. The manager's TLS
	// and Timeout also apply to them.
	Nodes map[string]string `toml:"nodes"`
	// ScaleDuringUpdate allows hpad to scale a service during an update. A rollback then
	// returns to the new version.
	ScaleDuringUpdate bool `toml:"scale_during_update"`
	// Discovery finds autoscalers in the labels of services.
	targets.Discovery
}

// SetDefaults sets missing values from environment variables, or to their defaults.
func (c *Config) SetDefaults() {
	c.Config.SetDefaults()
	settings.SetDefaults(c)
}

// Validate returns all errors of a configuration with defaults applied. Field paths are
// relative to the fleet's table.
func (c *Config) Validate() []settings.FieldError {
	errs := append(c.Config.Validate(), settings.Validate(&c.Discovery)...)
	for _, node := range slices.Sorted(maps.Keys(c.Nodes)) {
		host := c.Nodes[node]
		switch detail := docker.CheckHost(host); {
		case node == "":
			errs = append(errs, settings.FieldError{Field: "nodes", Detail: "contains an empty key; each key must be a node's ID or hostname"})
		case detail != "":
			errs = append(errs, settings.FieldError{Field: "nodes." + node, Value: httpclient.QuoteAddress(host), Detail: detail})
		}
	}
	return errs
}

// Kind is the fleet kind "swarm".
var Kind = targets.Kind{
	Name:       "swarm",
	Config:     func() targets.Config { return new(Config) },
	Target:     func() targets.Target { return new(Target) },
	Reference:  targets.Reference{Paths: []string{"{service}"}, Whole: true, Example: "shop_web", Workload: "{name}"},
	Samples:    true,
	Failing:    []policy.ConditionType{TasksFailing},
	LabelPlace: "the labels of the service: docker service update --label-rm hpad.enable SERVICE",
	Limits: map[string]string{
		"cpu":    "set deploy.resources.limits.cpus of the service (docker service update --limit-cpu)",
		"memory": "set deploy.resources.limits.memory of the service (docker service update --limit-memory)",
	},
	Without: map[string]string{
		"down, unready instances": "the swarm chooses",
		"read, readiness":         "a swarm task is running only while it is healthy, and is replaced when it becomes unhealthy",
		"out of range":            "a service of a swarm may have any number of tasks",
		"partial write":           "a swarm accepts or rejects a count as a whole",
	},
}

// Build returns a fleet with this configuration.
func (c *Config) Build(name string, env targets.Env) (targets.Fleet, error) {
	return New(name, c, env.Lease)
}

// Target identifies a service of a swarm.
type Target struct {
	// Service is the name of a replicated service. In a stack, it starts with the name of the
	// stack: "shop_web".
	Service string `toml:"service" required:"the name of a service, such as \"shop_web\" for the service web of the stack shop"`
}

// Validate returns all errors of the target.
func (t *Target) Validate() []settings.FieldError { return settings.Validate(t) }

// Name returns the target's name in a targets.Ref, which is the service's name.
func (t *Target) Name() string { return t.Service }
