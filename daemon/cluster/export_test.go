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

// Identities returns those of a configuration's fleets, by name.
func Identities(whole *config.Config) map[string]string { return separate(whole).identities }

// Offsets returns by how many seconds the clocks of the other members are ahead at least.
func (c *Cluster) Offsets() map[string]float64 { return c.offsets() }
