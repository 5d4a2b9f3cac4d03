package nomadha

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/hpad/hpad/daemon/cluster"
	"github.com/hpad/hpad/daemon/cluster/nomad"
	nomadfleet "github.com/hpad/hpad/targets/nomad"
	"github.com/hpad/hpad/test/nomad/nomadtest"
)

func BenchmarkWrite(b *testing.B) {
	for _, count := range []int{1, 3} {
		b.Run(fmt.Sprintf("servers=%d", count), func(b *testing.B) {
			servers := nomadtest.StartServers(b, count, nomadtest.Options{})
			c, err := nomad.New(nomad.Options{Cluster: "bench", Path: "hpad", Agent: nomadfleet.Config{Address: servers.URL}})
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _ = c.Close() }()
			s, err := c.Join(b.Context(), cluster.Member{Name: "a"}, time.Minute)
			if err != nil {
				b.Fatal(err)
			}
			term, err := s.Acquire(b.Context(), "prod", "1")
			if err != nil {
				b.Fatal(err)
			}
			random := rand.New(rand.NewPCG(1, 1))
			const autoscalers, size, pages = 2000, 190, 16 // 253 bytes in base64
			for b.Loop() {
				values := map[string][]byte{}
				for i := range autoscalers {
					value := make([]byte, size)
					for j := range value {
						value[j] = byte(random.Uint32())
					}
					values[fmt.Sprintf("autoscalers/checkout-%04d", i)] = value
				}
				if err := term.Write(b.Context(), values); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(pages*b.N)/b.Elapsed().Seconds(), "pages/s")
			if err := s.Leave(b.Context()); err != nil {
				b.Fatal(err)
			}
		})
	}
}
