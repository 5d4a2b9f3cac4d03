package cluster

// Offsets returns by how many seconds the clocks of the other members are ahead at least.
func (c *Cluster) Offsets() map[string]float64 { return c.offsets() }
