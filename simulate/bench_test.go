package simulate_test

import (
	"testing"
	"time"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/simulate"
)

// BenchmarkWeek simulates a policy over 7 days with a pass each 15 s. The goal is at most 1 s for
// each row. The second row differs from the recorded counts all the time.
func BenchmarkWeek(b *testing.B) {
	for name, s := range map[string]policy.Spec{
		"external":      spec(2, 100, average("requests", 10)),
		"cpu":           spec(2, 100, utilization(50)),
		"four metrics":  spec(2, 100, utilization(50), average("requests", 1), average("messages", 1), value("busy", 1)),
		"400 instances": spec(2, 1000, utilization(3)),
	} {
		b.Run(name, func(b *testing.B) {
			g := &game{policy: policyOf("A", s), replicas: 4, load: waves(1, 6, 24*time.Hour, 1), startup: 45 * time.Second, step: 15 * time.Second, ticks: 7 * 5760}
			recording := g.play(b)
			other := g.policy
			other.Label, other.Settings.DownscaleStabilization = "B", time.Minute
			b.ReportAllocs()
			for b.Loop() {
				run(b, recording, simulate.Assumptions{}, g.policy, other)
			}
			b.ReportMetric(b.Elapsed().Seconds()/float64(2*b.N), "s/row")
		})
	}
}
