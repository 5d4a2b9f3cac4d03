// Package etcd tests clusters with a real etcd.
package etcd

import (
	"testing"

	"github.com/hpad/hpad/daemon/cluster"
	"github.com/hpad/hpad/daemon/cluster/clustertest"
	"github.com/hpad/hpad/daemon/cluster/etcd"
	"github.com/hpad/hpad/test/etcd/etcdtest"
	"github.com/hpad/hpad/test/internal/relay"
)

func TestContract(t *testing.T) {
	for name, servers := range map[string]int{"one server": 1, "three servers": 3} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := etcdtest.Start(t, servers)
			clustertest.Run(t, func(t *testing.T) (cluster.Coordinator, func()) {
				var relays []*relay.Relay
				var endpoints []string
				for _, endpoint := range store.Endpoints {
					r := relay.New(t, endpoint)
					relays, endpoints = append(relays, r), append(endpoints, r.URL)
				}
				c := etcd.New(etcd.Options{Cluster: "test", Endpoints: endpoints})
				t.Cleanup(func() {
					if err := c.Close(); err != nil {
						t.Error(err)
					}
				})
				return c, func() {
					for _, r := range relays {
						r.Drop(true, true)
					}
				}
			})
		})
	}
}
