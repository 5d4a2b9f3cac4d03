package live

import (
	"context"
	"math"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/hpad/hpad/daemon"
	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/daemon/state"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/sources"
)

// decided runs a daemon of the world until it has decided on autoscaler "a", and
// returns the error of its first metric and the number that it read.
func (w *world) decided(t *testing.T) (failure string, milli int64) {
	t.Helper()
	store, err := state.Open(filepath.Join(t.TempDir(), "state.db"), state.Options{Log: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	}()
	decided := make(chan struct{}, 100)
	d := daemon.New(daemon.Options{
		Load: func() (*config.Config, error) { return w.config, nil }, Store: store,
		Decided: func(string) { decided <- struct{}{} },
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	select {
	case <-decided:
	case <-time.After(time.Minute):
		t.Error("nothing was decided")
	}
	view, _ := d.Autoscaler("a")
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	metric := view.Decision.Metrics[0]
	for _, number := range []*int64{metric.Current.AverageValueMilli, metric.Current.ValueMilli} {
		if number != nil {
			milli = *number
		}
	}
	return metric.Error, milli
}

// TestCheckAgreesWithTheDaemon holds what a check says of a vector against what a
// pass makes of it: the same ones fail, and the same ones add up to the same.
func TestCheckAgreesWithTheDaemon(t *testing.T) {
	const first, second = "web-0", "web-1"
	external := config.Input{Query: "q"}
	byID := config.Input{Query: "q", InstanceLabel: "id", Match: config.MatchID}
	const huge = 9e15
	for name, test := range map[string]struct {
		kind   policy.MetricType
		goal   policy.TargetType
		in     config.Input
		strict bool
		answer sources.Vector
		// fails says that both are to fail, and sum is what the check is to say
		// otherwise, as the daemon reads it.
		fails bool
		says  string
		milli int64
	}{
		"a sum":                          {kind: policy.ExternalMetric, in: external, answer: vector(labeled(1.5), labeled(2)), says: "External m: 2 series, which add up to 3.5", milli: 1750},
		"a negative value":               {kind: policy.ExternalMetric, in: external, answer: vector(labeled(-3), labeled(5)), fails: true},
		"a negative value, strict":       {kind: policy.ExternalMetric, in: external, strict: true, answer: vector(labeled(5), labeled(-3)), says: "External m: 2 series, which add up to 2", milli: 1000},
		"a sum for a value too large":    {kind: policy.ExternalMetric, goal: policy.ValueTarget, in: external, answer: vector(labeled(huge), labeled(huge)), says: "External m: 2 series, which add up to 9223372036854775.807", milli: math.MaxInt64},
		"not a number":                   {kind: policy.ExternalMetric, in: external, answer: vector(labeled(1), labeled(math.NaN())), fails: true},
		"none":                           {kind: policy.ExternalMetric, in: external, answer: vector(), fails: true},
		"a negative object":              {kind: policy.ObjectMetric, goal: policy.ValueTarget, in: external, answer: vector(labeled(-1)), fails: true},
		"several objects":                {kind: policy.ObjectMetric, goal: policy.ValueTarget, in: external, answer: vector(labeled(1), labeled(2)), fails: true},
		"NaN of another target":          {kind: policy.InstancesMetric, in: byID, answer: vector(labeled(2, "id", first), labeled(4, "id", second), labeled(math.NaN(), "id", "other")), says: "Instances m: 3 series, for 2 of 2 instances", milli: 3000},
		"below zero, of another target":  {kind: policy.InstancesMetric, in: byID, answer: vector(labeled(2, "id", first), labeled(4, "id", second), labeled(-1, "id", "other")), says: "Instances m: 3 series, for 2 of 2 instances", milli: 3000},
		"NaN of an instance":             {kind: policy.InstancesMetric, in: byID, answer: vector(labeled(2, "id", first), labeled(math.NaN(), "id", second)), fails: true},
		"below zero, of an instance":     {kind: policy.InstancesMetric, in: byID, answer: vector(labeled(2, "id", first), labeled(-4, "id", second)), fails: true},
		"an instance twice":              {kind: policy.InstancesMetric, in: byID, answer: vector(labeled(2, "id", first), labeled(4, "id", first, "cpu", "1")), fails: true},
		"nobody's":                       {kind: policy.InstancesMetric, in: byID, answer: vector(labeled(2, "id", "other")), fails: true},
		"values that are huge together":  {kind: policy.ExternalMetric, in: external, answer: vector(labeled(huge), labeled(huge)), says: "External m: 2 series, which add up to 9223372036854775.807", milli: math.MaxInt64},
		"without the label of instances": {kind: policy.InstancesMetric, in: byID, answer: vector(labeled(2)), fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			w.metric("a", test.kind, test.in)
			w.config.Daemon = config.Daemon{SyncPeriod: time.Hour, ConcurrentSyncs: 1}
			if test.strict {
				w.config.Daemon.Compat = config.CompatStrict
			}
			one, goal := int64(1000), policy.MetricTarget{Type: policy.AverageValueTarget}
			if test.goal == policy.ValueTarget {
				goal = policy.MetricTarget{Type: policy.ValueTarget, ValueMilli: &one}
			} else {
				goal.AverageValueMilli = &one
			}
			a := w.config.Autoscalers["a"]
			a.SyncPeriod, a.Spec.MaxReplicas, a.Spec.Metrics[0].Target = time.Hour, 2, goal
			a.Spec = policy.Default(a.Spec)
			w.source.answers["q"] = test.answer

			findings := Check(t.Context(), w.config, nil)
			said := findings[len(findings)-1]
			failure, milli := w.decided(t)
			if said.Problem != test.fails || (failure != "") != test.fails {
				t.Fatalf("the check says %q (a problem: %v), the daemon %q, want that both fail: %v", said.Text, said.Problem, failure, test.fails)
			}
			if !test.fails && (said.Text != test.says || milli != test.milli) {
				t.Errorf("the check says %q, want %q; the daemon reads %dm, want %dm", said.Text, test.says, milli, test.milli)
			}
		})
	}
}
