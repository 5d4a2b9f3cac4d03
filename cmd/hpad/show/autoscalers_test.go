package show

import (
	"testing"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/explain"
	"github.com/hpad/hpad/policy"
)

func TestTargetsText(t *testing.T) {
	cpu := policy.MetricSpec{Type: policy.ResourceMetric, Name: "cpu", Target: policy.MetricTarget{Type: policy.UtilizationTarget, AverageUtilization: new(int32(60))}}
	memory := policy.MetricSpec{Type: policy.ResourceMetric, Name: "memory", Target: policy.MetricTarget{AverageValueMilli: new(int64(512 << 20 * 1000))}}
	queue := policy.MetricSpec{Type: policy.ExternalMetric, Name: "queue", Target: policy.MetricTarget{AverageValueMilli: new(int64(30_000))}}
	depth := policy.MetricSpec{Type: policy.ExternalMetric, Name: "depth", Target: policy.MetricTarget{ValueMilli: new(int64(1_500))}}
	rate := policy.MetricSpec{Type: policy.InstancesMetric, Name: "rate", Target: policy.MetricTarget{AverageValueMilli: new(int64(100_000))}}
	route := policy.MetricSpec{Type: policy.ObjectMetric, Name: "hits", Object: "route/main", Target: policy.MetricTarget{
		Type: policy.ValueTarget, ValueMilli: new(int64(2_000)), AverageValueMilli: new(int64(1_000)),
	}}
	heap := policy.MetricSpec{Type: policy.InstancesMetric, Name: "heap", Target: policy.MetricTarget{AverageValueMilli: new(int64(100 << 20 * 1000)), Binary: true}}
	disk := policy.MetricSpec{Type: policy.ExternalMetric, Name: "disk", Target: policy.MetricTarget{ValueMilli: new(int64(1 << 30 * 1000)), Binary: true}}
	formula := policy.MetricSpec{Type: policy.ExternalMetric, Name: "formula", Formula: "cpu + depth", Target: policy.MetricTarget{Type: policy.ValueTarget, ValueMilli: new(int64(5_000))}}
	for _, test := range []struct {
		name     string
		specs    []policy.MetricSpec
		statuses []policy.MetricStatus
		want     string
	}{
		{"nothing", nil, nil, "<none>"},
		{"no reading yet", []policy.MetricSpec{cpu}, nil, "cpu: <unknown>/60%"},
		{"failed", []policy.MetricSpec{cpu}, []policy.MetricStatus{{}}, "cpu: <unknown>/60%"},
		{"utilization", []policy.MetricSpec{cpu}, []policy.MetricStatus{{AverageUtilization: new(int32(45)), AverageValueMilli: new(int64(225))}}, "cpu: 45%/60%"},
		{"average amount", []policy.MetricSpec{memory}, []policy.MetricStatus{{AverageValueMilli: new(int64(100 << 20 * 1000))}}, "memory: 100Mi/512Mi"},
		{"external average", []policy.MetricSpec{queue}, []policy.MetricStatus{{AverageValueMilli: new(int64(12_000))}}, "12/30 (avg)"},
		{"external value", []policy.MetricSpec{depth}, []policy.MetricStatus{{ValueMilli: new(int64(700))}}, "0.7/1.5"},
		{"per instance", []policy.MetricSpec{rate}, []policy.MetricStatus{{AverageValueMilli: new(int64(90_000))}}, "90/100"},
		{"binary unit per instance", []policy.MetricSpec{heap}, []policy.MetricStatus{{AverageValueMilli: new(int64(52_428_900_000))}}, "50Mi/100Mi"},
		{"binary unit", []policy.MetricSpec{disk}, []policy.MetricStatus{{ValueMilli: new(int64(1536 << 20 * 1000))}}, "1536Mi/1Gi"},
		{"empty result", []policy.MetricSpec{depth, queue}, []policy.MetricStatus{{ValueMilli: new(int64(0)), Empty: true}, {AverageValueMilli: new(int64(0)), Empty: true}}, "0 (empty)/1.5, 0 (empty)/30 (avg)"},
		{"object with both targets uses its target type", []policy.MetricSpec{route}, []policy.MetricStatus{{ValueMilli: new(int64(3_000))}}, "3/2"},
		{"external average at 0 replicas", []policy.MetricSpec{queue}, []policy.MetricStatus{{ValueMilli: new(int64(4_000))}}, "4/30 (avg)"},
		{"formula", []policy.MetricSpec{cpu, depth, formula}, []policy.MetricStatus{{}, {}, {ValueMilli: new(int64(7_000))}}, "formula: 7/5"},
		{
			"three",
			[]policy.MetricSpec{cpu, queue, depth},
			[]policy.MetricStatus{{AverageUtilization: new(int32(45))}, {AverageValueMilli: new(int64(12_000))}, {}},
			"cpu: 45%/60%, 12/30 (avg) + 1 more...",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := explain.TargetsText(test.specs, test.statuses); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// TestBounds checks that the bounds name the schedule that sets them, and a ramp.
func TestBounds(t *testing.T) {
	view := api.Autoscaler{Spec: policy.Spec{MinReplicas: new(int32(5)), MaxReplicas: 9}}
	if got := minText(view) + " " + maxText(view); got != "5 9" {
		t.Errorf("without schedules: %s", got)
	}
	view.Schedules = &api.Schedules{Active: []string{"day", "office"}, Ramps: []string{"office"}, Min: "office", Max: "day"}
	if got := minText(view) + " " + maxText(view) + "; " + explain.SchedulesText(view.Schedules); got != "5 (office, ramp) 9 (day); day, office (ramp)" {
		t.Errorf("with schedules: %s", got)
	}
}
