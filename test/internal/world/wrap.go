package world

import (
	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/targets"
)

// Wrap replaces each fleet of a configuration by the result of wrap.
func Wrap(c *config.Config, wrap *func(name string, fleet targets.Fleet) targets.Fleet) {
	for name, fleet := range c.Fleets {
		fleet.Config = wrapped{fleet.Config, wrap}
		c.Fleets[name] = fleet
	}
}

type wrapped struct {
	targets.Config
	wrap *func(name string, fleet targets.Fleet) targets.Fleet
}

func (w wrapped) Build(name string, env targets.Env) (targets.Fleet, error) {
	fleet, err := w.Config.Build(name, env)
	if err != nil {
		return nil, err
	}
	return (*w.wrap)(name, fleet), nil
}
