package nomad

import (
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/hpad/hpad/targets/targettest"
)

// manyJobs is how many jobs the benchmarks read, none of which changes.
const manyJobs = 10_000

// BenchmarkNomadDiscover finds what asks for autoscalers, and reports the cpu time
// of a target.
func BenchmarkNomadDiscover(b *testing.B) {
	_, address, _ := newPrepared(b, manyJobs, realCounts)
	c := testConfig(b, address)
	c.Discover = true
	f := openFleet(b, c, nil)
	if _, err := f.Discover(b.Context()); err != nil {
		b.Fatal(err)
	}
	before := cpuNanoseconds(b)
	b.ReportAllocs()
	for b.Loop() {
		if found, err := f.Discover(b.Context()); err != nil || len(found) != manyJobs {
			b.Fatalf("Discover() = %d targets, %v", len(found), err)
		}
	}
	b.ReportMetric(float64(cpuNanoseconds(b)-before)/float64(b.N)/manyJobs, "cpu-ns/target")
}

// BenchmarkNomadSnapshot reads all of them, and reports the cpu time of a target and
// how many bytes the fleet and its readings hold of it.
func BenchmarkNomadSnapshot(b *testing.B) {
	_, address, refs := newPrepared(b, manyJobs, realCounts)
	empty := heldBytes()
	f := openFleet(b, testConfig(b, address), &targettest.Store{})
	readings, err := f.Snapshot(b.Context(), refs)
	if err != nil {
		b.Fatal(err)
	}
	held := heldBytes() - empty
	runtime.KeepAlive(readings)
	before := cpuNanoseconds(b)
	b.ReportAllocs()
	for b.Loop() {
		readings, err = f.Snapshot(b.Context(), refs)
		if err != nil || readings[refs[0]].StatusReplicas != int32(realCounts[0]) {
			b.Fatalf("Snapshot() = %v, %+v", err, readings[refs[0]])
		}
	}
	b.ReportMetric(float64(cpuNanoseconds(b)-before)/float64(b.N)/manyJobs, "cpu-ns/target")
	b.ReportMetric(float64(held)/manyJobs, "held-B/target")
}

// heldBytes returns how many bytes of the heap are in use.
func heldBytes() int64 {
	runtime.GC()
	runtime.GC() // empties what is pooled
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	return int64(memory.HeapAlloc)
}

// cpuNanoseconds returns the cpu time of this process, the imitation's included.
func cpuNanoseconds(b *testing.B) int64 {
	b.Helper()
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return usage.Utime.Nano() + usage.Stime.Nano()
}
