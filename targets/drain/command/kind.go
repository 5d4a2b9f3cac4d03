package command

import (
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/drain"
)

// Kind is the kind of drains by a command.
var Kind = drain.Kind{Name: "command", Config: func() drain.Config { return new(Config) }}

// Build makes a drainer.
func (c *Config) Build(targets.Fleet) (drain.Drainer, error) { return New(*c), nil }
