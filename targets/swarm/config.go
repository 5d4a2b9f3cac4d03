package swarm

import (
	"maps"
	"slices"

	"github.com/hpad/hpad/settings"
	"github.com/hpad/hpad/settings/httpclient"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/docker"
)

// Config is one [fleets.NAME] table of kind "swarm". The host is one of the
// swarm's managers.
type Config struct {
	docker.Config
	// Nodes are the engines of the swarm's other nodes, each by the id or the
	// hostname of its node, for cpu and memory of the tasks there. TLS and Timeout
	// are those of the manager.
	Nodes map[string]string `toml:"nodes"`
	// ScaleDuringUpdate scales a service while it is being updated, at the cost of
	// the version to which a rollback returns.
	ScaleDuringUpdate bool `toml:"scale_during_update"`
	// Discovery is by the labels of services.
	targets.Discovery
}

// SetDefaults fills in what was not given, from the environment where it has it.
func (c *Config) SetDefaults() {
	c.Config.SetDefaults()
	settings.SetDefaults(c)
}

// Validate returns every mistake of a defaulted configuration, with paths below the
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
