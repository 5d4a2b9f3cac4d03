package draft_test

import (
	"strings"
	"testing"
	"time"

	"github.com/BurntSushi/toml"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/hpad/hpad/cmd/hpad/draft"
)

// full sets every key.
var full = draft.Autoscaler{
	Name:  "shop.web",
	Notes: []string{"From elsewhere.", "max_replicas = 7\r\nmax_replicas = 8", ""},
	Target: draft.Target{
		Notes: []string{"DECIDE: the fleet."},
		Fleet: "local",
		Keys:  []draft.Key{{Name: "service", Value: "worker"}},
	},
	MinReplicas: new(int32(0)),
	MaxReplicas: 40,
	Metrics: []draft.Metric{
		{Type: "Resource", Resource: "cpu", AverageUtilization: new(int32(60))},
		{Type: "ContainerResource", Resource: "memory", Task: "app", AverageValue: "1.5Gi"},
		{
			Notes: []string{"DECIDE: the query."},
			Type:  "Object", Name: "requests", Object: "Ingress/main", Source: "prom",
			TargetType: "Value", Value: "2k", AverageValue: "100m",
			Suggested: []draft.Key{{Name: "query", Value: `sum(requests{ingress="main"})`}},
		},
	},
	Behavior: &draft.Behavior{
		ScaleUp: &draft.Rules{SelectPolicy: "Min", Tolerance: "0.05", StabilizationWindow: new(time.Duration(0)), Policies: []draft.Policy{
			{Type: "Instances", Value: 4, Period: time.Minute},
			{Type: "Percent", Value: 100, Period: 90 * time.Second},
		}},
		ScaleDown: &draft.Rules{StabilizationWindow: new(time.Hour), Policies: []draft.Policy{{Type: "Percent", Value: 10, Period: 30 * time.Minute}}},
	},
}

const fullText = `# From elsewhere.
# max_replicas = 7  max_replicas = 8
#
[autoscalers."shop.web"]
# DECIDE: the fleet.
target       = { fleet = "local", service = "worker" }
min_replicas = 0
max_replicas = 40

[[autoscalers."shop.web".metrics]]
type                = "Resource"
resource            = "cpu"
average_utilization = 60

[[autoscalers."shop.web".metrics]]
type          = "ContainerResource"
resource      = "memory"
task          = "app"
average_value = "1.5Gi"

# DECIDE: the query.
[[autoscalers."shop.web".metrics]]
type          = "Object"
name          = "requests"
object        = "Ingress/main"
source        = "prom"
target_type   = "Value"
value         = "2k"
average_value = "100m"
# query = 'sum(requests{ingress="main"})'

[autoscalers."shop.web".behavior.scale_up]
stabilization_window = "0s"
select_policy        = "Min"
tolerance            = 0.05
policies             = [
  { type = "Instances", value = 4, period = "1m" },
  { type = "Percent", value = 100, period = "1m30s" },
]

[autoscalers."shop.web".behavior.scale_down]
stabilization_window = "1h"
policies             = [{ type = "Percent", value = 10, period = "30m" }]
`

func TestTOML(t *testing.T) {
	if diff := cmp.Diff(fullText, full.TOML()); diff != "" {
		t.Errorf("TOML() (-want +got):\n%s", diff)
	}
}

// TestPresence checks that an empty behavior and an empty list of policies are written.
func TestPresence(t *testing.T) {
	a := draft.Autoscaler{Name: "web", Target: draft.Target{Fleet: "local"}, MaxReplicas: 1, Behavior: &draft.Behavior{}}
	if got := a.TOML(); !strings.Contains(got, "\n[autoscalers.web.behavior]\n") {
		t.Errorf("TOML() of an empty behavior =\n%s", got)
	}
	a.Behavior.ScaleUp = &draft.Rules{Policies: []draft.Policy{}}
	if got := a.TOML(); !strings.Contains(got, "scale_up]\npolicies = []\n") {
		t.Errorf("TOML() of an empty list of policies =\n%s", got)
	}
}

// TestAnyText checks that arbitrary strings are preserved, and that notes remain comments.
func TestAnyText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value, note := rapid.String().Draw(t, "value"), rapid.String().Draw(t, "note")
		name := rapid.StringMatching(`[a-z.]{1,5}`).Draw(t, "name")
		a := draft.Autoscaler{
			Name: name, Notes: []string{note}, MaxReplicas: 3,
			Target:  draft.Target{Fleet: value, Notes: []string{note}},
			Metrics: []draft.Metric{{Type: value, Notes: []string{note}, Suggested: []draft.Key{{Name: "query", Value: value}}}},
		}
		var got struct {
			Autoscalers map[string]struct {
				Target      map[string]string   `toml:"target"`
				MaxReplicas int32               `toml:"max_replicas"`
				Metrics     []map[string]string `toml:"metrics"`
			} `toml:"autoscalers"`
		}
		meta, err := toml.Decode(a.TOML(), &got)
		if err != nil {
			t.Fatalf("%v in\n%s", err, a.TOML())
		}
		read := got.Autoscalers[name]
		if len(meta.Undecoded()) > 0 || read.MaxReplicas != 3 || read.Target["fleet"] != value || len(read.Metrics) != 1 || len(read.Metrics[0]) > 1 || read.Metrics[0]["type"] != value {
			t.Errorf("read %+v and not %v from\n%s", read, meta.Undecoded(), a.TOML())
		}
	})
}
