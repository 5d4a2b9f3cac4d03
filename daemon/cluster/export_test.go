package cluster

import "github.com/hpad/hpad/daemon/config"

func (c *Cluster) IsArchiving() bool {
	if c.archiving.TryLock() {
		c.archiving.Unlock()
		return false
	}
	return true
}

func Identities(whole *config.Config, key []byte) map[string]string {
	return separate(whole).identified(key).identities
}

func (c *Cluster) Offsets() map[string]float64 { return c.offsets() }
