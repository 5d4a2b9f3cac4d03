package daemon_test

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/hpad/hpad/daemon"
	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/daemon/daemontest"
	"github.com/hpad/hpad/daemon/state"
	"github.com/hpad/hpad/daemon/ticks"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/sources"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/targettest"
)

// benchFleet always returns the same readings and consumes almost no resources.
type benchFleet struct {
	readings map[targets.Ref]targets.Reading
}

func (f *benchFleet) Snapshot(context.Context, []targets.Ref) (map[targets.Ref]targets.Reading, error) {
	return f.readings, nil
}

func (f *benchFleet) SetReplicas(context.Context, targets.Ref, int32, string, string) error {
	return nil
}

// benchSource returns one series per autoscaler for the shared query, and a single series for any
// other query.
type benchSource struct{ shared sources.Vector }

func (s *benchSource) Query(_ context.Context, query sources.Query, at time.Time) (sources.Vector, error) {
	if query.Text == "shared" {
		return s.shared, nil
	}
	return daemontest.Vector(3, at), nil
}

// nullStore discards all changes.
type nullStore struct{ *daemontest.Store }

func (nullStore) Export(context.Context, io.Writer, bool) error { return nil }

func (nullStore) Commit(context.Context, state.Changes) error { return nil }

// BenchmarkRound measures rounds in a steady state, in which each autoscaler has two metrics, a
// behavior and a full window. It reports CPU time (user and system) and allocations per autoscaler
// and round, and the memory of an idle autoscaler without its fleet and source. The fleet, the
// source and the store use almost no resources, and only the first query is shared.
func BenchmarkRound(b *testing.B) {
	for _, n := range []int{1000, 10_000, 100_000} {
		b.Run(fmt.Sprintf("autoscalers=%d", n), func(b *testing.B) {
			w := benchWorld(b, n)
			before := heap()
			d := daemon.New(daemon.Options{Load: loadWhole(w), Store: nullStore{daemontest.NewStore()}})
			benchmarkRound(b, d, d.RoundsFor(b), n, before)
		})
	}
}

// loadWhole loads a configuration without shared slices, like a configuration that was read from
// files.
func loadWhole(w *daemontest.World) func(context.Context) (*config.Config, error) {
	return func(ctx context.Context) (*config.Config, error) {
		c, err := w.Load(ctx)
		if err != nil {
			return nil, err
		}
		for _, a := range c.Autoscalers {
			a.Inputs = slices.Clone(a.Inputs)
			for i := range a.Inputs {
				a.Inputs[i].Select = slices.Clone(a.Inputs[i].Select)
			}
		}
		return c, nil
	}
}

func benchmarkRound(b *testing.B, d *daemon.Daemon, rounds func(now time.Time), n int, before uint64) {
	// Fill the windows.
	now := ticks.Last(time.Now().Add(-1000*time.Hour), 15*time.Second) // before the current time of the clock
	for range 22 {
		now = now.Add(15 * time.Second)
		rounds(now)
	}
	held := heap() - before

	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	allocs, bytes, cpu := memory.Mallocs, memory.TotalAlloc, cpuTime(b)
	b.ResetTimer()
	for b.Loop() {
		now = now.Add(15 * time.Second)
		rounds(now)
	}
	b.StopTimer()
	spent := cpuTime(b) - cpu
	runtime.ReadMemStats(&memory)
	per := float64(b.N) * float64(n)
	b.ReportMetric(float64(spent.Nanoseconds())/per, "cpu-ns/autoscaler")
	b.ReportMetric(float64(spent.Microseconds())/1000/float64(b.N), "cpu-ms/round")
	b.ReportMetric(float64(memory.Mallocs-allocs)/per, "allocs/autoscaler")
	b.ReportMetric(float64(memory.TotalAlloc-bytes)/per, "B/autoscaler")
	b.ReportMetric(float64(held)/float64(n), "idle-B/autoscaler")
	for _, a := range d.Autoscalers() {
		if got := a.Evaluation; !got.Last.Equal(now) || got.Error != "" {
			b.Fatalf("last evaluation of %s = %s (error %q), want %s without an error", a.Name, got.Last, got.Error, now)
		}
	}
}

