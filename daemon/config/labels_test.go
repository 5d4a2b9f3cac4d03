package config

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/hpad/hpad/settings"
	"github.com/hpad/hpad/targets"
)

// labeledFile defines the same autoscaler as wholeLabels, and its fleet and source.
const labeledFile = `
[daemon]
scale_to_zero = true
[fleets.local]
kind = "process"
[fleets.local.services.worker]
command = ["/usr/bin/worker"]
requests = { cpu = "500m", memory = "256Mi" }
[fleets.local.services.other]
command = ["/usr/bin/worker"]
[sources.prom]
kind = "prometheus"
url = "http://127.0.0.1:9090"

[autoscalers.worker]
target            = { fleet = "local", service = "worker", requests = { cpu = "250m" } }
min_replicas      = 2
max_replicas      = 40
initial_replicas  = 3
sync_period       = "30s"
on_foreign_change = "restore"
mode = "up-only"
combine           = "cpu + memory + 2 * queue + load"
average_value     = 7
initialization    = "90s"
outage_hold       = "5m"
unready_after     = "2m"
guard             = { drop = "30%" }

[[autoscalers.worker.metrics]]
type                = "Resource"
resource            = "cpu"
average_utilization = 60

[[autoscalers.worker.metrics]]
type                = "Resource"
resource            = "memory"
average_utilization = 75

[[autoscalers.worker.metrics]]
type          = "External"
name          = "queue"
source        = "prom"
query         = 'ready{a="b"}'
select        = { queue = "checkout", "dotted.label" = "x" }
average_value = "30"

[[autoscalers.worker.metrics]]
type           = "Instances"
name           = "load"
source         = "prom"
query          = "x"
instance_label = "alloc_id"
average_value  = "1.5"

[autoscalers.worker.behavior.scale_down]
stabilization_window = "4m"
policies             = [{ type = "Percent", value = 10, period = "1m" }, { type = "Instances", value = 4, period = "1m" }]
select_policy        = "Min"
tolerance            = 0.05
`

var wholeLabels = map[string]string{
	"hpad.enable":                                   "true",
	"hpad.min":                                      "2",
	"hpad.max":                                      "40",
	"hpad.initial_replicas":                         "3",
	"hpad.sync_period":                              "30s",
	"hpad.on_foreign_change":                        "restore",
	"hpad.mode":                                     "up-only",
	"hpad.initialization":                           "90s",
	"hpad.outage_hold":                              "5m",
	"hpad.unready_after":                            "2m",
	"hpad.guard.drop":                               "30%",
	"hpad.cpu":                                      "60",
	"hpad.memory":                                   "75%",
	"hpad.requests.cpu":                             "250m",
	"hpad.metrics.0.type":                           "External",
	"hpad.metrics.0.name":                           "queue",
	"hpad.metrics.0.source":                         "prom",
	"hpad.metrics.0.query":                          `ready{a="b"}`,
	"hpad.metrics.0.select.queue":                   "checkout",
	"hpad.metrics.0.average_value":                  "30",
	"hpad.combine":                                  "cpu + memory + 2 * queue + load",
	"hpad.average_value":                            "7",
	"hpad.metrics.1.type":                           "Instances",
	"hpad.metrics.1.name":                           "load",
	"hpad.metrics.1.source":                         "prom",
	"hpad.metrics.1.query":                          "x",
	"hpad.metrics.1.instance_label":                 "alloc_id",
	"hpad.metrics.1.average_value":                  "1.5",
	"hpad.behavior.scale_down.stabilization_window": "4m",
	"hpad.behavior.scale_down.policies.0.type":      "Percent",
	"hpad.behavior.scale_down.policies.0.value":     "10",
	"hpad.behavior.scale_down.policies.0.period":    "1m",
	"hpad.behavior.scale_down.policies.1.type":      "Instances",
	"hpad.behavior.scale_down.policies.1.value":     "4",
	"hpad.behavior.scale_down.policies.1.period":    "1m",
	"hpad.behavior.scale_down.select_policy":        "Min",
	"hpad.behavior.scale_down.tolerance":            "0.05",
	"hpad.metrics.0.select.dotted.label":            "x",
	"com.example.other":                             "not hpad's",
}

