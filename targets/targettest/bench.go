package targettest

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Rounds runs round repeatedly until the benchmark b ends. It reports the CPU time of this process
// and the elapsed time per 1,000 instances, in milliseconds; instances is the number that each
// round reads.
func Rounds(b *testing.B, instances int, round func()) {
	b.Helper()
	b.ReportAllocs()
	before := busy(b)
	for b.Loop() {
		round()
	}
	for unit, spent := range map[string]time.Duration{"cpu-ms/1000": busy(b) - before, "wall-ms/1000": b.Elapsed()} {
		b.ReportMetric(float64(spent.Microseconds())/float64(b.N)/float64(instances), unit)
	}
}

// busy returns the CPU time that this process has used.
func busy(b *testing.B) time.Duration {
	b.Helper()
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
