package swarm

import (
	"fmt"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/targettest"
)

// BenchmarkSnapshot reads 200 unchanged services of 5 tasks.
func BenchmarkSnapshot(b *testing.B) {
	const services, replicas = 200, 5
	i := newFakeManager(b)
	var refs []targets.Ref
	for n := range services {
		name := fmt.Sprintf("s%d", n)
		i.add(name, replicas)
		refs = append(refs, ref(name))
	}
	i.age(time.Hour)
	replay := &targettest.Replay{Handler: i}
	server := httptest.NewServer(replay)
	b.Cleanup(server.Close)
	f := openFleet(b, testConfig(b, "tcp://"+server.Listener.Addr().String(), func(c *Config) { c.ResourceInterval = time.Minute }))
	round := func() {
		readings, err := f.Snapshot(b.Context(), refs)
		if err != nil || readings[refs[0]].StatusReplicas != replicas {
			b.Fatalf("Snapshot() = %v, %+v", err, readings[refs[0]])
		}
	}
	round()
	replay.Rounds(b, services*replicas, round)
}
