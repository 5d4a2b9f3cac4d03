package nomadtest

import "testing"

// Cluster is some servers that choose their leader, and an agent that runs what
// they decide and passes their API on.
type Cluster struct {
	*Agent
	Servers []*Agent

	rpc []string
}

// StartCluster runs so many servers and one agent that is none, and returns once
// its node takes work. What it needs is as for Start.
func StartCluster(t testing.TB, servers int) *Cluster {
	t.Helper()
	c := &Cluster{}
	var join, rpc []string
	for range servers {
		server := prepare(t, Options{servers: servers, join: join})
		join, rpc = append(join, server.Serf), append(rpc, server.RPC)
		server.start()
		c.Servers = append(c.Servers, server)
	}
	for _, server := range c.Servers {
		server.awaitLeader()
	}
	c.rpc = rpc
	c.Agent = c.AddClient(t)
	return c
}

// AddClient runs one more agent that is no server, and returns once its node takes
// work.
func (c *Cluster) AddClient(t testing.TB) *Agent {
	t.Helper()
	a := prepare(t, Options{clientOf: c.rpc})
	a.start()
	a.awaitLeader()
	a.awaitNode()
	return a
}

// Leader answers the server that leads.
func (c *Cluster) Leader() *Agent {
	c.t.Helper()
	var leader *Agent
	c.eventually(startTimeout, "leader", func() (string, bool) {
		address, err := c.Client.Status().Leader()
		if err != nil {
			return err.Error(), false
		}
		for _, server := range c.Servers {
			if server.RPC == address && server.process != nil {
				leader = server
			}
		}
		return address, leader != nil
	})
	return leader
}
