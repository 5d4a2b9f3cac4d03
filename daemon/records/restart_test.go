package records_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/daemon/daemontest"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/sources"
	"github.com/hpad/hpad/test/soak"
)

// load returns the length of a queue that rises and falls over two hours, with steady and
// unreadable intervals. The values are the same in every run.
func load(at time.Time, seed uint64) (float64, error) {
	minute := at.Unix() / 60
	random := rand.New(rand.NewPCG(seed, uint64(minute/7)))
	if random.IntN(12) == 0 {
		return 0, errors.New("connection refused")
	}
	wave := 20 + 18*math.Sin(float64(minute)/20)
	return math.Round(wave + 6*random.Float64()), nil
}

// outcome contains the writes, the stored memories and the reported conditions of a run, by
// autoscaler.
type outcome struct {
	Writes   map[string][]string
	Memories map[string]policy.Memory
	Statuses map[string][]policy.Condition
}

// runHours runs autoscalers with different behaviors for hours, and stops or kills the daemon at
// the given times. Only committed state survives a kill. steps, if not nil, returns the clock steps
// before and after the nth restart.
func runHours(t *testing.T, seed uint64, length time.Duration, restarts []time.Duration, kill bool, steps func(nth int) [3]time.Duration) outcome {
	w := daemontest.New(t)
	w.Store = daemontest.NewStore()
	five, half := int32(300), int32(30)
	behaviors := map[string]*policy.Behavior{
		"plain":   nil,
		"default": {},
		"windows": {
			ScaleUp: &policy.ScalingRules{StabilizationWindowSeconds: &half},
			ScaleDown: &policy.ScalingRules{
				StabilizationWindowSeconds: &five,
				Policies:                   []policy.ScalingPolicy{{Type: policy.PercentPolicy, Value: 10, PeriodSeconds: 60}},
			},
		},
		"quick": {ScaleDown: &policy.ScalingRules{
			StabilizationWindowSeconds: &half,
			Policies:                   []policy.ScalingPolicy{{Type: policy.InstancesPolicy, Value: 1, PeriodSeconds: 90}},
		}},
	}
	onMissing := map[string]policy.OnMissing{
		"holds":   {AfterSeconds: 120, Use: policy.UseHold},
		"repeats": {AfterSeconds: 60, Use: policy.UseLast},
		"panics":  {AfterSeconds: 240, Use: policy.UseMax},
	}
	for name := range onMissing {
		behaviors[name] = &policy.Behavior{}
	}
	for name, behavior := range behaviors {
		w.Add(name, 3, func(a *config.Autoscaler) {
			a.Spec.Behavior = behavior
			if name == "quick" {
				a.SyncPeriod = 5 * time.Second
			}
			if missing, ok := onMissing[name]; ok {
				a.Spec.Metrics[0].OnMissing = &missing
			}
		})
		w.Source().Set(name, func(_ context.Context, at time.Time) (sources.Vector, error) {
			value, err := load(at.Add(-time.Duration(w.Step.Load())), seed)
			return daemontest.Vector(value, at), err
		})
	}
	start := time.Now()
	w.Start()
	for nth, at := range restarts {
		var step [3]time.Duration
		if steps != nil {
			step = steps(nth)
		}
		w.Advance((at - time.Since(start)) / 2)
		w.StepClock(step[0])
		w.Advance(at - time.Since(start))
		left := w.Store.Copied()
		w.Stop()
		if kill {
			w.Store = left
		}
		w.StepClock(step[1])
		w.Start()
		w.StepClock(step[2])
	}
	w.Advance(length - time.Since(start))
	result := outcome{Writes: map[string][]string{}, Memories: map[string]policy.Memory{}, Statuses: map[string][]policy.Condition{}}
	for name := range behaviors {
		result.Writes[name] = w.Writes(name, start)
		a := w.Record(name)
		result.Memories[name] = a.Memory
		result.Statuses[name] = a.Status.Conditions
	}
	w.Stop()
	return result
}

