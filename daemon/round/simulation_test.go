package round_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/daemon/daemontest"
	"github.com/hpad/hpad/daemon/graph"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/schedule"
	"github.com/hpad/hpad/simulate"
	"github.com/hpad/hpad/sources"
	"github.com/hpad/hpad/targets/targettest"
)

// TestSimulationAgainstItself records 24 hours with a restart, reloads, a schedule, missing and partial
// readings, a period in which the target cannot be read, a pause and evaluations between ticks. The
// simulation of the active configuration has the recorded count at each tick.
func TestSimulationAgainstItself(t *testing.T) {
	for _, period := range []time.Duration{15 * time.Second, 4 * time.Second} {
		t.Run(period.String(), func(t *testing.T) {
			daemontest.Run(t, func(t *testing.T, w *daemontest.World) {
				begin := time.Now()
				w.Log = zap.NewNop()
				w.Config.Daemon.SyncPeriod = period
				record(t, w, simulated(t, w))
				name, seen := "web", map[int32]bool{}
				recording, err := w.Daemon.Recording(t.Context(), name, begin, time.Now())
				if err != nil {
					t.Fatal(err)
				}
				policies, err := w.Daemon.Policies(name, nil)
				if err != nil {
					t.Fatal(err)
				}
				result, err := simulate.Run(t.Context(), &recording, policies, simulate.Assumptions{Metrics: map[string]simulate.Assumption{
					"queue": {Model: simulate.Total}, "load": {Model: simulate.Ratio},
				}})
				if err != nil {
					t.Fatal(err)
				}
				differences, unreadable, missing := 0, 0, 0
				for i := range recording.Ticks {
					tick := &recording.Ticks[i]
					if !tick.Readable() {
						unreadable++
						continue
					}
					if len(tick.Readings) > 0 && tick.Readings[0].Missing {
						missing++
					}
					seen[tick.Replicas] = true
					if got := result.Rows[0].Replicas[i]; got != tick.Replicas {
						if differences++; differences <= 3 {
							t.Errorf("%v: %d replicas, recorded %+v after %+v", tick.Time, got, tick, recording.Ticks[max(0, i-1)])
						}
					}
				}
				if want := int(24 * time.Hour / period); differences > 0 || len(recording.Ticks) < want-10 || len(seen) < 10 || unreadable < 10 || missing < 30 {
					t.Errorf("%d differences in %d ticks with %d counts, %d unreadable targets and %d missing readings", differences, len(recording.Ticks), len(seen), unreadable, missing)
				}
				w.Stop()
			})
		})
	}
}

// simulated adds an autoscaler with two metrics, a schedule and scaling policies. It returns the
// function that advances the time by an hour.
func simulated(t *testing.T, w *daemontest.World) (advance func(hour int)) {
	t.Helper()
	rule, errs := schedule.Compile(schedule.Config{Name: "day", Zone: "Europe/Berlin", From: "08:00", To: "17:00", MinReplicas: new(int32(6)), MaxReplicas: new(int32(25))})
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	w.Add("web", 3, func(a *config.Autoscaler) {
		a.Spec.MaxReplicas = 18
		a.Spec.Metrics = append(a.Spec.Metrics, policy.MetricSpec{
			Type: policy.ExternalMetric, Name: "load", Target: policy.MetricTarget{Type: policy.ValueTarget, ValueMilli: new(int64(700))},
			OnMissing: &policy.OnMissing{AfterSeconds: 180, Use: policy.UseHold},
		})
		a.Inputs = append(a.Inputs, config.Input{Source: "source", Query: "load"})
		a.Schedules = schedule.Rules{rule}
		a.Spec.Behavior = &policy.Behavior{
			ScaleUp: &policy.ScalingRules{StabilizationWindowSeconds: new(int32(30)), Policies: []policy.ScalingPolicy{{Type: policy.InstancesPolicy, Value: 4, PeriodSeconds: 60}}},
			ScaleDown: &policy.ScalingRules{StabilizationWindowSeconds: new(int32(240)), Policies: []policy.ScalingPolicy{
				{Type: policy.PercentPolicy, Value: 20, PeriodSeconds: 90}, {Type: policy.InstancesPolicy, Value: 1, PeriodSeconds: 60},
			}},
		}
	})
	w.Add("other", 2)
	w.Source().Value("other", 2)
	w.Fleet().Change("web", func(target *targettest.MemoryTarget) {
		target.StartDelay, target.ReadyDelay = 3*time.Second, 20*time.Second
	})
	random, begin := rand.New(rand.NewPCG(7, 8)), time.Now()
	var mu sync.Mutex // protects random
	wave := func(at time.Time, low, high float64, period time.Duration) float64 {
		mu.Lock()
		defer mu.Unlock()
		return low + (high-low)*(0.5-0.5*math.Cos(2*math.Pi*float64(at.Sub(begin))/float64(period))) + random.Float64()
	}
	query := func(text string, low, high float64, period time.Duration) {
		w.Source().Set(text, func(_ context.Context, at time.Time) (sources.Vector, error) {
			switch at.Sub(begin).Truncate(time.Minute) % (3 * time.Hour) {
			case 61 * time.Minute, 62 * time.Minute, 63 * time.Minute, 64 * time.Minute, 65 * time.Minute:
				return sources.Vector{}, errors.New("outage")
			case 100 * time.Minute:
				v := daemontest.Vector(wave(at, low, high, period), at)
				v.Warnings = []string{"a store did not respond"}
				return v, nil
			}
			return daemontest.Vector(wave(at, low, high, period), at), nil
		})
	}
	query("web", 2, 22, 5*time.Hour)
	query("load", 0.3, 1.1, 7*time.Hour)
	return func(int) { w.Advance(time.Hour) }
}

// record runs the daemon for 24 hours with events.
func record(t *testing.T, w *daemontest.World, advance func(hour int)) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "graph.db")
	start := func() {
		w.Graph = graph.New(path, w.Log, func(n int) { t.Errorf("%d data points were lost", n) })
		w.Start()
	}
	start()
	for hour := range 24 {
		advance(hour)
		switch hour {
		case 3:
			w.Fleet().Change("web", func(target *targettest.MemoryTarget) { target.Err = errors.New("unavailable") })
			w.Advance(7*time.Minute + 3*time.Second)
			w.Fleet().Change("web", func(target *targettest.MemoryTarget) { target.Err = nil })
		case 6:
			w.Stop()
			w.Advance(2*time.Minute + 400*time.Millisecond)
			start()
		case 9:
			w.Config.Autoscalers["other"].Spec.MaxReplicas = 50
			if _, err := w.Daemon.Reload(t.Context()); err != nil {
				t.Error(err)
			}
		case 12:
			w.Advance(5300 * time.Millisecond)
			if err := w.Daemon.EvaluateNow(t.Context(), "web"); err != nil {
				t.Error(err)
			}
		case 15:
			if _, err := w.Daemon.Pause(t.Context(), policy.Pause{Scope: policy.Scope{Autoscaler: "web"}, Direction: policy.Down}, 20*time.Minute); err != nil {
				t.Error(err)
			}
		case 18:
			w.Advance(2 * time.Second)
			if err := w.ScaleTo("web", 9, false); err != nil {
				t.Error(err)
			}
		case 20:
			w.Fleet().Change("web", func(target *targettest.MemoryTarget) { target.Replicas = 11 })
		}
	}
}