func parseLabeledFile(t *testing.T) *Config {
	t.Helper()
	c, err := Parse("labels.toml", []byte(labeledFile))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestLabeled checks that labels can express everything that a file can, with the same result.
func TestLabeled(t *testing.T) {
	c := parseLabeledFile(t)
	ref := targets.Ref{Fleet: "local", Name: "worker"}
	got, enabled, err := c.Labeled(ref, wholeLabels)
	if err != nil || !enabled {
		t.Fatalf("Labeled() = %v, %v", enabled, err)
	}
	want := c.Autoscalers["worker"]
	want.Name, want.Labels, want.Written = "local/worker", wholeLabels, got.Written
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("labels and file differ (-file +labels):\n%s", diff)
	}
	if validName(got.Name) {
		t.Errorf("a file can also define an autoscaler named %q", got.Name)
	}
}

// TestEachLabelCounts checks that every key of an autoscaler can be a label, and that removing the
// label changes the autoscaler.
func TestEachLabelCounts(t *testing.T) {
	c := parseLabeledFile(t)
	ref := targets.Ref{Fleet: "local", Name: "worker"}
	whole, _, err := c.Labeled(ref, wholeLabels)
	if err != nil {
		t.Fatal(err)
	}
	whole.Labels = nil
	for label := range wholeLabels {
		if label == targets.LabelPrefix+"enable" || !strings.HasPrefix(label, targets.LabelPrefix) {
			continue
		}
		labels := maps.Clone(wholeLabels)
		delete(labels, label)
		without, _, err := c.Labeled(ref, labels)
		if err != nil {
			continue
		}
		without.Labels = nil
		if cmp.Equal(whole, without, cmpopts.IgnoreFields(Autoscaler{}, "Written")) {
			t.Errorf("the autoscaler is the same without the label %s", label)
		}
	}
	for _, key := range settings.FieldsOf(reflect.TypeFor[scalingTable]()).Keys {
		if key == "value" || key == "utilization" {
			continue // not together with average_value
		}
		if key == "min_replicas" || key == "max_replicas" {
			key = key[:3]
		}
		prefix := targets.LabelPrefix + key
		if !slices.ContainsFunc(slices.Collect(maps.Keys(wholeLabels)), func(label string) bool {
			return label == prefix || strings.HasPrefix(label, prefix+".")
		}) {
			t.Errorf("wholeLabels has no label for the key %q", key)
		}
	}
}

func TestLabeledDisabled(t *testing.T) {
	c := parseLabeledFile(t)
	for _, labels := range []map[string]string{
		nil,
		{"hpad.max": "many"},
		{"hpad.enable": "false", "hpad.max": "many"},
	} {
		if _, enabled, err := c.Labeled(targets.Ref{Fleet: "local", Name: "worker"}, labels); enabled || err != nil {
			t.Errorf("Labeled(%v) = %v, %v; want neither", labels, enabled, err)
		}
	}
}

// TestLabeledNearlyEnabled checks that a label similar to hpad.enable is an error.
func TestLabeledNearlyEnabled(t *testing.T) {
	c := parseLabeledFile(t)
	ref := targets.Ref{Fleet: "local", Name: "worker"}
	for _, label := range []string{"hpad.enabled", "hpad.Enable", "hpad.enbale"} {
		_, enabled, err := c.Labeled(ref, map[string]string{label: "true", "hpad.max": "3"})
		want := "labels of local/worker: " + label + `: unknown key; did you mean "enable"?`
		if enabled || err == nil || err.Error() != want {
			t.Errorf("Labeled() = %v, %v; want %q", enabled, err, want)
		}
		if _, enabled, err := c.Labeled(ref, map[string]string{label: "true", "hpad.enable": "false"}); enabled || err != nil {
			t.Errorf("Labeled() = %v, %v of labels that are off; want neither", enabled, err)
		}
	}
}

