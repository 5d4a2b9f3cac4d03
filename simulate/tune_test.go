package simulate_test

import (
	"errors"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hpad/hpad/guard"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/simulate"
)

// inOrder calls a function for each number.
func inOrder(n int, f func(i int) error) error {
	for i := range n {
		if err := f(i); err != nil {
			return err
		}
	}
	return nil
}

// concurrently calls a function for each number at the same time.
func concurrently(n int, f func(i int) error) error {
	return errors.Join(guard.Each(n, slices.Repeat([]struct{}{{}}, n), func(i int, _ struct{}) error { return f(i) })...)
}

// days returns a recording of days with a daily wave.
func days(t testing.TB, s policy.Spec, n int) (*simulate.Recording, simulate.Policy) {
	p := policyOf("active", s)
	g := &game{policy: p, replicas: 4, load: waves(20, 300, 24*time.Hour, 3), startup: 45 * time.Second, step: 15 * time.Second, ticks: n * 5760}
	return g.play(t), p
}

// TestTune searches policies for an autoscaler with a minimum that is too high, and for one that only
// needs few instances at the minimum.
func TestTune(t *testing.T) {
	recording, active := days(t, spec(20, 60, average("requests", 10)), 1)
	tuning, err := simulate.Tune(t.Context(), recording, active, simulate.Assumptions{}, 40, inOrder)
	if err != nil {
		t.Fatal(err)
	}
	base := tuning.Rows[0]
	cheaper := slices.IndexFunc(tuning.Suggestions, func(s simulate.Suggestion) bool { return s.Purpose == simulate.Cheaper })
	if cheaper < 0 {
		t.Fatalf("no cheaper policy among %d: %+v", tuning.Candidates, base.Score)
	}
	got := tuning.Suggestions[cheaper]
	if got.Row.InstanceHours > 0.98*base.InstanceHours || got.Row.Shortage > base.Shortage+0.0001 || len(got.Row.Moments) == 0 {
		t.Errorf("got %v: %+v, active %+v", got.Settings, got.Row.Score, base.Score)
	}
	if tuning.Candidates != 40 || len(tuning.Suggestions) > 3 {
		t.Errorf("got %d candidates and %d suggestions", tuning.Candidates, len(tuning.Suggestions))
	}
	again, err := simulate.Tune(t.Context(), recording, active, simulate.Assumptions{}, 40, concurrently)
	if err != nil || again.Suggestions[cheaper].Row.Label != got.Row.Label {
		t.Errorf("another search found %+v, %v", again.Suggestions, err)
	}
}

// TestTuneKeeps searches policies for a target that always needs one instance.
func TestTuneKeeps(t *testing.T) {
	p := policyOf("active", spec(1, 60, average("requests", 10)))
	g := &game{policy: p, replicas: 1, load: func(time.Time) float64 { return 5 }, step: 15 * time.Second, ticks: 5760}
	tuning, err := simulate.Tune(t.Context(), g.play(t), p, simulate.Assumptions{}, 40, inOrder)
	if err != nil || len(tuning.Suggestions) != 0 {
		t.Errorf("got %+v, %v", tuning.Suggestions, err)
	}
}

func TestTuneErrors(t *testing.T) {
	p := policyOf("active", spec(1, 60, average("requests", 10)))
	g := &game{policy: p, replicas: 1, load: func(time.Time) float64 { return 5 }, step: 15 * time.Second, ticks: 60}
	if _, err := simulate.Tune(t.Context(), g.play(t), p, simulate.Assumptions{}, 40, inOrder); err == nil || !strings.Contains(err.Error(), "too little data") {
		t.Errorf("got %v", err)
	}
}

// BenchmarkTune searches 200 candidates in a week with one goroutine. The goal is at most 60 s with
// two cores, and 200 MiB.
func BenchmarkTune(b *testing.B) {
	recording, active := days(b, spec(4, 60, utilization(50), average("requests", 10)), 7)
	var before, after runtime.MemStats
	for b.Loop() {
		runtime.GC()
		runtime.ReadMemStats(&before)
		if _, err := simulate.Tune(b.Context(), recording, active, simulate.Assumptions{}, 200, inOrder); err != nil {
			b.Fatal(err)
		}
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.Sys)/(1<<20), "MiB")
	}
}
