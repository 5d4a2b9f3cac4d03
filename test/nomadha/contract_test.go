package nomadha

import (
	"os"
	"sync/atomic"
	"testing"

	"github.com/hpad/hpad/daemon/cluster"
	"github.com/hpad/hpad/daemon/cluster/clustertest"
	"github.com/hpad/hpad/daemon/cluster/nomad"
	nomadfleet "github.com/hpad/hpad/targets/nomad"
	"github.com/hpad/hpad/test/internal/members"
	"github.com/hpad/hpad/test/internal/parallel"
	"github.com/hpad/hpad/test/internal/program"
	"github.com/hpad/hpad/test/internal/relay"
	"github.com/hpad/hpad/test/nomad/nomadtest"
)

func TestMain(m *testing.M) {
	code := parallel.Run(m, len(members.Faults)+5) // the tests wait most of the time; twice as many overload a slow host
	program.Clean()
	os.Exit(code)
}

func servers(t *testing.T) []string {
	t.Helper()
	return urls(nomadtest.StartServers(t, 3, nomadtest.Options{}))
}

func urls(c *nomadtest.Cluster) []string {
	var all []string
	for _, server := range c.Servers {
		all = append(all, server.URL)
	}
	return all
}

func TestContract(t *testing.T) {
	for name, start := range map[string]func(t *testing.T) []string{
		"one server":    func(t *testing.T) []string { return []string{nomadtest.StartServers(t, 1, nomadtest.Options{}).URL} },
		"three servers": servers,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			urls, next := start(t), atomic.Int64{}
			clustertest.Run(t, func(t *testing.T) (cluster.Coordinator, func()) {
				way := relay.New(t, urls[int(next.Add(1))%len(urls)])
				c, err := nomad.New(nomad.Options{Cluster: "test", Path: "hpad", Agent: nomadfleet.Config{Address: way.URL}})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() {
					if err := c.Close(); err != nil {
						t.Error(err)
					}
				})
				return c, func() { way.Drop(true, true) }
			})
		})
	}
}