// benchWorld returns a world with n autoscalers with two metrics each. Its fleet and source consume
// almost no resources.
func benchWorld(b testing.TB, n int) *daemontest.World {
	fleet := &benchFleet{readings: make(map[targets.Ref]targets.Reading, n)}
	source := &benchSource{}
	w := daemontest.New(b)
	memory := targettest.NewMemory("fleet")
	goal := int64(1000)
	for i := range n {
		name := fmt.Sprintf("autoscaler-%06d", i)
		ref := memory.Ref(name)
		fleet.readings[ref] = targets.Reading{SpecReplicas: 3, StatusReplicas: 3, Observed: time.Now()}
		source.shared.Series = append(source.shared.Series, sources.Series{Labels: sources.LabelsOf(map[string]string{"queue": name}), Value: 3})
		metric := policy.MetricSpec{
			Type: policy.ExternalMetric, Name: "queue",
			Target: policy.MetricTarget{Type: policy.AverageValueTarget, AverageValueMilli: &goal},
		}
		w.Config.Autoscalers[name] = &config.Autoscaler{
			Name: name, Target: ref, SyncPeriod: 15 * time.Second,
			Spec: policy.Default(policy.Spec{
				MaxReplicas: 10, Metrics: []policy.MetricSpec{metric, metric}, Behavior: &policy.Behavior{},
			}),
			Inputs: []config.Input{
				{Source: "source", Query: "shared", Select: sources.Labels{{Name: "queue", Value: name}}},
				{Source: "source", Query: name},
			},
		}
	}
	w.FleetKind = func(*targettest.Memory) targets.Fleet { return fleet }
	w.SourceKind = func(string) sources.Source { return source }
	return w
}

func heap() uint64 {
	var memory runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&memory)
	return memory.HeapAlloc
}

func cpuTime(b *testing.B) time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// TestRepeatedRound checks that passes with unchanged inputs allocate much less memory than complete
// passes, which take about 28 allocations.
func TestRepeatedRound(t *testing.T) {
	const n, most = 500, 14
	d := daemon.New(daemon.Options{Load: loadWhole(benchWorld(t, n)), Store: nullStore{daemontest.NewStore()}})
	rounds, now := d.RoundsFor(t), ticks.Last(time.Now().Add(-time.Hour), 15*time.Second)
	var before, after runtime.MemStats
	for i := range 40 {
		if i == 30 {
			runtime.ReadMemStats(&before)
		}
		now = now.Add(15 * time.Second)
		rounds(now)
	}
	runtime.ReadMemStats(&after)
	if got := float64(after.Mallocs-before.Mallocs) / (10 * n); got > most {
		t.Errorf("a pass takes %.1f allocations, want at most %d", got, most)
	}
}

// BenchmarkStart measures a restart until the end of the first round. The state is stored on disk
// and includes some history of the last hour.
func BenchmarkStart(b *testing.B) {
	for _, n := range []int{1000, 10_000} {
		b.Run(fmt.Sprintf("autoscalers=%d", n), func(b *testing.B) {
			dir := b.TempDir()
			changes := state.Changes{Records: map[string]state.Record{}, LastRound: time.Now()}
			w := benchWorld(b, n)
			for name, a := range w.Config.Autoscalers {
				changes.Records[name] = state.Record{
					Created: time.Now(), Through: time.Now(), Target: a.Target, Status: policy.Status{DesiredReplicas: 3},
				}
				for i := range 3 {
					changes.Entries = append(changes.Entries, state.Entry{
						Autoscaler: name, Time: time.Now().Add(-time.Duration(i) * time.Minute),
						Events: []policy.Event{{Kind: policy.NormalEvent, Reason: "SuccessfulRescale", Message: fmt.Sprintf("New size: %d", i)}},
					})
				}
			}
			store := openStore(b, dir)
			if err := store.Commit(b.Context(), changes); err != nil {
				b.Fatal(err)
			}
			if err := store.Close(); err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				started := time.Now()
				store := openStore(b, dir)
				opened := time.Since(started)
				ctx, cancel := context.WithCancel(b.Context())
				var decided atomic.Int64
				first := make(chan struct{})
				d := daemon.New(daemon.Options{Load: w.Load, Store: store, Decided: func(string) {
					if decided.Add(1) == int64(n) {
						close(first)
					}
				}})
				ended := make(chan error, 1)
				go func() { ended <- d.Run(ctx) }()
				if err := d.AwaitRunning(ctx); err != nil {
					b.Fatal(err)
				}
				running := time.Since(started)
				<-first
				b.ReportMetric(opened.Seconds(), "s-to-open")
				b.ReportMetric(running.Seconds(), "s-to-run")
				cancel()
				if err := <-ended; err != nil {
					b.Error(err)
				}
				if err := store.Close(); err != nil {
					b.Error(err)
				}
			}
		})
	}
}

func openStore(b *testing.B, dir string) state.Store {
	store, err := state.Open(dir, state.Options{})
	if err != nil {
		b.Fatal(err)
	}
	return store
}
