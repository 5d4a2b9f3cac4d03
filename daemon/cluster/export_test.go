package cluster

import "github.com/hpad/hpad/daemon/config"

// Identities returns those of a configuration's shards, by name.
func Identities(whole *config.Config) map[string]string { return divide(whole).identities }

// Offsets returns by how many seconds the clocks of the other members are ahead at least.
func (c *Cluster) Offsets() map[string]float64 { return c.offsets() }
