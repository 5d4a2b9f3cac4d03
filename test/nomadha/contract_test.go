package nomadha

import (
	"os"
	"testing"

	"github.com/hpad/hpad/daemon/cluster"
	"github.com/hpad/hpad/daemon/cluster/clustertest"
	"github.com/hpad/hpad/daemon/cluster/nomad"
	nomadfleet "github.com/hpad/hpad/targets/nomad"
	"github.com/hpad/hpad/test/etcd/etcdtest"
	"github.com/hpad/hpad/test/internal/parallel"
	"github.com/hpad/hpad/test/internal/program"
	"github.com/hpad/hpad/test/nomad/nomadtest"
)

func TestMain(m *testing.M) {
	code := parallel.Run(m, 12)
	program.Clean()
	os.Exit(code)
}

// servers are the agents of a test, three servers.
func servers(t *testing.T) []string {
	t.Helper()
	var urls []string
	for _, server := range nomadtest.StartServers(t, 3).Servers {
		urls = append(urls, server.URL)
	}
	return urls
}

// TestContract is what every store of a cluster does.
func TestContract(t *testing.T) {
	for name, start := range map[string]func(t *testing.T) []string{
		"one server":    func(t *testing.T) []string { return []string{nomadtest.StartServers(t, 1).URL} },
		"three servers": servers,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			urls, next := start(t), 0
			clustertest.Run(t, func(t *testing.T) (cluster.Coordinator, func()) {
				next++
				relay := etcdtest.NewRelay(t, urls[next%len(urls)])
				c, err := nomad.New(nomad.Options{Cluster: "test", Path: "hpad", Agent: nomadfleet.Config{Address: relay.URL}})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() {
					if err := c.Close(); err != nil {
						t.Error(err)
					}
				})
				return c, func() { relay.Drop(true, true) }
			})
		})
	}
}
