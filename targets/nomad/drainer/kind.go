package drainer

import (
	"fmt"

	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/drain"
	"github.com/hpad/hpad/targets/nomad"
)

// Kind is the kind of drains of Nomad nodes.
var Kind = drain.Kind{Name: nomad.Kind.Name, Config: func() drain.Config { return new(Config) }, Counts: true}

// Build makes a drainer of the fleet's nodes.
func (c *Config) Build(by targets.Fleet) (drain.Drainer, error) {
	nodes, ok := by.(Nodes)
	if !ok {
		return nil, fmt.Errorf("fleet %q has no nodes to drain", c.Fleet)
	}
	return New(nodes, *c), nil
}

// DrainFleet returns the fleet whose nodes are drained.
func (c *Config) DrainFleet() (name, kind string) { return c.Fleet, nomad.Kind.Name }
