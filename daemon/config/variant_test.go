package config

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
)

const variantFile = `
[daemon]
sync_period = "10s"

[fleets.local]
kind = "process"
services.web = { command = ["sleep", "1h"] }
services.db = { command = ["sleep", "1h"] }

[sources.prom]
kind = "prometheus"
url = "http://127.0.0.1:9090"

[autoscalers.web]
target = { fleet = "local", service = "web" }
min_replicas = 2
max_replicas = 10

[[autoscalers.web.metrics]]
type = "External"
name = "queue"
source = "prom"
query = "queue_length"
average_value = 100

[autoscalers.web.behavior.scale_down]
stabilization_window = "5m"
tolerance = 0.2

[[autoscalers.web.behavior.scale_down.policies]]
type = "Percent"
value = 10
period = "1m"

[[autoscalers.web.schedules]]
name = "night"
zone = "Europe/Berlin"
from = "22:00"
to = "06:00"
max_replicas = 3

[autoscalers.db]
target = { fleet = "local", service = "db" }
max_replicas = 10
`

func variantConfig(t *testing.T) *Config {
	t.Helper()
	c, err := Parse("hpad.toml", []byte(variantFile))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestVariedBySettings checks the effect of settings on an autoscaler of a file, and on an autoscaler
// that labels define.
func TestVariedBySettings(t *testing.T) {
	c := variantConfig(t)
	labeled, _, err := c.Labeled(targets.Ref{Fleet: "local", Name: "db"}, map[string]string{"hpad.enable": "true", "hpad.max": "7", "hpad.cpu": "60%"})
	if err != nil {
		t.Fatal(err)
	}
	bare, _, err := c.Labeled(targets.Ref{Fleet: "local", Name: "db"}, map[string]string{"hpad.enable": "true", "hpad.max": "7"})
	if err != nil {
		t.Fatal(err)
	}
	rules := func(a *Autoscaler) *policy.ScalingRules { return a.Spec.Behavior.ScaleDown }
	for _, test := range []struct {
		autoscaler *Autoscaler
		set        []string
		got        func(a *Autoscaler) any
		want       any
	}{
		{c.Autoscalers["web"], []string{"metrics[0].average_value=60"}, func(a *Autoscaler) any { return *a.Spec.Metrics[0].Target.AverageValueMilli }, int64(60_000)},
		{c.Autoscalers["web"], []string{"metrics.0.average_value = 500m"}, func(a *Autoscaler) any { return *a.Spec.Metrics[0].Target.AverageValueMilli }, int64(500)},
		{c.Autoscalers["web"], []string{"behavior.scale_down.stabilization_window=2m"}, func(a *Autoscaler) any { return *rules(a).StabilizationWindowSeconds }, int32(120)},
		{c.Autoscalers["web"], []string{`behavior.scale_down.stabilization_window="90s"`}, func(a *Autoscaler) any { return *rules(a).StabilizationWindowSeconds }, int32(90)},
		{c.Autoscalers["web"], []string{"behavior.scale_down.policies[0].value=50", "max_replicas=30"}, func(a *Autoscaler) any {
			return []int32{rules(a).Policies[0].Value, rules(a).Policies[0].PeriodSeconds, a.Spec.MaxReplicas}
		}, []int32{50, 60, 30}},
		{c.Autoscalers["web"], []string{`behavior.scale_up.policies[0].type=Percent`, `behavior.scale_up.policies[0].value=100`, `behavior.scale_up.policies[0].period=30s`}, func(a *Autoscaler) any {
			return a.Spec.Behavior.ScaleUp.Policies
		}, []policy.ScalingPolicy{{Type: policy.PercentPolicy, Value: 100, PeriodSeconds: 30}}},
		{c.Autoscalers["web"], []string{`behavior.scale_down.policies=[{ type = "Instances", value = 1, period = "10s" }]`}, func(a *Autoscaler) any {
			return rules(a).Policies
		}, []policy.ScalingPolicy{{Type: policy.InstancesPolicy, Value: 1, PeriodSeconds: 10}}},
		{c.Autoscalers["web"], []string{"schedules[0].from=21:00"}, func(a *Autoscaler) any { return a.Schedules[0].From }, "21:00"},
		{c.Autoscalers["web"], []string{"sync_period=30s"}, func(a *Autoscaler) any { return a.SyncPeriod }, 30 * time.Second},
		{c.Autoscalers["db"], []string{"metrics[0].average_utilization=60"}, func(a *Autoscaler) any { return *a.Spec.Metrics[0].Target.AverageUtilization }, int32(60)},
		{labeled, []string{"max_replicas=9", "metrics[0].average_utilization=70"}, func(a *Autoscaler) any {
			return []int32{a.Spec.MaxReplicas, *a.Spec.Metrics[0].Target.AverageUtilization}
		}, []int32{9, 70}},
		{bare, []string{"metrics[0].average_utilization=60"}, func(a *Autoscaler) any { return *a.Spec.Metrics[0].Target.AverageUtilization }, int32(60)},
		{bare, []string{"behavior.scale_up.policies[0].type=Percent", "behavior.scale_up.policies[0].value=50", "behavior.scale_up.policies[0].period=30s"}, func(a *Autoscaler) any {
			return a.Spec.Behavior.ScaleUp.Policies
		}, []policy.ScalingPolicy{{Type: policy.PercentPolicy, Value: 50, PeriodSeconds: 30}}},
		{labeled, []string{`behavior.scale_down.stabilization_window="2m"`}, func(a *Autoscaler) any { return *rules(a).StabilizationWindowSeconds }, int32(120)},
	} {
		varied, _, err := c.Varied(test.autoscaler, &Variant{Set: test.set})
		if err != nil {
			t.Errorf("%v: %v", test.set, err)
			continue
		}
		if diff := cmp.Diff(test.want, test.got(varied)); diff != "" {
			t.Errorf("%v (-want +got):\n%s", test.set, diff)
		}
		if varied.Name != test.autoscaler.Name || varied.Target != test.autoscaler.Target {
			t.Errorf("%v: autoscaler %q of %v", test.set, varied.Name, varied.Target)
		}
	}
	same, daemon, err := c.Varied(c.Autoscalers["web"], &Variant{})
	if diff := cmp.Diff(c.Autoscalers["web"].Policy(c.Daemon, ""), same.Policy(daemon, "")); diff != "" || err != nil {
		t.Errorf("policy without a change, %v (-want +got):\n%s", err, diff)
	}
}

// TestVariedErrors checks that an invalid variant has the errors of "hpad check".
func TestVariedErrors(t *testing.T) {
	c := variantConfig(t)
	labeled, _, err := c.Labeled(targets.Ref{Fleet: "local", Name: "db"}, map[string]string{"hpad.enable": "true", "hpad.max": "7"})
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		set  string
		want string
	}{
		{"max_replica=30", `autoscalers.web.max_replica: unknown key; did you mean "max_replicas"?`},
		{"metric[0].average_value=60", `autoscalers.web.metric: unknown key; did you mean "metrics"?`},
		{"metrics[0].activatoin=60", `autoscalers.web.metrics[0].activatoin: unknown key; did you mean "activation"?`},
		{"metrics[0].avarage_value=60", `autoscalers.web.metrics[0].avarage_value: unknown key; did you mean "average_value"?`},
		{"max_replicas=many", `autoscalers.web.max_replicas = "many": must be a whole number, not a string`},
		{"max_replicas=1", `autoscalers.web.max_replicas = 1: must be at least min_replicas, which is 2`},
		{"metrics[0].average_value=-5", `autoscalers.web.metrics[0].average_value = -5: must be greater than 0`},
		{"metrics[2].average_value=5", `metrics[2].average_value: "2" is not an index: the array has 1 elements, which are numbered from 0`},
		{"metrics.queue.average_value=5", `metrics.queue.average_value: "queue" is not an index: the array has 1 elements, which are numbered from 0`},
		{"max_replicas.x=5", `max_replicas.x: "x" cannot be set: 10 is not a table`},
		{"behavior.scale_down.stabilization_window=2h", `autoscalers.web.behavior.scale_down.stabilization_window = "2h": must be from 0 to 3600 seconds`},
		{"target.service=db", `autoscalers.web.target: cannot be changed: the load of another target is not recorded`},
		{"max_replicas", `max_replicas: needs a key, "=" and a value, for example metrics[0].average_value=60 or max_replicas=30`},
		{"=3", `=3: needs a key, "=" and a value, for example metrics[0].average_value=60 or max_replicas=30`},
	} {
		_, _, err := c.Varied(c.Autoscalers["web"], &Variant{Set: []string{test.set}})
		if err == nil || err.Error() != test.want {
			t.Errorf("%s:\n got %v\nwant %s", test.set, err, test.want)
		}
	}
	_, _, err = c.Varied(labeled, &Variant{Set: []string{"max_replicas=many"}})
	if err == nil || !strings.Contains(err.Error(), `hpad.max = "many": `) {
		t.Errorf("error of labels = %v", err)
	}
	_, _, err = c.Varied(labeled, &Variant{File: "new.toml"})
	if err == nil || !strings.HasPrefix(err.Error(), `new.toml: cannot define autoscaler "local/db"`) {
		t.Errorf("error of a file for labels = %v", err)
	}
}

