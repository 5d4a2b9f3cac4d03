package azurevmss

import (
	"fmt"
	"testing"

	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/targettest"
	"github.com/hpad/hpad/test/azure/azuretest"
)

// BenchmarkSnapshot reads scale sets of two machines each: 5,000 in a round in which
// nothing changed, and 1,000 in one that lists all machines. The time is both sides'
// of the connection, without what Azure itself does.
func BenchmarkSnapshot(b *testing.B) {
	for _, bench := range []struct {
		name string
		sets int
		all  bool
	}{{"steady", 5000, false}, {"every machine", 1000, true}} {
		b.Run(bench.name, func(b *testing.B) {
			s := azuretest.New(b)
			var refs []targets.Ref
			for i := range bench.sets {
				group, name := fmt.Sprintf("group-%d", i%50), fmt.Sprintf("set-%d", i)
				s.Add(azuretest.Set{Group: group, Name: name, Capacity: 2})
				refs = append(refs, ref(group+"/"+name))
			}
			s.Freeze()
			f := openFleet(b, testConfig(b, s, hasty+"addresses = \"none\"\n"), Options{Store: &targettest.Store{}})
			round := func() {
				readings, err := f.Snapshot(b.Context(), refs)
				if err != nil {
					b.Fatal(err)
				}
				for ref, r := range readings {
					if r.Err != nil {
						b.Fatalf("%s: %v", ref, r.Err)
					}
				}
			}
			round()
			if !bench.all {
				f.config.ReadsPerSecond = 1_000_000 // no room for lists that could wait
			}
			before := s.Calls("")
			b.ReportAllocs()
			b.ResetTimer()
			for b.Loop() {
				round()
			}
			b.ReportMetric(float64(s.Calls("")-before)/float64(b.N), "calls/op")
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/float64(bench.sets), "µs/set")
		})
	}
}
