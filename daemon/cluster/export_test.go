package cluster

import "github.com/hpad/hpad/daemon/config"

// IsArchiving reports whether runs that begin wait for somebody who reads histories.
func (c *Cluster) IsArchiving() bool {
	if c.archiving.TryLock() {
		c.archiving.Unlock()
		return false
	}
	return true
}

// Identities returns those of a configuration's shards, by name, where all fleets are divided
// into n parts.
func Identities(whole *config.Config, n int) map[string]string {
	l := layout{}
	for fleet := range whole.Fleets {
		l[fleet] = n
	}
	return divide(whole, 0, l).identities
}

// Offsets returns by how many seconds the clocks of the other members are ahead at least.
func (c *Cluster) Offsets() map[string]float64 { return c.offsets() }

// Try has the cluster be as during a reload that tries a configuration, until the function
// that it returns is called.
func (c *Cluster) Try(whole *config.Config) (end func()) {
	next := divide(whole, c.options.ShardSize, nil)
	c.loading.Store(&next)
	return func() { c.loading.Store(nil) }
}

// ShardOf returns the name of the shard that an autoscaler is in, of a fleet in n parts.
func ShardOf(fleet, autoscaler string, n int) string {
	return shardName(fleet, partNumber(autoscaler, n), n)
}
