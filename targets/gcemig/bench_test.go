package gcemig

import (
	"fmt"
	"testing"

	"github.com/hpad/hpad/targets/targettest"
)

// BenchmarkSnapshot reads all of a project's groups, of three instances each, in
// rounds in which nothing happens.
func BenchmarkSnapshot(b *testing.B) {
	for _, groups := range []int{1000, 5000} {
		b.Run(fmt.Sprintf("groups=%d", groups), func(b *testing.B) {
			server, refs := many(b, groups, false)
			config := testConfig(b, server)
			config.ReadsPerSecond = 10_000
			f := openFleet(b, config, &targettest.Store{})
			readAll(b, f, refs)
			server.ForgetCalls()
			b.ReportAllocs()
			for b.Loop() {
				readAll(b, f, refs)
			}
			b.ReportMetric(float64(total(server.Calls()))/float64(b.N), "calls/op")
		})
	}
}
