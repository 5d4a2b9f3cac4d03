package round_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/daemon/daemontest"
	"github.com/hpad/hpad/daemon/metrics"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/targettest"
)

// limited limits scale-ups to one instance per 20 seconds without a window, and sets a scale-down
// window of 30 seconds.
func limited(a *config.Autoscaler) {
	none, half := int32(0), int32(30)
	a.SyncPeriod = 5 * time.Second
	a.Spec.Behavior = &policy.Behavior{
		ScaleUp: &policy.ScalingRules{
			StabilizationWindowSeconds: &none,
			Policies:                   []policy.ScalingPolicy{{Type: policy.InstancesPolicy, Value: 1, PeriodSeconds: 20}},
		},
		ScaleDown: &policy.ScalingRules{StabilizationWindowSeconds: &half},
	}
}

// TestStepsOfTheClock checks that steps of the wall clock do not change the writes under a rate
// limit and a window, with and without a restart or kill.
func TestStepsOfTheClock(t *testing.T) {
	run := func(t *testing.T, by time.Duration, restart func(*daemontest.World)) (writes []string, logged int) {
		daemontest.Run(t, func(t *testing.T, w *daemontest.World) {
			logs := w.Observed()
			w.Add("q", 1, limited)
			w.Source().Value("q", 6)
			start := time.Now()
			w.Start()
			w.Advance(12 * time.Second) // in the first period of the rate
			w.StepClock(by)
			if restart != nil {
				restart(w)
			}
			w.Advance(70 * time.Second)
			w.Source().Value("q", 1)
			w.Advance(13 * time.Second) // in the window
			w.StepClock(by)
			if restart != nil {
				restart(w)
			}
			w.Advance(time.Minute)
			writes = w.Writes("q", start)
			w.Stop()
			logged = logs.FilterMessage("wall clock stepped").Len()
		})
		return writes, logged
	}
	want, logged := run(t, 0, nil)
	if len(want) < 5 || logged != 0 {
		t.Fatalf("without a step: writes = %v, logged steps = %d", want, logged)
	}
	restarts := map[string]func(*daemontest.World){
		"running": nil,
		"ended":   func(w *daemontest.World) { w.Stop(); w.Start() },
		"killed": func(w *daemontest.World) {
			left := w.Store.Copied()
			w.Stop()
			w.Store = left
			w.Start()
		},
	}
	for _, by := range []time.Duration{-time.Hour, time.Hour} {
		for name, restart := range restarts {
			t.Run(fmt.Sprintf("%s %s", by, name), func(t *testing.T) {
				got, logged := run(t, by, restart)
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("writes (-without a step +with):\n%s", diff)
				}
				if logged != 2 {
					t.Errorf("%d logged steps, want 2", logged)
				}
			})
		}
	}
}

// TestStepIsReported checks that the metrics count each step of the wall clock.
func TestStepIsReported(t *testing.T) {
	daemontest.Run(t, func(t *testing.T, w *daemontest.World) {
		registry := prometheus.NewRegistry()
		w.Metrics = metrics.New(registry)
		w.AddWithValue("a", 3, 3)
		w.Start()
		for _, by := range []time.Duration{-time.Hour, 30 * time.Minute, 45 * time.Second} {
			w.Advance(time.Minute)
			w.StepClock(by)
		}
		w.Advance(time.Minute)
		if err := testutil.GatherAndCompare(registry, strings.NewReader(`# HELP hpad_clock_offset_seconds Offset of the wall clock from the clock for windows and rates: the sum of its steps.
# TYPE hpad_clock_offset_seconds gauge
hpad_clock_offset_seconds -1755
# HELP hpad_clock_steps_total Steps of the wall clock by more than a second. They do not affect windows and rates.
# TYPE hpad_clock_steps_total counter
hpad_clock_steps_total{direction="back"} 1
hpad_clock_steps_total{direction="forward"} 2
`), "hpad_clock_offset_seconds", "hpad_clock_steps_total"); err != nil {
			t.Error(err)
		}
		w.Stop()
	})
}

