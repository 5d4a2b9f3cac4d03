package show_test

import (
	"strings"
	"testing"
	"time"

	"github.com/hpad/hpad/cmd/hpad/show"
	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/policy"
)

// TestInstancesAreListed checks the list of instances, and that a long list is truncated.
func TestInstancesAreListed(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 5, 0, 0, time.UTC)
	value, used := int64(120), int32(60)
	cpu := func(group string, value *int64, used *int32) []api.InstanceMetric {
		return []api.InstanceMetric{
			{Type: policy.ResourceMetric, Name: "cpu", Measured: policy.Measured{Group: group, ValueMilli: value, Utilization: used}},
			{Type: policy.InstancesMetric, Name: "jobs", Measured: policy.Measured{Group: map[bool]string{true: "ready", false: "missing"}[value != nil], ValueMilli: value}},
		}
	}
	list := api.InstanceList{
		Time: now,
		Instances: []api.Instance{
			{ID: "1", Name: "web-1", Node: "n1", Address: "10.0.0.1:80", Phase: "Running", Readiness: "True", Started: now.Add(-time.Hour), Metrics: cpu("ready", &value, &used)},
			{ID: "2", Name: "web-2", Phase: "Running", Readiness: "False", Protected: true, Started: now.Add(-time.Minute), Metrics: cpu("unready", &value, nil)},
			{ID: "3", Node: "n1", Phase: "Pending", Metrics: cpu("unready", nil, nil), LastOutput: "no\troute"},
			{ID: "4", Node: "n1", Phase: "Running", Readiness: "True", Deleting: true, Metrics: cpu("ignored", &value, &used)},
			{ID: "5", Node: "n2", Phase: "Running", Readiness: "True", Metrics: cpu("missing", nil, nil)},
		},
		Failed: []api.FailedMetric{{Type: policy.ContainerResourceMetric, Name: "memory", Task: "app", Error: "no samples\nyet"}},
	}
	text := func(list api.InstanceList, most int) string {
		t.Helper()
		var text strings.Builder
		if err := show.Autoscaler(&text, api.Autoscaler{Name: "web", Instances: api.Instances{Pending: 5}}, list, most, now); err != nil {
			t.Fatal(err)
		}
		return text.String()
	}
	const want = `Instances:           2 ready, 1 unready, 1 pending, 1 stopping
  memory of app:     no samples yet
  NAME    NODE     ADDRESS       STATE                           AGE         CPU                  JOBS
  web-1   n1       10.0.0.1:80   Running, ready                  60m         0.12 (60%)           0.12
  web-2   <none>   <none>        Running, not ready, protected   60s         0.12 unready         0.12
  3       n1       <none>        Pending                         <unknown>   <unknown> unready    <unknown>
    last output: no route
  4       n1       <none>        Stopping                        <unknown>   0.12 (60%) ignored   0.12
  5       n2       <none>        Running, ready                  <unknown>   <unknown>            <unknown>
Evaluation:
`
	if got := text(list, 20); !strings.Contains(got, want) {
		t.Errorf("instances are printed as\n%s\nwant\n%s", got, want)
	}
	for most, want := range map[int]string{4: "  and 1 more (--instances lists all)\n", 5: ""} {
		if got := text(list, most); strings.Contains(got, "more (--instances") != (want != "") || !strings.Contains(got, want) {
			t.Errorf("5 instances with the limit %d are printed as\n%s", most, got)
		}
	}
	if got := text(api.InstanceList{Error: "no\nanswer"}, 20); !strings.Contains(got, "  not listed:        no answer\n") {
		t.Errorf("a failed read is printed as\n%s", got)
	}
}