func TestLabeledMistakes(t *testing.T) {
	c := parseLabeledFile(t)
	for name, test := range map[string]struct {
		labels map[string]string
		// want is the complete error. The test adds hpad.enable and hpad.max unless they are given.
		want string
	}{
		"enable":               {map[string]string{"hpad.enable": "yes"}, `hpad.enable = "yes": must be "true" or "false"`},
		"empty hpad.enable":    {map[string]string{"hpad.enable": ""}, `hpad.enable: must be "true" or "false"`},
		"unknown":              {map[string]string{"hpad.maxx": "3"}, `hpad.maxx: unknown key; did you mean "max"?`},
		"unknown part":         {map[string]string{"hpad.guard.dropp": "3"}, `hpad.guard.dropp: unknown key; did you mean "drop"?`},
		"the target":           {map[string]string{"hpad.target": "x"}, `hpad.target: unknown key; allowed are average_value, behavior, combine, cpu, enable, guard, initial_replicas, initialization, max, memory, metrics, min, mode, on_foreign_change, outage_hold, requests, sync_period, unready_after, utilization, value`},
		"label without a key":  {map[string]string{"hpad.": "x"}, `hpad.: unknown key; allowed are average_value, behavior, combine, cpu, enable, guard, initial_replicas, initialization, max, memory, metrics, min, mode, on_foreign_change, outage_hold, requests, sync_period, unready_after, utilization, value`},
		"not a number":         {map[string]string{"hpad.min": "two"}, `hpad.min = "two": must be a whole number`},
		"too large":            {map[string]string{"hpad.max": "3000000000"}, `hpad.max = "3000000000": must be a whole number from -2147483648 to 2147483647`},
		"label and short form": {map[string]string{"hpad.max": "3", "hpad.max_replicas": "4"}, `hpad.max_replicas = "4": is already set by another label`},
		"cpu":                  {map[string]string{"hpad.cpu": "500m"}, `hpad.cpu = "500m": must be a percentage of the request, such as "60" or "60%"; for other targets use hpad.metrics.0.resource and so on`},
		"empty cpu":            {map[string]string{"hpad.cpu": "0"}, `hpad.cpu = "0": must be at least 1`},
		"empty memory":         {map[string]string{"hpad.cpu": "60", "hpad.memory": "0%"}, `hpad.memory = "0": must be at least 1`},
		"a table":              {map[string]string{"hpad.behavior": "fast"}, `hpad.behavior: is not a value: give a label for each part, such as "scale_up"`},
		"an array":             {map[string]string{"hpad.metrics": "cpu"}, `hpad.metrics: is not a value: give a label for each part, such as "0.type"`},
		"an element":           {map[string]string{"hpad.metrics.0": "cpu"}, `hpad.metrics.0: is not a value: give a label for each part, such as "type"`},
		"no number":            {map[string]string{"hpad.metrics.first.type": "External"}, `hpad.metrics: elements must be numbered from 0 without gaps`},
		"a gap":                {map[string]string{"hpad.metrics.1.type": "External"}, `hpad.metrics: elements must be numbered from 0 without gaps`},
		"parts of a value":     {map[string]string{"hpad.max": "3", "hpad.sync_period.x": "4"}, `hpad.sync_period: must be a duration, such as "15s", not a table`},
		"a duration":           {map[string]string{"hpad.sync_period": "15"}, `hpad.sync_period = "15": must be a duration, such as "15s", "5m" or "1h30m"`},
		"a quantity":           {map[string]string{"hpad.requests.cpu": "much"}, `hpad.requests.cpu = "much": `},
		"a request of 0":       {map[string]string{"hpad.requests.cpu": "0"}, `hpad.requests.cpu = "0": must be greater than 0, because utilization is a percentage of it`},
		"min above max":        {map[string]string{"hpad.min": "9", "hpad.max": "3"}, `hpad.max = "3": must be at least min_replicas, which is 9`},
		"max missing":          {map[string]string{"hpad.max": "-"}, `hpad.max = "-": must be a whole number`},
		"a source":             {map[string]string{"hpad.metrics.0.type": "External", "hpad.metrics.0.name": "q", "hpad.metrics.0.source": "prometheus", "hpad.metrics.0.query": "x", "hpad.metrics.0.value": "1"}, `hpad.metrics.0.source = "prometheus": does not exist; the configuration defines prom`},
		"error after cpu":      {map[string]string{"hpad.cpu": "50", "hpad.metrics.0.type": "External", "hpad.metrics.0.name": "q", "hpad.metrics.0.source": "prom", "hpad.metrics.0.value": "1"}, `hpad.metrics.0.query: is required with source`},
		"a file to write":      {map[string]string{"hpad.endpoints.file": "/etc/passwd"}, `hpad.endpoints.file: is only allowed in the configuration file, because hpad writes the file and runs the command with its own rights`},
		"a command":            {map[string]string{"hpad.target.endpoints.command.0": "reboot"}, `hpad.target.endpoints.command.0: is only allowed in the configuration file, because hpad writes the file and runs the command with its own rights`},
	} {
		t.Run(name, func(t *testing.T) {
			labels := map[string]string{"hpad.enable": "true", "hpad.max": "10"}
			maps.Copy(labels, test.labels)
			_, _, err := c.Labeled(targets.Ref{Fleet: "local", Name: "worker"}, labels)
			if err == nil {
				t.Fatal("no error")
			}
			prefix := "labels of local/worker: "
			if got := err.Error(); !strings.HasPrefix(got, prefix+test.want) || strings.Contains(got, "\n") {
				t.Errorf("error is\n%s\nwant\n%s", got, prefix+test.want)
			}
		})
	}
}

