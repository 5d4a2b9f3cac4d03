package round_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/daemon/daemontest"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/simulate"
	"github.com/hpad/hpad/sources"
)

// rangeSource is a source with a history. values returns the value at an instant, and false if there is
// none.
type rangeSource struct {
	*daemontest.Source
	values func(at time.Time) (float64, bool)
	err    error
}

func (s *rangeSource) QueryRange(_ context.Context, _ sources.Query, from time.Time, step time.Duration, n int, visit func(time.Time, *sources.Vector)) error {
	for i := range n {
		at, v := from.Add(time.Duration(i)*step), sources.Vector{}
		if value, ok := s.values(at); ok {
			v = daemontest.Vector(value, at)
		}
		visit(at, &v)
	}
	return s.err
}

// TestQueriedRecording checks that the values of a source at past ticks can be simulated: the recording
// begins with the first value, and missing values remain missing.
func TestQueriedRecording(t *testing.T) {
	daemontest.Run(t, func(t *testing.T, w *daemontest.World) {
		end := time.Now().Add(5 * time.Second)
		source := &rangeSource{Source: w.Source(), values: func(at time.Time) (float64, bool) {
			age := end.Sub(at)
			return 12, age < 3*time.Hour && (age < time.Hour || age > 2*time.Hour)
		}}
		w.SourceKind = func(string) sources.Source { return source }
		w.AddWithValue("web", 3, 3)
		w.Start()
		defer w.Stop()
		got, err := w.Daemon.QueriedRecording(t.Context(), "web", end.Add(-24*time.Hour), end)
		if err != nil || len(got.Ticks) != 720 || !got.CountsUnknown || got.Origin != simulate.FromPrometheus || got.Step != 15*time.Second {
			t.Fatalf("%d ticks every %v, %v", len(got.Ticks), got.Step, err)
		}
		missing := 0
		for i := range got.Ticks {
			tick := &got.Ticks[i]
			if tick.Time.Unix()%15 != 0 || tick.Observed != simulate.Unknown || len(tick.Readings) != 1 {
				t.Fatalf("tick %d = %+v", i, tick)
			}
			if tick.Readings[0].Missing {
				missing++
			} else if tick.Readings[0].Milli != 12_000 {
				t.Fatalf("tick %d = %+v", i, tick)
			}
		}
		if missing != 240 {
			t.Errorf("%d missing readings, want 240", missing)
		}
		policies, err := w.Daemon.Policies("web", []config.Variant{})
		if err != nil {
			t.Fatal(err)
		}
		result, err := simulate.Run(t.Context(), &got, policies, simulate.Assumptions{Metrics: map[string]simulate.Assumption{"queue": {Model: simulate.Total}}})
		if err != nil {
			t.Fatal(err)
		}
		if row := &result.Rows[0]; row.Replicas[len(row.Replicas)-1] != 12 || row.InstanceHours < 30 {
			t.Errorf("%d replicas at the end, %+v, want 12", row.Replicas[len(row.Replicas)-1], row.Score)
		}
		none, err := w.Daemon.QueriedRecording(t.Context(), "web", end.Add(-24*time.Hour), end.Add(-20*time.Hour))
		if err != nil || len(none.Ticks) != 0 {
			t.Errorf("%d ticks before the first value, %v", len(none.Ticks), err)
		}
		source.err = errors.New("server returned 503")
		for name, test := range map[string]struct {
			autoscaler string
			from       time.Time
			want       string
		}{
			"failure": {"web", end.Add(-time.Hour), `metric "queue": server returned 503`},
			"length":  {"web", end.Add(-40 * 24 * time.Hour), "the period has 230400 ticks of 15s, and at most 180000 can be queried: select a shorter period, for example with --since 749h"},
		} {
			if _, err := w.Daemon.QueriedRecording(t.Context(), test.autoscaler, test.from, end); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%s: %v, want %s", name, err, test.want)
			}
		}
	})
}

// TestUnqueriedRecording checks the errors of metrics without a history.
func TestUnqueriedRecording(t *testing.T) {
	daemontest.Run(t, func(t *testing.T, w *daemontest.World) {
		w.AddWithValue("web", 3, 3)
		w.Add("cpu", 3, func(a *config.Autoscaler) {
			a.Spec.Metrics = []policy.MetricSpec{{
				Type: policy.ResourceMetric, Name: "cpu", Target: policy.MetricTarget{Type: policy.UtilizationTarget, AverageUtilization: new(int32(60))},
			}}
			a.Inputs = []config.Input{{}}
		})
		w.Start()
		defer w.Stop()
		for name, want := range map[string]string{
			"web": `metric "queue": source "source" of kind "memory" cannot be queried for the past`,
			"cpu": `metric "cpu": a metric of type Resource cannot be queried for the past, because its instances are unknown`,
		} {
			if _, err := w.Daemon.QueriedRecording(t.Context(), name, time.Now().Add(-time.Hour), time.Now()); fmt.Sprint(err) != want {
				t.Errorf("%s: %v, want %s", name, err, want)
			}
		}
	})
}
