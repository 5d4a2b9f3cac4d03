package round

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/hpad/hpad/daemon/observe"
	"github.com/hpad/hpad/daemon/ticks"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/simulate"
	"github.com/hpad/hpad/sources"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/clock"
)

// maxQueried is the maximum number of instants of a queried recording: 31 days every 15 s.
const maxQueried = 180_000

// QueryRecording queries the sources of all metrics at each tick in [from, to]. The counts of the
// recording are unknown.
func (d *Definition) QueryRecording(ctx context.Context, from, to time.Time) (simulate.Recording, error) {
	first := ticks.Next(from.Add(-1), d.SyncPeriod)
	n := max(0, int(to.Sub(first)/d.SyncPeriod)+1)
	if n > maxQueried {
		hours := maxQueried*d.SyncPeriod/time.Hour - 1 // the end can be later than the client's time
		return simulate.Recording{}, fmt.Errorf("the period has %d ticks of %s, and at most %d can be queried: select a shorter period, for example with --since %dh",
			n, d.SyncPeriod, maxQueried, hours)
	}
	names := simulate.MetricNames(d.Spec.Metrics)
	recording := simulate.Recording{Name: d.Name, Origin: simulate.FromPrometheus, Step: d.SyncPeriod, CountsUnknown: true, Ticks: make([]simulate.Tick, n)}
	inputs := make([]policy.Inputs, n)
	for i := range inputs {
		inputs[i] = policy.Inputs{Settings: d.Settings, Spec: d.Spec, Now: first.Add(time.Duration(i) * d.SyncPeriod)}
	}
	for m := range d.Spec.Metrics {
		if d.Spec.Metrics[m].Formula != "" {
			continue
		}
		recording.Metrics = append(recording.Metrics, names[m])
		if err := d.queryMetric(ctx, m, first, inputs); err != nil {
			return simulate.Recording{}, fmt.Errorf("metric %q: %w", names[m], err)
		}
	}
	for i := range inputs {
		tick := simulate.Record(&inputs[i], &policy.Decision{Case: policy.CaseMetrics}, policy.Outcome{}, false, false)
		tick.Observed, tick.Ready = simulate.Unknown, simulate.Unknown
		recording.Ticks[i] = tick
	}
	missing := func(reading simulate.Reading) bool { return reading.Missing }
	found := slices.IndexFunc(recording.Ticks, func(tick simulate.Tick) bool { return !slices.ContainsFunc(tick.Readings, missing) })
	if found < 0 {
		recording.Ticks = nil
	}
	recording.Ticks = recording.Ticks[max(0, found):] // the sources may not have data from the start
	return recording, nil
}

// queryMetric adds the reading of a metric to the inputs of each tick.
func (d *Definition) queryMetric(ctx context.Context, m int, first time.Time, inputs []policy.Inputs) error {
	metric, in := &d.Spec.Metrics[m], &d.MetricInputs[m]
	if metric.Type != policy.ExternalMetric && metric.Type != policy.ObjectMetric {
		return fmt.Errorf("a metric of type %s cannot be queried for the past, because its instances are unknown", metric.Type)
	}
	ranger, ok := in.From.Source.(sources.Ranger)
	if !ok {
		return fmt.Errorf("source %q of kind %q cannot be queried for the past", in.From.Name, in.From.Kind)
	}
	at := 0
	return ranger.QueryRange(ctx, sources.Query{Text: in.Query, Labels: in.Labels, MaxAge: in.MaxAge}, first, d.SyncPeriod, len(inputs), func(_ time.Time, v *sources.Vector) {
		target := observe.Target{Ref: d.Target, Reading: &targets.Reading{}, Strict: d.strict, Scale: new(clock.Scale)}
		reading, err := target.Queried(metric, &in.Input, &observe.Response{Vector: *v})
		if err != nil {
			reading.Error = err.Error()
		}
		inputs[at].Observation.Metrics = append(inputs[at].Observation.Metrics, reading)
		at++
	})
}