// FuzzLabeled checks that no label causes a panic and that every error has a label as key.
func FuzzLabeled(f *testing.F) {
	for label, value := range wholeLabels {
		f.Add(label, value, "hpad.max", "5")
	}
	c, err := Parse("labels.toml", []byte(labeledFile))
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, label, value, second, other string) {
		labels := map[string]string{"hpad.enable": "true", label: value, second: other}
		a, enabled, err := c.Labeled(targets.Ref{Fleet: "local", Name: "worker"}, labels)
		if err == nil {
			if enabled && a.Spec.MaxReplicas < 1 {
				t.Errorf("accepted without a maximum: %+v", a)
			}
			return
		}
		mistakes, ok := errors.AsType[Errors](err)
		if !ok || len(mistakes) == 0 {
			t.Fatalf("Labeled() = %v, want Errors", err)
		}
		for _, mistake := range mistakes {
			if !strings.HasPrefix(mistake.Key, targets.LabelPrefix) || mistake.Detail == "" {
				t.Errorf("incomplete: %#v", mistake)
			}
		}
	})
}

// TestLabelText checks that labels above a size limit are rejected, with an error of limited
// length.
func TestLabelText(t *testing.T) {
	long := strings.Repeat("x", 80_000)
	many := map[string]string{}
	for i := range 5000 {
		many[fmt.Sprintf("hpad.requests.r%d", i)] = "1"
	}
	for name, test := range map[string]struct {
		labels map[string]string
		want   string
	}{
		"the name of a metric": {map[string]string{"hpad.metrics.0.name": long}, "a label value other than a query may have at most 1024 bytes"},
		"a selected value":     {map[string]string{"hpad.metrics.0.select.queue": long[:2000]}, "a label value other than a query may have at most 1024 bytes"},
		"a resource":           {map[string]string{"hpad.requests." + long: "1"}, "a label name may have at most 256 bytes"},
		"a selected label":     {map[string]string{"hpad.metrics.0.select." + long[:300]: "1"}, "a label name may have at most 256 bytes"},
		"an unknown label":     {map[string]string{"hpad." + long: ""}, "a label name may have at most 256 bytes"},
		"a query":              {map[string]string{"hpad.metrics.0.query": long[:5000]}, "a query in labels may have at most 4096 bytes"},
		"a very long query":    {map[string]string{"hpad.metrics.0.query": long}, "all labels together may have at most 57344 bytes"},
		"many labels":          {many, "all labels together may have at most 57344 bytes, but these have 99029"},
	} {
		t.Run(name, func(t *testing.T) {
			labels := map[string]string{
				"hpad.enable": "true", "hpad.max": "10", "hpad.metrics.0.type": "External", "hpad.metrics.0.name": "q", "hpad.metrics.0.source": "prom",
				"hpad.metrics.0.query": "x", "hpad.metrics.0.value": "1", "com.example.other": long,
			}
			ref := targets.Ref{Fleet: "local", Name: "worker"}
			c := parseLabeledFile(t)
			if _, _, err := c.Labeled(ref, labels); err != nil {
				t.Fatal(err)
			}
			maps.Copy(labels, test.labels)
			_, _, err := c.Labeled(ref, labels)
			if err == nil || !strings.Contains(err.Error(), test.want) || len(err.Error()) > 1000 {
				t.Errorf("the error is %.1000v, want %q", err, test.want)
			}
			delete(labels, "hpad.enable")
			if _, enabled, err := c.Labeled(ref, labels); enabled || err != nil {
				t.Errorf("labels that do not enable an autoscaler: %v, %.1000v", enabled, err)
			}
		})
	}
}

