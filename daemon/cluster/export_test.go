package cluster

import "github.com/hpad/hpad/daemon/config"

func (c *Cluster) IsArchiving() bool {
	if c.archives.mu.TryLock() {
		c.archives.mu.Unlock()
		return false
	}
	return true
}

func Identities(whole *config.Config, key []byte) map[string]string {
	return separate(whole).identified(key).identities
}

func (c *Cluster) Offsets() map[string]float64 { return c.offsets() }
