package config

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hpad/hpad/targets"
)

// doubtful contains metrics with suspicious settings.
const doubtful = `
[fleets.local]
kind = "process"
[fleets.local.services.worker]
command = ["sleep", "1"]
[sources.prom]
kind = "prometheus"
url  = "http://127.0.0.1:9090"
[autoscalers.worker]
target       = { fleet = "local", service = "worker" }
max_replicas = 3
metrics = [
  { type = "External", name = "backlog", source = "prom", query = "sum(queue_depth)", value = 100 },
  { type = "External", name = "each", source = "prom", query = "sum(queue_depth)", average_value = 100 },
  { type = "External", name = "latency", source = "prom", query = "max(queue_wait_seconds)", value = 100 },
  { type = "Object", name = "backlog", object = "queue/jobs", source = "prom", query = "queue_depth{queue='jobs', token='hunter2'}", value = 100 },
  { type = "External", name = "short", source = "prom", query = "sum(rate(x[2s]))", average_value = 100 },
  { type = "External", name = "long", source = "prom", query = "sum(rate(x[10s])) + sum(max_over_time(x[5s]))", average_value = 100 },
  { type = "External", name = "newer", source = "prom", query = "of a newer (server", value = 100 },
  { type = "External", name = "old", source = "prom", query = "sum(rate(x[10s]))", average_value = 100, max_age = "1m" },
  { type = "External", name = "young", source = "prom", query = "sum(rate(x[10s])) + sum(y)", average_value = 100, max_age = "1m" },
  { type = "External", name = "range", source = "prom", query = "queue_depth[5m]", average_value = 100 },
  { type = "External", name = "text", source = "prom", query = "'jobs'", average_value = 100 },
  { type = "External", name = "flagged", source = "prom", query = "sum(limitk(3, queue_depth))", average_value = 100 },
]
`

const totalWarning = "the query is a total, which does not fall when instances are added: its ratio to value multiplies the count again in every evaluation; use average_value, the share that one instance can handle"

const askedWarning = "; hpad sends it anyway, because some servers extend PromQL"

