package drainer

import "github.com/hpad/hpad/settings"

// Config is how the nodes of instances are drained.
type Config struct {
	// Fleet is the fleet of kind "nomad" whose nodes they are.
	Fleet string `toml:"fleet"`
	// NodeAttribute is the attribute of nodes, or "meta.NAME", that has the
	// instance's id or name; empty looks for what clouds, names and addresses tell.
	NodeAttribute string `toml:"node_attribute"`
	// IgnoreSystemJobs lets system jobs run on until the instance is terminated.
	IgnoreSystemJobs bool `toml:"ignore_system_jobs"`
	// KeepNodes leaves the nodes of terminated instances to Nomad's own clearing up.
	KeepNodes bool `toml:"keep_nodes"`
}

// SetDefaults fills in what was not given, which is nothing.
func (*Config) SetDefaults() {}

// Validate returns every mistake, with paths relative to the table.
func (c *Config) Validate() []settings.FieldError {
	if c.Fleet == "" {
		return []settings.FieldError{{Field: "fleet", Detail: `is required: the name of the fleet of kind "nomad" whose nodes run on the instances`}}
	}
	return nil
}
