package compose

import (
	"fmt"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/docker"
	"github.com/hpad/hpad/targets/targettest"
)

// BenchmarkComposeSnapshot reads 30 unchanged services of 10 containers each.
func BenchmarkComposeSnapshot(b *testing.B) {
	i := newFakeEngine(b)
	var refs []targets.Ref
	for n := range 30 {
		s := service{project: "shop", name: fmt.Sprintf("svc-%d", n), healthcheck: true}
		i.up(s, 10)
		refs = append(refs, ref("shop/"+s.name))
	}
	old := time.Now().Add(-100 * time.Hour)
	i.with(func() {
		for _, c := range i.containers {
			c.created, c.started, c.State.StartedAt = old, old, old.UTC().Format(time.RFC3339Nano)
		}
	})
	replay := &targettest.Replay{Handler: i}
	server := httptest.NewServer(replay)
	b.Cleanup(server.Close)
	config := &Config{Config: docker.Config{
		Host: "tcp://" + server.Listener.Addr().String(), ResourceInterval: time.Minute, Timeout: 10 * time.Second,
	}, StoreSecrets: new(bool)}
	config.SetDefaults()
	f := openFleet(b, config, &targettest.Store{})
	round := func() {
		readings, err := f.Snapshot(b.Context(), refs)
		if err != nil {
			b.Fatal(err)
		}
		for r, reading := range readings {
			if reading.Err != nil || reading.SpecReplicas != 10 || len(reading.Instances) != 10 {
				b.Fatalf("%s: %d replicas, %d instances, %v", r, reading.SpecReplicas, len(reading.Instances), reading.Err)
			}
		}
	}
	round() // reads the details of the containers
	replay.Rounds(b, 300, round)
}
