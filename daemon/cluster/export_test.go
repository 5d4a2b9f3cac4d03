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

// Identities returns those of a configuration's shards, by name.
func Identities(whole *config.Config) map[string]string { return divide(whole, 0, nil).identities }

// Offsets returns by how many seconds the clocks of the other members are ahead at least.
func (c *Cluster) Offsets() map[string]float64 { return c.offsets() }

// Try has the cluster be as during a reload that tries a configuration, until the function
// that it returns is called.
func (c *Cluster) Try(whole *config.Config) (end func()) {
	next := divide(whole, c.options.ShardSize, nil)
	c.loading.Store(&next)
	return func() { c.loading.Store(nil) }
}

// ShardsOf returns the names of the shards that an autoscaler is in, of a fleet that is
// divided into 1, 2 and so on parts, up to most.
func ShardsOf(fleet, autoscaler string, most int) []string {
	var names []string
	for n := 1; n <= most; n *= 2 {
		names = append(names, shardName(fleet, partNumber(autoscaler, n), n))
	}
	return names
}
