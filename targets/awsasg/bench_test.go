package awsasg

import (
	"fmt"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/targettest"
	"github.com/hpad/hpad/test/aws/awstest"
)

// BenchmarkSnapshot reads 5,000 groups of three instances each, none of which
// changes, and reports the cpu time of a group, the imitation's included, and the
// calls of a round.
func BenchmarkSnapshot(b *testing.B) {
	const groups = 5000
	c := awstest.New(b)
	refs := make([]targets.Ref, groups)
	for n := range refs {
		name := fmt.Sprintf("group-%04d", n)
		c.Add(awstest.Group{Name: name, Max: 10, Desired: 3})
		refs[n] = ref(name)
	}
	config := testConfig(b, c)
	config.CheckInterval, config.Timeout = time.Hour, time.Minute
	f := openFleet(b, config, Options{Store: &targettest.Store{}})
	for range 3*groups/instancesPerCall/lookupsPerRound + 1 {
		if _, err := f.Snapshot(b.Context(), refs); err != nil {
			b.Fatal(err)
		}
	}
	c.Calls()
	before := cpuNanoseconds(b)
	b.ReportAllocs()
	for b.Loop() {
		readings, err := f.Snapshot(b.Context(), refs)
		if err != nil || readings[refs[0]].StatusReplicas != 3 {
			b.Fatalf("Snapshot() = %v, %+v", err, readings[refs[0]])
		}
	}
	b.ReportMetric(float64(cpuNanoseconds(b)-before)/float64(b.N)/groups, "cpu-ns/target")
	calls := 0
	for _, n := range c.Calls() {
		calls += n
	}
	b.ReportMetric(float64(calls)/float64(b.N), "calls/round")
}

// cpuNanoseconds returns the cpu time of this process.
func cpuNanoseconds(b *testing.B) int64 {
	b.Helper()
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return usage.Utime.Nano() + usage.Stime.Nano()
}
