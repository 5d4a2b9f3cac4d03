package observe_test

import (
	"strings"
	"testing"
	"time"

	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/daemon/observe"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/clock"
)

// TestMissingTask checks that the error for a task that the target does not have lists its tasks.
func TestMissingTask(t *testing.T) {
	input := observe.NewInput(new(config.Input))
	c := clock.New(clock.System{Wall: time.Now})
	target := observe.Target{Scale: c.Scale(), Observed: c.Now(), Reading: &targets.Reading{Instances: []policy.Instance{{ID: "a", Phase: policy.PhaseRunning}}}}
	samples := targets.Samples{Instances: []targets.InstanceSample{{ID: "a", Tasks: []policy.TaskUsage{
		{Task: "web", Usage: []policy.Amount{{Resource: "cpu", Milli: 100}}}, {Task: "log", Usage: []policy.Amount{{Resource: "cpu", Milli: 1}}},
	}}}}
	for task, want := range map[string]string{
		"web": "", "log": "", "Web": `no instance has a task "Web": the measured tasks are log, web`, "envoy": `no instance has a task "envoy": the measured tasks are log, web`,
	} {
		_, err := target.Sampled(&policy.MetricSpec{Type: policy.ContainerResourceMetric, Name: "cpu", Task: task}, &input, samples)
		if (want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("task %q: %v, want %q", task, err, want)
		}
	}
	if _, err := target.Sampled(&policy.MetricSpec{Type: policy.ResourceMetric, Name: "cpu"}, &input, samples); err != nil {
		t.Error(err)
	}
}
