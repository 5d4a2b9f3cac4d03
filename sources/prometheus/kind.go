package prometheus

import "github.com/hpad/hpad/sources"

// Kind is the kind of sources that ask a Prometheus.
var Kind = sources.Kind{Name: "prometheus", Config: func() sources.Config { return new(Config) }}

// Build makes a source of that name.
func (c *Config) Build(name string, env sources.Env) (sources.Source, error) {
	return New(name, c, env.Answers)
}
