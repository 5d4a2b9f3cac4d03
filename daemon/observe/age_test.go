package observe_test

import (
	"strings"
	"testing"
	"time"

	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/daemon/observe"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/sources"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/clock"
)

// TestMaxAge checks that a metric fails if a reading is older than max_age, and that unused old
// samples have no effect.
func TestMaxAge(t *testing.T) {
	c := clock.New(clock.System{Wall: time.Now})
	now := c.Now()
	target := observe.Target{
		Ref: targets.Ref{Fleet: "f", Name: "t"}, Scale: c.Scale(), Observed: now,
		Reading: &targets.Reading{Instances: []policy.Instance{{ID: "a"}, {ID: "b"}}},
	}
	cpu := policy.MetricSpec{Type: policy.ResourceMetric, Name: "cpu"}
	sample := func(id string, age time.Duration, resource string) targets.InstanceSample {
		return targets.InstanceSample{ID: id, At: now.Add(-age), Window: time.Second, Tasks: []policy.TaskUsage{{
			Task: "app", Usage: []policy.Amount{{Resource: resource, Milli: 100}},
		}}}
	}
	for name, test := range map[string]struct {
		maxAge  time.Duration
		samples []targets.InstanceSample
		says    string
	}{
		"any age":                           {0, []targets.InstanceSample{sample("a", time.Hour, "cpu")}, ""},
		"young":                             {time.Minute, []targets.InstanceSample{sample("a", time.Minute, "cpu"), sample("b", 0, "cpu")}, ""},
		"one old sample":                    {time.Minute, []targets.InstanceSample{sample("a", 0, "cpu"), sample("b", 61*time.Second, "cpu")}, "the sample of instance b is 1m1s old, but max_age = 1m0s"},
		"old sample of another resource":    {time.Minute, []targets.InstanceSample{sample("a", 0, "cpu"), sample("b", time.Hour, "memory")}, ""},
		"old sample of an earlier instance": {time.Minute, []targets.InstanceSample{sample("a", 0, "cpu"), sample("c", time.Hour, "cpu")}, ""},
	} {
		in := observe.NewInput(&config.Input{MaxAge: test.maxAge})
		_, err := target.Sampled(&cpu, &in, targets.Samples{Instances: test.samples})
		if (err == nil) != (test.says == "") || err != nil && !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: %v, want %q", name, err, test.says)
		}
	}

	const says = "no value that is within max_age = 1m0s"
	for _, metric := range []policy.MetricSpec{{Type: policy.ExternalMetric}, {Type: policy.ObjectMetric}, {Type: policy.InstancesMetric}} {
		in := observe.NewInput(&config.Input{MaxAge: time.Minute, InstanceLabel: "id", Match: config.MatchID})
		if metric.Type != policy.InstancesMetric {
			in = observe.NewInput(&config.Input{MaxAge: time.Minute})
		}
		if _, err := target.Queried(&metric, &in, &observe.Response{}); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", metric.Type, err, says)
		}
		found := sources.Vector{Series: []sources.Series{{Value: 1, Labels: sources.LabelsOf(map[string]string{"id": "a"})}}}
		if _, err := target.Queried(&metric, &in, &observe.Response{Vector: found}); err != nil {
			t.Errorf("%s: %v", metric.Type, err)
		}
	}
}

// TestAge checks that the age of a reading is the age of its oldest usable sample.
func TestAge(t *testing.T) {
	now := time.Now()
	target := observe.Target{Observed: now}
	sample := func(age time.Duration, ok bool) policy.Sample { return policy.Sample{At: now.Add(-age), OK: ok} }
	reading := policy.Reading{Samples: []policy.Sample{sample(time.Second, true), sample(time.Minute, true), sample(time.Hour, false), sample(2*time.Second, true)}}
	if got := target.Age(&reading); got != time.Minute {
		t.Errorf("age = %s, want 1m0s", got)
	}
	if got := target.Age(&policy.Reading{}); got != 0 {
		t.Errorf("age without samples = %s, want 0", got)
	}
}
