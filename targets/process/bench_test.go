package process

import (
	"syscall"
	"testing"
	"time"

	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/rollout"
)

// BenchmarkIdle measures the processor time of hpad for processes that do nothing, in percent of a
// core for 1,000 processes.
func BenchmarkIdle(b *testing.B) {
	const processes = 200
	config := &Config{Services: map[string]Service{"idle": {Command: []string{"sleep", "3600"}, Replicas: new(int32(processes))}}}
	config.SetDefaults()
	f := New("local", config, targets.Env{OutputDir: b.TempDir()})
	if err := f.Start(b.Context()); err != nil {
		b.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	time.Sleep(rollout.SettleTime + time.Second) // each start is followed by a check of the service
	var before, after syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &before)
	begun := time.Now()
	for b.Loop() {
		time.Sleep(time.Second)
	}
	took := time.Since(begun)
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &after)
	used := after.Utime.Nano() + after.Stime.Nano() - before.Utime.Nano() - before.Stime.Nano()
	b.ReportMetric(100*float64(used)/float64(took)*1000/processes, "%core/1000")
}