// TestRestartChangesNothing checks that a daemon that is stopped or killed between two ticks makes
// the same decisions and has the same memory as a daemon that runs all the time, even with clock
// steps.
func TestRestartChangesNothing(t *testing.T) {
	const length = 3 * time.Hour
	for seed := range uint64(soak.Rounds(8, 500)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 1))
			var restarts []time.Duration
			for at := time.Duration(0); at < length-10*time.Minute; {
				// Not at a tick, because a tick is missed if a stop interrupts its pass.
				at += time.Duration(1+random.IntN(120))*15*time.Second + time.Duration(1+random.IntN(4))*time.Second
				restarts = append(restarts, min(at, length-time.Minute).Truncate(5*time.Second)+time.Duration(1+random.IntN(3999))*time.Millisecond)
			}
			var want outcome
			synctest.Test(t, func(t *testing.T) { want = runHours(t, seed, length, nil, false, nil) })
			if len(want.Writes["plain"]) < 5 || len(want.Writes["quick"]) < 5 {
				t.Fatalf("writes of the uninterrupted run = %v: too few to compare", want.Writes)
			}
			equal := cmp.Options{cmpopts.EquateEmpty(), cmpopts.IgnoreFields(policy.Condition{}, "Message")}
			steps := func(nth int) (by [3]time.Duration) {
				random := rand.New(rand.NewPCG(seed, uint64(nth)))
				for i := range by {
					if random.IntN(2) == 0 {
						by[i] = []time.Duration{-time.Hour, time.Hour, -40 * time.Second, 40 * time.Second, -1100 * time.Millisecond, 400 * 24 * time.Hour}[random.IntN(6)]
					}
				}
				return by
			}
			for _, run := range []struct {
				name  string
				kill  bool
				steps func(int) [3]time.Duration
			}{
				{name: "stopped"},
				{name: "killed", kill: true},
				{name: "stepped", kill: seed%2 == 0, steps: steps},
			} {
				var got outcome
				synctest.Test(t, func(t *testing.T) { got = runHours(t, seed, length, restarts, run.kill, run.steps) })
				if diff := cmp.Diff(want, got, equal); diff != "" {
					t.Errorf("%d restarts (%s) changed the run (-uninterrupted +restarted):\n%s", len(restarts), run.name, diff)
				}
			}
		})
	}
}

// TestFreshStateHoldsCountForAWindow checks that, without stored state, the first observed
// count is stored as a recommendation (R25.3), which prevents a scale-down for a whole window.
func TestFreshStateHoldsCountForAWindow(t *testing.T) {
	daemontest.Run(t, func(t *testing.T, w *daemontest.World) {
		w.AddWithValue("q", 9, 2)
		start := time.Now()
		w.Start()
		w.Advance(6 * time.Minute)
		if diff := cmp.Diff([]string{"5m15s: 9>2"}, w.Writes("q", start)); diff != "" {
			t.Errorf("writes (-want +got):\n%s", diff)
		}
		w.Stop()
	})
}

// TestOwnZeroSurvives checks that after a restart, hpad still scales up from a zero that it set
// itself, and still respects a zero that an operator set (R54).
func TestOwnZeroSurvives(t *testing.T) {
	daemontest.Run(t, func(t *testing.T, w *daemontest.World) {
		zero := int32(0)
		w.Add("own", 2, func(a *config.Autoscaler) { a.Spec.MinReplicas = &zero })
		w.Add("manual", 0, func(a *config.Autoscaler) { a.Spec.MinReplicas = &zero })
		w.Source().Value("own", 0)
		w.Source().Value("manual", 0)
		w.Start()
		w.Advance(6 * time.Minute)
		if got := w.Fleet().Replicas("own"); got != 0 {
			t.Fatalf("own = %d, want 0", got)
		}
		w.Stop()
		w.Source().Value("own", 3)
		w.Source().Value("manual", 3)
		w.Start()
		w.Advance(time.Minute)
		if got := w.Fleet().Replicas("own"); got != 3 {
			t.Errorf("own = %d after the restart, want 3", got)
		}
		if got := w.Fleet().Replicas("manual"); got != 0 {
			t.Errorf("manual = %d, want 0, because an operator disabled it (R51)", got)
		}
		if got := w.Condition("manual", policy.ScalingActive); got != "False/ScalingDisabled" {
			t.Errorf("ScalingActive of manual = %s", got)
		}
		w.Stop()
	})
}

// TestSteadyRoundsWriteLittle checks that steady rounds write only the time of the last round.
func TestSteadyRoundsWriteLittle(t *testing.T) {
	daemontest.Run(t, func(t *testing.T, w *daemontest.World) {
		for i := range 50 {
			name := fmt.Sprintf("a%d", i)
			w.Add(name, 3)
			w.Source().Value(name, 3)
		}
		w.Start()
		w.Advance(time.Minute)
		before := w.Store.Records()
		w.Advance(time.Hour)
		w.Stop()
		if got := w.Store.Records() - before; got != 0 {
			t.Errorf("%d records were written in an hour without changes, want 0", got)
		}
		stored, err := w.Store.Load(t.Context())
		if late := time.Since(stored.LastRound); err != nil || late > 15*time.Second {
			t.Errorf("the last completed round is %s ago", late)
		}
	})
}
