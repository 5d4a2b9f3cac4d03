package webhook

import (
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/drain"
)

// Kind is the kind of drains by a webhook.
var Kind = drain.Kind{Name: "webhook", Config: func() drain.Config { return new(Config) }}

// Build makes a drainer.
func (c *Config) Build(targets.Fleet) (drain.Drainer, error) { return New(*c) }