func TestWarnings(t *testing.T) {
	c, err := Parse("hpad.toml", []byte(doubtful))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, warning := range c.Warnings() {
		got = append(got, warning.Error())
	}
	want := []string{
		"hpad.toml:13: autoscalers.worker.metrics[0].value = 100: " + totalWarning,
		"hpad.toml:16: autoscalers.worker.metrics[3].value = 100: " + totalWarning,
		`hpad.toml:17: autoscalers.worker.metrics[4].query = "sum(rate(x[2s]))": rate over 2s requires 2 samples in that period, and few servers scrape every 5s; use at least 10s, or better four times the server's scrape_interval`,
		`hpad.toml:19: autoscalers.worker.metrics[6].query = "of a newer (server": cannot be parsed: 1:4: parse error: unexpected identifier "a"` + askedWarning,
		`hpad.toml:20: autoscalers.worker.metrics[7].max_age = "1m": has no effect on the query: all its samples are from ranges in square brackets, which limit their age`,
		`hpad.toml:22: autoscalers.worker.metrics[9].query = "queue_depth[5m]": returns a range of samples for each series instead of one value: use a function such as avg_over_time(…) or rate(…)` + askedWarning,
		`hpad.toml:23: autoscalers.worker.metrics[10].query = "'jobs'": returns a string instead of a number` + askedWarning,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
}

// misread maps the keys of a metric to the beginning of the only warning about it, or to nothing.
var misread = map[string]string{
	`type = "External", query = "avg(x)", average_value = 5`:                                                         `average_value = 5: the query is already an average`,
	`type = "External", query = "avg(x)", value = 5`:                                                                 "",
	`type = "Object", object = "a/b", query = "avg(x)", value = 5, average_value = 5, target_type = "Value"`:         "",
	`type = "Instances", query = "avg by (id) (x)", instance_label = "id", average_value = 5`:                        "",
	`type = "Instances", query = "sum by (job) (x)", instance_label = "id", average_value = 5`:                       `instance_label = "id": the query returns no label "id", so that no series belongs to an instance: add it to by (…)`,
	`type = "External", query = "sum by (job) (x)", select = { queue = "q" }, average_value = 5`:                     `select: the query returns no label "queue", so that no series is selected: add it to by (…)`,
	`type = "External", query = "sum(x{token='hunter2'} > 0)", average_value = 5`:                                    `query = "sum(x{token='<redacted>'} > 0)": > 0 removes all series in ordinary operation, and the target is then not scaled down`,
	`type = "External", query = "sum(x > 0)", average_value = 5, empty = "zero"`:                                     "",
	`type = "External", query = "histogram_quantile(0.9, sum by (le) (rate(http_seconds_bucket[1m])))", value = 500`: `value = 500: the query returns seconds, and no request should take 50 s: write milliseconds as "500m" or 0.5`,
	`type = "External", query = "histogram_quantile(0.9, sum by (le) (rate(http_seconds_bucket[1m])))", value = 0.5`: "",
	`type = "External", query = "sum(x)", average_value = "0.0004"`:                                                  `average_value = "0.0004": is read as 0.001, which is too coarse because the algorithm computes in thousandths: multiply the query and the target by 1000`,
	`type = "External", query = "sum(x)", average_value = 5, activation = "5"`:                                       `activation = "5": has no effect, because min_replicas is above 0`,
	`type = "Instances", query = "x", instance_label = "id", average_value = "500m"`:                                 "",
	`type = "Resource", resource = "cpu", query = "x", window = "1m", instance_label = "id", average_value = "500"`:  `average_value = "500": is 500 cores: write thousandths of a core as "500m"`,
	`type = "Resource", resource = "cpu", query = "x", window = "1m", instance_label = "id", average_value = "500m"`: "",
	`type = "Resource", resource = "memory", query = "x", instance_label = "id", average_value = 512`:                `average_value = 512: is 512 bytes: use a unit, such as "512Mi"`,
}

func TestMisreadQueries(t *testing.T) {
	for keys, want := range misread {
		metric := `name = "m", source = "prom", ` + keys
		if strings.Contains(keys, "resource =") {
			metric = `source = "prom", ` + keys
		}
		c, err := Parse("hpad.toml", []byte(doubtful[:strings.Index(doubtful, "metrics = [")]+"metrics = [{"+metric+"}]"))
		if err != nil {
			t.Fatal(err)
		}
		var warnings []string
		for _, warning := range c.Warnings() {
			warnings = append(warnings, strings.TrimPrefix(warning.Error(), "hpad.toml:12: autoscalers.worker.metrics[0]."))
		}
		got := strings.Join(warnings, "")
		if (want == "") != (got == "") || !strings.HasPrefix(got, want) {
			t.Errorf("%s: warning %q, want %q", keys, got, want)
		}
	}
}

// TestScheduledActivation checks that an activation has an effect if a schedule allows 0 replicas.
func TestScheduledActivation(t *testing.T) {
	for minimum, want := range map[int]bool{0: false, 2: true} {
		c, err := Parse("hpad.toml", fmt.Appendf(nil, "[daemon]\nscale_to_zero = true\n%s"+
			`metrics = [{ type = "External", name = "m", source = "prom", query = "sum(x)", average_value = 5, activation = 5 }]`+"\n"+
			`schedules = [{ name = "night", zone = "UTC", from = "20:00", min_replicas = %d }]`, doubtful[:strings.Index(doubtful, "metrics = [")], minimum))
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(c.Warnings()); strings.Contains(got, "has no effect, because min_replicas is above 0") != want {
			t.Errorf("a schedule with min_replicas = %d: warnings %s", minimum, got)
		}
	}
}

// TestUtilizationOfLimit checks that each resource has its own base, and that a label can set it.
func TestUtilizationOfLimit(t *testing.T) {
	c, err := Parse("hpad.toml", []byte(`
[fleets.docker]
kind = "compose"
discover = true
[autoscalers.web]
target = { fleet = "docker", project = "shop", service = "web" }
max_replicas = 3
metrics = [
  { type = "Resource", resource = "cpu", average_utilization = 60, average_utilization_of = "limit" },
  { type = "Resource", resource = "cpu", average_value = "500m" },
  { type = "Resource", resource = "memory", average_utilization = 60 },
]`))
	if err != nil || len(c.Warnings()) > 0 {
		t.Fatal(err, c.Warnings())
	}
	labeled, _, err := c.Labeled(targets.Ref{Fleet: "docker", Name: "shop/api"}, map[string]string{
		"hpad.enable": "true", "hpad.max": "3", "hpad.metrics.0.type": "Resource", "hpad.metrics.0.resource": "memory",
		"hpad.metrics.0.average_utilization": "60", "hpad.metrics.0.average_utilization_of": "limit",
	})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, metric := range append(c.Autoscalers["web"].Spec.Metrics, labeled.Spec.Metrics...) {
		got = append(got, metric.Target.UtilizationOf)
	}
	if diff := cmp.Diff([]string{"limit", "", "", "limit"}, got); diff != "" {
		t.Errorf("bases (-want +got):\n%s", diff)
	}
}

func TestFixedCount(t *testing.T) {
	fixed := strings.Replace(doubtful[:strings.Index(doubtful, "metrics = [")], "max_replicas = 3", "max_replicas = 1", 1) +
		`metrics = [{ type = "External", name = "m", source = "prom", query = "sum(x)", average_value = 5 }]` + "\n"
	for schedules, want := range map[string]string{
		"": "[hpad.toml:11: autoscalers.worker.max_replicas = 1: equals min_replicas, so the count never changes: increase it, or use a schedule]",
		`schedules = [{ name = "day", zone = "UTC", from = "08:00", max_replicas = 3 }]`: "[]",
	} {
		c, err := Parse("hpad.toml", []byte(fixed+schedules))
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(c.Warnings()); got != want {
			t.Errorf("warnings %s, want %s", got, want)
		}
	}
}

// vain contains autoscalers that cannot work.
const vain = `
[fleets.local]
kind = "process"
[fleets.local.services]
bare      = { command = ["sleep", "1"] }
ported    = { command = ["sleep", "1"], ports = "9100-9104" }
requested = { command = ["sleep", "1"], requests = { cpu = "500m" } }
[fleets.vms]
kind   = "awsasg"
region = "eu-central-1"
[fleets.prod]
kind = "nomad"
[sources.prom]
kind = "prometheus"
url  = "http://127.0.0.1:9090"
[autoscalers.bare]
target       = { fleet = "local", service = "bare" }
max_replicas = 3
[autoscalers.ported]
target       = { fleet = "local", service = "ported", requests = { cpu = "1" } }
max_replicas = 6
metrics = [
  { type = "Resource", resource = "cpu", average_utilization = 60 },
  { type = "Resource", resource = "memory", average_value = "1Gi" },
  { type = "Resource", resource = "memory", average_utilization = 60 },
  { type = "ContainerResource", resource = "cpu", task = "ported", average_utilization = 60 },
]
[autoscalers.requested]
target       = { fleet = "local", service = "requested" }
max_replicas = 500
metrics = [
  { type = "Resource", resource = "cpu", average_utilization = 60 },
  { type = "ContainerResource", resource = "cpu", task = "requested", average_utilization = 60 },
]
[autoscalers.vms]
target       = { fleet = "vms", group = "web" }
max_replicas = 500
metrics = [{ type = "Resource", resource = "cpu", average_utilization = 60, source = "prom", query = "node_cpu", instance_label = "id", window = "1m" }]
[autoscalers.job]
target       = { fleet = "prod", job = "web", group = "app" }
max_replicas = 500
`

// TestUnworkable checks that a setting causes a warning if the autoscaler cannot work with it.
func TestUnworkable(t *testing.T) {
	if kind := omittedIn([]byte(vain)); kind != "" {
		t.Skipf("the kind %q is not part of this build", kind)
	}
	c, err := Parse("hpad.toml", []byte(vain))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, warning := range c.Warnings() {
		if !warning.Unworkable {
			t.Errorf("warning %v is not marked as unworkable", warning)
		}
		got = append(got, warning.Error())
	}
	const percentage = "is a percentage of the "
	want := []string{
		"hpad.toml:16: autoscalers.bare.metrics: by default, the target is cpu at 80%, which " + percentage + "cpu request of an instance, and no request is set: set it in [fleets.local.services.bare] or in the autoscaler's target",
		`hpad.toml:21: autoscalers.ported.max_replicas = 6: cannot be reached: must be at most 5, the number of ports of service "ported"`,
		"hpad.toml:25: autoscalers.ported.metrics[2].average_utilization = 60: " + percentage + "memory request of an instance, and no request is set: set it in [fleets.local.services.ported] or in the autoscaler's target",
		"hpad.toml:26: autoscalers.ported.metrics[3].average_utilization = 60: " + percentage + "cpu request of an instance, and no request is set: set it in [fleets.local.services.ported]",
		"hpad.toml:38: autoscalers.vms.metrics[0].average_utilization = 60: " + percentage + "cpu request of an instance, and no request is set: set it in the autoscaler's target",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
	a, enabled, err := c.Labeled(targets.Ref{Fleet: "vms", Name: "api"}, map[string]string{
		"hpad.enable": "true", "hpad.max": "5", "hpad.metrics.0.type": "Resource", "hpad.metrics.0.resource": "cpu", "hpad.metrics.0.average_utilization": "60",
		"hpad.metrics.0.source": "prom", "hpad.metrics.0.query": "node_cpu", "hpad.metrics.0.instance_label": "id", "hpad.metrics.0.window": "1m",
	})
	if err != nil || !enabled {
		t.Fatal(enabled, err)
	}
	if got, want := fmt.Sprint(a.Warnings), "[labels of vms/api: hpad.metrics.0.average_utilization = \"60\": "+percentage+"cpu request of an instance, and no request is set: set it in the label hpad.requests.cpu]"; got != want {
		t.Errorf("warnings of labels\n%s\nwant\n%s", got, want)
	}
}

// TestSelections checks that queries which are not PromQL are checked by their kind of source, and that
// the warnings about targets depend on the words in the query or in the name of the metric.
func TestSelections(t *testing.T) {
	source := map[string]string{
		"json":       "kind = \"http\"\nurl = \"http://127.0.0.1:80\"",
		"prometheus": "kind = \"exec\"\ncommand = [\"list\"]\nformat = \"prometheus\"",
		"number":     "kind = \"exec\"\ncommand = [\"list\"]",
	}
	for _, test := range []struct{ format, keys, want string }{
		{"json", `name = "m", query = "$.queue_totals.messages_ready", value = 5`, "value = 5: " + totalWarning},
		{"json", `name = "m", query = "$.queue['length']", average_value = 5, max_age = "1m"`, ""},
		{"json", `name = "m", query = "$.p95_latency", value = 5`, ""},
		{"json", `name = "jobs", query = "$[0]", value = 5`, "value = 5: " + totalWarning},
		{"json", `name = "m", query = "$.http.requests_total", average_value = 5`, `query = "$.http.requests_total": _http_requests_total is a counter, which never falls, and this source computes no rate`},
		{"json", `name = "m", query = "sum(queue)", value = 5`, `query = "sum(queue)": is not a JSONPath`},
		{"json", `name = "m", value = 5`, "query: is required: a JSONPath"},
		{"prometheus", `name = "m", query = "queue_length{queue='work'}", value = 5`, "value = 5: " + totalWarning},
		{"prometheus", `name = "m", query = "queue_length{queue='$queue'}", average_value = 5`, `query = "queue_length{queue='$queue'}": the matcher of label "queue" contains a variable`},
		{"prometheus", `name = "m", query = "sum(queue_length)", value = 5`, `query = "sum(queue_length)": must be a plain selector`},
		{"prometheus", `name = "m", value = 5`, "query: is required: a selector"},
		{"number", `name = "queue-depth", value = 5`, "value = 5: " + totalWarning},
		{"number", `name = "latency", value = 5`, ""},
		{"number", `name = "m", query = "$", value = 5`, `query = "$": must be omitted`},
	} {
		text := strings.Replace(doubtful[:strings.Index(doubtful, "metrics = [")], "kind = \"prometheus\"\nurl  = \"http://127.0.0.1:9090\"", source[test.format], 1)
		c, err := Parse("hpad.toml", []byte(text+`metrics = [{type = "External", source = "prom", `+test.keys+"}]"))
		found := []string{fmt.Sprint(err)}
		if err == nil {
			found = nil
			for _, warning := range c.Warnings() {
				found = append(found, warning.Error())
			}
		}
		got := strings.Join(found, "\n")
		if _, after, ok := strings.Cut(got, "autoscalers.worker.metrics[0]."); ok {
			got = after
		}
		if (test.want == "") != (got == "") || !strings.HasPrefix(got, test.want) {
			t.Errorf("%s, %s: %q, want %q", test.format, test.keys, got, test.want)
		}
	}
}