// wallClockFleet is a fleet whose instances and samples have wall-clock times, like those of real
// platforms.
type wallClockFleet struct {
	*targettest.Memory
	// steps maps times to steps of the wall clock.
	steps *sync.Map
}

// wall returns the wall-clock time at an instant.
func (f wallClockFleet) wall(at time.Time) time.Time {
	shown := at.Round(0)
	for since, by := range f.steps.Range {
		if !at.Before(since.(time.Time)) {
			shown = shown.Add(by.(time.Duration))
		}
	}
	return shown
}

func (f wallClockFleet) Snapshot(ctx context.Context, refs []targets.Ref) (map[targets.Ref]targets.Reading, error) {
	readings, err := f.Memory.Snapshot(ctx, refs)
	for ref, reading := range readings {
		reading.Instances = slices.Clone(reading.Instances)
		for i := range reading.Instances {
			instance := &reading.Instances[i]
			instance.StartedAt, instance.ReadinessChanged = f.wall(instance.StartedAt), f.wall(instance.ReadinessChanged)
		}
		readings[ref] = reading
	}
	return readings, err
}

func (f wallClockFleet) Samples(ctx context.Context, refs []targets.Ref) (map[targets.Ref]targets.Samples, error) {
	samples, err := f.Memory.Samples(ctx, refs)
	for ref, found := range samples {
		found.Instances = slices.Clone(found.Instances)
		for i := range found.Instances {
			found.Instances[i].At = f.wall(found.Instances[i].At)
		}
		samples[ref] = found
	}
	return samples, err
}

// TestTimesOfPlatforms checks that steps of the wall clock do not change decisions by a CPU
// metric, which depend on the start and readiness times of instances (R27).
func TestTimesOfPlatforms(t *testing.T) {
	run := func(t *testing.T, steps map[time.Duration]time.Duration) (writes []string) {
		daemontest.Run(t, func(t *testing.T, w *daemontest.World) {
			var made sync.Map
			w.FleetKind = func(memory *targettest.Memory) targets.Fleet { return wallClockFleet{Memory: memory, steps: &made} }
			w.Add("q", 4, daemontest.Resource(50))
			start := time.Now()
			w.Fleet().Change("q", func(target *targettest.MemoryTarget) {
				target.ReadyDelay = 20 * time.Second
				target.Tasks = []policy.Task{{Name: "app", Requests: []policy.Amount{{Resource: "cpu", Milli: 500}}}}
				target.Usage = func(now time.Time, instance policy.Instance, running int) []policy.TaskUsage {
					minute := uint64(now.Sub(start) / (7 * time.Minute))
					use := rand.New(rand.NewPCG(7, minute)).Int64N(4000) / int64(running)
					if now.Sub(instance.StartedAt) < time.Minute {
						use = 2000 // high use while an instance starts
					}
					return []policy.TaskUsage{{Task: "app", Usage: []policy.Amount{{Resource: "cpu", Milli: use}}}}
				}
			})
			w.Start()
			for at := range 240 {
				if by, ok := steps[time.Duration(at)*time.Minute]; ok {
					w.Advance(2 * time.Second)
					w.StepClock(by)
					made.Store(time.Now(), by)
					w.Advance(58 * time.Second)
					continue
				}
				w.Advance(time.Minute)
			}
			writes = w.Writes("q", start)
			w.Stop()
		})
		return writes
	}
	want := run(t, nil)
	if len(want) < 15 {
		t.Fatalf("writes without a step = %v: too few to compare", want)
	}
	for name, steps := range map[string]map[time.Duration]time.Duration{
		"back":             {30 * time.Minute: -time.Hour},
		"forward":          {30 * time.Minute: time.Hour},
		"back and forward": {30 * time.Minute: -time.Hour, 100 * time.Minute: time.Hour, 150 * time.Minute: -10 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(want, run(t, steps)); diff != "" {
				t.Errorf("writes (-without a step +with):\n%s", diff)
			}
		})
	}
}