// TestLabelLimits checks the fleet's limits on labels. Each error must name the label, the limit
// and the key of the limit.
func TestLabelLimits(t *testing.T) {
	metric := func(i int, query string) map[string]string {
		at := fmt.Sprintf("hpad.metrics.%d.", i)
		return map[string]string{at + "type": "External", at + "name": "q", at + "source": "prom", at + "query": query, at + "value": "1"}
	}
	metrics := func(n int) map[string]string {
		labels := map[string]string{}
		for i := range n {
			maps.Copy(labels, metric(i, "x"))
		}
		return labels
	}
	with := func(labels map[string]string, more ...string) map[string]string {
		for i := 0; i < len(more); i += 2 {
			labels[more[i]] = more[i+1]
		}
		return labels
	}
	own := targets.LabelLimits{Metrics: 3, MaxReplicas: 5000, SyncPeriod: time.Second, Query: 8}
	for name, test := range map[string]struct {
		limits targets.LabelLimits
		labels map[string]string
		want   string
	}{
		"as many":                 {targets.LabelLimits{}, with(metrics(10), "hpad.max", "1000", "hpad.sync_period", "5s"), ""},
		"as many of other labels": {own, with(metrics(3), "hpad.max", "5000", "hpad.sync_period", "1s"), ""},
		"max":                     {targets.LabelLimits{}, map[string]string{"hpad.max": "1001"}, `hpad.max = "1001": labels may set at most 1000 (fleets.local.label_limits.max_replicas = 1000)`},
		"max_replicas":            {own, map[string]string{"hpad.max_replicas": "2000000000"}, `hpad.max_replicas = "2000000000": labels may set at most 5000 (fleets.local.label_limits.max_replicas = 5000)`},
		"sync_period":             {targets.LabelLimits{}, map[string]string{"hpad.sync_period": "4s"}, `hpad.sync_period = "4s": labels may set at least 5s (fleets.local.label_limits.sync_period = "5s")`},
		"metrics":                 {targets.LabelLimits{}, metrics(11), `hpad.metrics.10: labels may define at most 10 metrics, but these define 11 (fleets.local.label_limits.metrics = 10)`},
		"cpu counts as a metric": {
			own, with(metrics(3), "hpad.cpu", "60"),
			`hpad.metrics.2: labels may define at most 3 metrics, but these define 4 (fleets.local.label_limits.metrics = 3)`,
		},
		"query": {own, with(metrics(1), "hpad.metrics.0.query", "123456789"), `hpad.metrics.0.query = "123456789": a query in labels may have at most 8 bytes, but this one has 9 (fleets.local.label_limits.query = 8)`},
	} {
		t.Run(name, func(t *testing.T) {
			c := parseLabeledFile(t)
			fleet := c.Fleets["local"]
			fleet.LabelLimits = test.limits
			c.Fleets["local"] = fleet
			c.Daemon.SyncPeriod = time.Second // the labels do not set it
			labels := map[string]string{"hpad.enable": "true"}
			maps.Copy(labels, test.labels)
			if labels["hpad.max"] == "" && labels["hpad.max_replicas"] == "" {
				labels["hpad.max"] = "10"
			}
			_, _, err := c.Labeled(targets.Ref{Fleet: "local", Name: "worker"}, labels)
			switch {
			case test.want == "" && err != nil:
				t.Error(err)
			case test.want != "" && (err == nil || err.Error() != "labels of local/worker: "+test.want):
				t.Errorf("Labeled failed with\n%v\nwant\nlabels of local/worker: %s", err, test.want)
			}
		})
	}
}
