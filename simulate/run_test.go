package simulate_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/simulate"
)

func run(t testing.TB, recording *simulate.Recording, assume simulate.Assumptions, policies ...simulate.Policy) *simulate.Result {
	t.Helper()
	result, err := simulate.Run(t.Context(), recording, policies, assume)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// about checks a number, with a relative error.
func about(t *testing.T, name string, got, want, accuracy float64) {
	t.Helper()
	if math.Abs(got-want) > accuracy*math.Abs(want)+1e-9 {
		t.Errorf("%s: got %v, want %v", name, got, want)
	}
}

// TestTriangle compares the result with the closed solution for a load that rises and falls linearly:
// each instance is requested at the first tick at which the load exceeds the capacity, and there is a
// shortage until it is ready.
func TestTriangle(t *testing.T) {
	const low, high, target, step = 5.0, 95.0, 10.0, time.Second
	for _, test := range []struct {
		// slope is the change of the load in units per second.
		slope   float64
		startup time.Duration
	}{{0.05, 0}, {0.05, 30 * time.Second}, {0.05, 120 * time.Second}, {0.1, 60 * time.Second}, {0.1, 99 * time.Second}} {
		half := time.Duration((high - low) / test.slope * float64(time.Second))
		recording := &simulate.Recording{Name: "web", Metrics: []string{"requests"}, Step: step, CountsUnknown: true}
		const periods = 4
		for at := time.Duration(0); at < periods*2*half; at += step {
			phase := at % (2 * half)
			load := low + test.slope*min(phase, 2*half-phase).Seconds()
			tick := simulate.Tick{Time: start.Add(at), Observed: simulate.Unknown, Ready: simulate.Unknown}
			tick.Readings = []simulate.Reading{{Milli: int64(math.Round(load * 1000))}}
			recording.Ticks = append(recording.Ticks, tick)
		}
		p := policyOf("triangle", spec(1, 100, average("requests", target)))
		p.SyncPeriod = step
		p.Settings.Tolerance, p.Settings.DownscaleStabilization = 0, 0
		row := run(t, recording, simulate.Assumptions{Startup: &test.startup, Drain: new(time.Duration)}, p).Rows[0]
		rises := math.Floor(high/target) - math.Floor(low/target) // instances that each rise adds
		// A rise to ready instance k at load 10k lasts half/rises on average, of which startup is short.
		about(t, "shortage", float64(row.Shortage), rises*test.startup.Seconds()/(2*half).Seconds(), 0.01)
		about(t, "longest shortage", float64(row.LongestShortage), test.startup.Minutes(), 0.02)
		about(t, "changes", row.ChangesPerDay, 2*rises*float64(24*time.Hour)/float64(2*half), 0.02)
		about(t, "reversals", row.ReversalsPerDay, 2*float64(24*time.Hour)/float64(2*half), 0.15)
		mean := 0.0
		for load := low; load < high; load += 0.001 {
			mean += math.Ceil(load/target) / ((high - low) / 0.001)
		}
		about(t, "instance hours", row.InstanceHours, mean*(periods*2*half).Hours(), 0.01)
		depth := 0.0
		for k := 1.0; k <= rises; k++ { // the mean of 1 - 10k/load while the load rises from 10k
			for s := 0.5; s < test.startup.Seconds(); s++ {
				depth += (1 - target*k/(target*k+test.slope*s)) / (rises * test.startup.Seconds())
			}
		}
		about(t, "shortage depth", float64(row.ShortageDepth), depth, 0.05)
	}
}

// TestPrediction records a load under policy A, predicts policy B, and compares the prediction with
// a recording of the same load under B.
func TestPrediction(t *testing.T) {
	for name, test := range map[string]struct {
		a, b  policy.Spec
		load  func() func(time.Time) float64
		queue bool
	}{
		"total":  {a: spec(1, 60, average("requests", 10)), b: spec(1, 60, average("requests", 15)), load: smooth(20, 300)},
		"ratio":  {a: spec(1, 60, value("busy", 10)), b: spec(1, 60, value("busy", 14)), load: smooth(20, 300)},
		"cpu":    {a: spec(1, 60, utilization(50)), b: spec(1, 60, utilization(70)), load: smooth(1, 6)},
		"bounds": {a: spec(1, 60, utilization(50)), b: spec(6, 9, utilization(50)), load: smooth(1, 6)},
		"queue":  {a: spec(1, 60, average("queue", 200)), b: spec(1, 60, average("queue", 300)), load: smooth(10, 60), queue: true},
	} {
		t.Run(name, func(t *testing.T) {
			play := func(s policy.Spec) *simulate.Recording {
				g := &game{policy: policyOf("p", s), replicas: 4, load: test.load(), startup: 45 * time.Second, step: 15 * time.Second, ticks: 2 * 5760}
				if test.queue {
					g.load = queueOf(g, g.load)
				}
				return g.play(t)
			}
			a, b := policyOf("A", test.a), policyOf("B", test.b)
			recorded, real := play(test.a), play(test.b)
			rows := run(t, recorded, simulate.Assumptions{}, a, b).Rows
			want := run(t, real, simulate.Assumptions{}, b, a).Rows[0]
			sameCounts(t, recorded, &rows[0])
			got := rows[1]
			about(t, "instance hours", got.InstanceHours, want.InstanceHours, 0.03)
			about(t, "shortage", 0.01+float64(got.Shortage), 0.01+float64(want.Shortage), 0.1)
			about(t, "p95", float64(got.UtilizationP95), float64(want.UtilizationP95), 0.05)
			if got.InstanceHours == rows[0].InstanceHours || len(got.Moments) == 0 {
				t.Errorf("policy B is not different: %+v", got.Score)
			}
		})
	}
}

func smooth(low, high float64) func() func(time.Time) float64 {
	return func() func(time.Time) float64 { return waves(low, high, 24*time.Hour, 7) }
}

// queueOf returns the length of a queue. The load is its arrivals, and each ready instance completes
// 2 items in a second.
func queueOf(g *game, arrivals func(time.Time) float64) func(time.Time) float64 {
	length, last, ready := 0.0, time.Time{}, 0
	return func(now time.Time) float64 {
		if !last.IsZero() {
			length = max(0, length+(arrivals(now)-2*float64(ready))*now.Sub(last).Seconds())
		}
		last, ready = now, g.ready()
		return length
	}
}

// TestQueriedDelays simulates a recording without counts with the delays of recorded passes. Changes of
// another target do not count.
func TestQueriedDelays(t *testing.T) {
	g := &game{policy: policyOf("p", spec(1, 20, average("requests", 5))), replicas: 2, load: waves(5, 60, time.Hour, 1), startup: 45 * time.Second, step: 15 * time.Second, ticks: 480}
	past := g.play(t)
	queried := *past
	queried.Origin, queried.CountsUnknown = simulate.FromPrometheus, true
	queried.SetDelays(past)
	result := run(t, &queried, simulate.Assumptions{}, g.policy)
	want := run(t, past, simulate.Assumptions{}, g.policy)
	if result.Startup != want.Startup || result.Drain != want.Drain || want.Startup.Measured == 0 || want.Drain.Measured == 0 {
		t.Errorf("got %+v and %+v, want %+v and %+v", result.Startup, result.Drain, want.Startup, want.Drain)
	}
	if low := result.Rows[0].LowConfidence; !low.IsZero() {
		t.Errorf("low confidence %v without counts", low)
	}
	past.Notes = []simulate.Note{{Time: past.Ticks[470].Time, Text: simulate.TargetChanged}}
	queried.SetDelays(past)
	if result := run(t, &queried, simulate.Assumptions{}, g.policy); result.Startup != (simulate.Delay{Duration: 30 * time.Second}) {
		t.Errorf("got %+v from passes of another target", result.Startup)
	}
	for i := range queried.Ticks {
		tick := &queried.Ticks[i]
		tick.Observed, tick.Ready, tick.Outage = simulate.Unknown, simulate.Unknown, false
	}
	_, err := simulate.Run(t.Context(), &queried, []simulate.Policy{policyOf("p", spec(1, 9, average("requests", 5)))}, simulate.Assumptions{Metrics: map[string]simulate.Assumption{"requests": {Model: simulate.Queue, CapacityMilli: 2500}}})
	if err == nil || !strings.Contains(err.Error(), "the number of instances is unknown") {
		t.Errorf("a queue without counts: %v", err)
	}
}

func TestErrors(t *testing.T) {
	good := &game{policy: policyOf("p", spec(1, 9, average("requests", 5))), replicas: 2, load: waves(5, 20, time.Hour, 1), step: 15 * time.Second, ticks: 100}
	recording := good.play(t)
	short, empty := *recording, *recording
	short.Ticks, empty.Ticks = recording.Ticks[:10], nil
	for want, test := range map[string]struct {
		recording *simulate.Recording
		metric    policy.MetricSpec
		assume    map[string]simulate.Assumption
	}{
		"there is no data in the period": {&empty, average("requests", 5), nil},
		"too little data: the recording covers 2m15s, and the windows of the policies 5m0s": {&short, average("requests", 5), nil},
		`metric "other" of "p" is not recorded; the recording contains requests`:            {recording, average("other", 5), nil},
		`there is no metric "latency"; the metrics are requests`:                            {recording, average("requests", 5), map[string]simulate.Assumption{"latency": {}}},
	} {
		_, err := simulate.Run(t.Context(), test.recording, []simulate.Policy{policyOf("p", spec(1, 9, test.metric))}, simulate.Assumptions{Metrics: test.assume})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	good.ticks = 3000
	if _, err := simulate.Run(ctx, good.play(t), []simulate.Policy{good.policy}, simulate.Assumptions{}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v after a cancellation", err)
	}
}