// TestVariedByFile checks that a file replaces the autoscaler and the daemon's settings, that it can use
// the fleets and sources of the active configuration, and that errors contain the place.
func TestVariedByFile(t *testing.T) {
	c := variantConfig(t)
	own := variantFile[strings.Index(variantFile, "[autoscalers.web]"):]
	for _, test := range []struct {
		name, text string
		want       int32
		tolerance  float64
	}{
		{"whole file", strings.Replace(variantFile, "max_replicas = 10", "max_replicas = 20", 1), 20, 0.1},
		{"own table", strings.Replace(own, "max_replicas = 10", "max_replicas = 20", 1), 20, 0.1},
		{"with daemon", "[daemon]\ntolerance = 0.3\n" + own, 10, 0.3},
	} {
		a, daemon, err := c.Varied(c.Autoscalers["web"], &Variant{File: "new.toml", Text: test.text})
		if err != nil || a.Spec.MaxReplicas != test.want || a.Policy(daemon, "").Settings.Tolerance != test.tolerance {
			t.Errorf("%s: %v, %v", test.name, a, err)
		}
	}
	for text, want := range map[string]string{
		"": "new.toml: autoscalers.web: is missing: add the table of the autoscaler",
		"[autoscalers.web]\ntarget = { fleet = \"local\", service = \"web\" }\nmax_replica = 3\n": `new.toml:3: autoscalers.web.max_replica: unknown key; did you mean "max_replicas"?`,
		"[autoscalers.web\n": "new.toml:1: not valid TOML: ",
	} {
		_, _, err := c.Varied(c.Autoscalers["web"], &Variant{File: "new.toml", Text: text})
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q:\n got %v\nwant %s", text, err, want)
		}
	}
}
