package nomadtest

import "testing"

// Cluster is a set of servers. The embedded Agent is used for API requests; it is a client or the
// first server.
type Cluster struct {
	*Agent
	Servers []*Agent

	rpc []string
}

// StartCluster starts the given number of servers and one client, and waits until the client's
// node is ready.
func StartCluster(t testing.TB, servers int) *Cluster {
	t.Helper()
	c := StartServers(t, servers, Options{})
	c.Agent = c.AddClient(t, nil)
	return c
}

// StartServers starts the given number of servers without a client. The embedded Agent is the
// first server.
func StartServers(t testing.TB, servers int, options Options) *Cluster {
	t.Helper()
	c := &Cluster{}
	var join []string
	options.servers = servers
	for range servers {
		server := prepare(t, options)
		join, c.rpc = append(join, server.Serf), append(c.rpc, server.RPC)
		c.Servers = append(c.Servers, server)
	}
	for _, server := range c.Servers {
		server.options.join = join // after a restart, any of them may be running
		server.configure()
		server.start()
	}
	for _, server := range c.Servers {
		server.awaitLeader()
	}
	if c.Agent = c.Servers[0]; options.ACL {
		c.bootstrap()
	}
	return c
}

// AddClient starts another client and waits until its node is ready.
func (c *Cluster) AddClient(t testing.TB, meta map[string]string) *Agent {
	t.Helper()
	a := prepare(t, Options{clientOf: c.rpc, Meta: meta})
	a.start()
	a.awaitLeader()
	a.awaitNode()
	return a
}

// Leader returns the leader.
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
