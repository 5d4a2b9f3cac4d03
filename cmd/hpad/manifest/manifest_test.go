package manifest_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gotest.tools/v3/golden"

	"github.com/hpad/hpad/cmd/hpad/draft"
	"github.com/hpad/hpad/cmd/hpad/manifest"
	"github.com/hpad/hpad/cmd/hpad/origin"
	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/daemon/kinds"
	"github.com/hpad/hpad/policy"
)

// readAll reads a valid file in testdata.
func readAll(t *testing.T, file string) ([]manifest.Object, []origin.Skipped) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", file))
	if err != nil {
		t.Fatal(err)
	}
	objects, skipped, err := manifest.Read(file, text)
	if err != nil {
		t.Fatal(err)
	}
	return objects, skipped
}

func convert(objects []manifest.Object, choices origin.Choices) []*draft.Autoscaler {
	policies := make([]origin.Policy, len(objects))
	for i := range objects {
		policies[i] = &objects[i]
	}
	return origin.Convert(policies, choices)
}

// suggested matches a suggested key.
var suggested = regexp.MustCompile(`(?m)^# (query|instance_label|match|window) = `)

// fillIn completes converted autoscalers to a valid configuration: it adds a fleet with a service
// for each autoscaler, and accepts all suggestions.
func fillIn(conversions []*draft.Autoscaler) string {
	var page strings.Builder
	page.WriteString("[sources.prom]\nkind = \"prometheus\"\nurl = \"http://127.0.0.1:9090\"\n[fleets.local]\nkind = \"process\"\n")
	for i := range conversions {
		fmt.Fprintf(&page, "[fleets.local.services.s%d]\ncommand = [\"true\"]\n", i)
	}
	for i := range conversions {
		text := suggested.ReplaceAllString(conversions[i].TOML(), "$1 = ")
		text = strings.Replace(text, `{ fleet = "WHICH-FLEET" }`, fmt.Sprintf(`{ fleet = "local", service = "s%d" }`, i), 1)
		page.WriteString(strings.ReplaceAll(text, `"WHICH-SOURCE"`, `"prom"`) + "\n")
	}
	return page.String()
}

// TestUndecided checks that a configuration with placeholders instead of a fleet, sources and
// queries is invalid.
func TestUndecided(t *testing.T) {
	objects, _ := readAll(t, "all-fields.yaml")
	conversion := convert(objects, origin.Choices{})[0]
	_, err := config.Parse("web.toml", []byte("[fleets.local]\nkind = \"process\"\n[sources.prom]\nkind = \"prometheus\"\nurl = \"http://127.0.0.1:9090\"\n"+conversion.TOML()))
	for _, want := range []string{
		`autoscalers.web.target.fleet = "WHICH-FLEET": does not exist; the configuration defines local`,
		`autoscalers.web.metrics[4].query: is required with source`,
		`autoscalers.web.metrics[4].source = "WHICH-SOURCE": does not exist; the configuration defines prom`,
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if got := conversion.Decisions(); got != 6 { // the fleet and five queries
		t.Errorf("Decisions() = %d, want 6", got)
	}
}

// TestGolden compares conversions with golden files.
func TestGolden(t *testing.T) {
	for _, test := range []struct {
		file    string
		choices origin.Choices
	}{
		{"all-fields.yaml", origin.Choices{}},
		{"several.yaml", origin.Choices{Fleet: "prod", Kind: "nomad", Source: "prom"}},
		{"list.json", origin.Choices{Fleet: "aws", Kind: "awsasg"}},
	} {
		t.Run(test.file, func(t *testing.T) {
			if kinds.Omitted()[test.choices.Kind] != "" {
				t.Skip("the kind is not part of this build")
			}
			objects, _ := readAll(t, test.file)
			var got []string
			for _, conversion := range convert(objects, test.choices) {
				got = append(got, conversion.TOML())
			}
			name := strings.TrimSuffix(test.file, filepath.Ext(test.file)) + ".toml"
			golden.Assert(t, strings.Join(got, "\n"), filepath.Join("golden", name))
		})
	}
}

// TestSpec compares the specs of converted manifests with hand-written specs, to which upstream's
// conversions and defaults were applied by hand.
func TestSpec(t *testing.T) {
	average := func(milli int64) policy.MetricTarget {
		return policy.MetricTarget{Type: policy.AverageValueTarget, AverageValueMilli: &milli}
	}
	value := func(milli int64) policy.MetricTarget {
		return policy.MetricTarget{Type: policy.ValueTarget, ValueMilli: &milli}
	}
	percent := func(percent int32) policy.MetricTarget {
		return policy.MetricTarget{Type: policy.UtilizationTarget, AverageUtilization: &percent}
	}
	cpu := func(n int32) policy.MetricSpec {
		return policy.MetricSpec{Type: policy.ResourceMetric, Name: "cpu", Target: percent(n)}
	}
	defaultUp := &policy.ScalingRules{
		StabilizationWindowSeconds: new(int32(0)), SelectPolicy: policy.MaxChange,
		Policies: []policy.ScalingPolicy{{Type: policy.InstancesPolicy, Value: 4, PeriodSeconds: 15}, {Type: policy.PercentPolicy, Value: 100, PeriodSeconds: 15}},
	}
	defaultDown := func(tolerance *float64) *policy.ScalingRules {
		return &policy.ScalingRules{SelectPolicy: policy.MaxChange, Tolerance: tolerance, Policies: []policy.ScalingPolicy{{Type: policy.PercentPolicy, Value: 100, PeriodSeconds: 15}}}
	}
	both := average(500)
	both.ValueMilli = new(int64(10_000_000))
	memory := average(3 << 29 * 1000)
	memory.Binary = true
	want := map[string]policy.Spec{
		"web": {
			MinReplicas: new(int32(0)), MaxReplicas: 40,
			Metrics: []policy.MetricSpec{
				cpu(60),
				{Type: policy.ResourceMetric, Name: "memory", Target: memory},
				{Type: policy.ContainerResourceMetric, Name: "cpu", Task: "app", Target: average(300)},
				{Type: policy.ContainerResourceMetric, Name: "memory", Task: "app", Target: percent(75)},
				{Type: policy.InstancesMetric, Name: "http_requests_per_second", Target: average(100_000)},
				{Type: policy.ObjectMetric, Name: "requests", Object: "Ingress/main-route", Target: value(2_000_000)},
				{Type: policy.ObjectMetric, Name: "requests_total", Object: "Service/web", Target: both},
				{Type: policy.ExternalMetric, Name: "pubsub.googleapis.com|subscription|num_undelivered_messages", Target: average(30_000)},
				{Type: policy.ExternalMetric, Name: "queue_messages_ready", Target: value(1_000_000)},
			},
			Behavior: &policy.Behavior{
				ScaleUp: &policy.ScalingRules{
					StabilizationWindowSeconds: new(int32(0)), SelectPolicy: policy.MinChange, Tolerance: new(0.05),
					Policies: []policy.ScalingPolicy{{Type: policy.InstancesPolicy, Value: 4, PeriodSeconds: 60}, {Type: policy.PercentPolicy, Value: 200, PeriodSeconds: 90}},
				},
				ScaleDown: &policy.ScalingRules{
					StabilizationWindowSeconds: new(int32(3600)), SelectPolicy: policy.DisabledChange, Tolerance: new(0.0),
					Policies: []policy.ScalingPolicy{{Type: policy.PercentPolicy, Value: 10, PeriodSeconds: 1800}},
				},
			},
		},
		"checkout":     {MinReplicas: new(int32(2)), MaxReplicas: 10, Metrics: []policy.MetricSpec{cpu(70)}},
		"mail/mailer":  {MinReplicas: new(int32(1)), MaxReplicas: 5, Metrics: []policy.MetricSpec{cpu(80)}, Behavior: &policy.Behavior{ScaleUp: defaultUp, ScaleDown: defaultDown(new(0.2))}},
		"plain":        {MinReplicas: new(int32(1)), MaxReplicas: 3, Metrics: []policy.MetricSpec{cpu(80)}},
		"other/mailer": {MinReplicas: new(int32(1)), MaxReplicas: 4, Metrics: []policy.MetricSpec{cpu(80)}, Behavior: &policy.Behavior{ScaleUp: defaultUp, ScaleDown: defaultDown(nil)}},
		"Old_Name":     {MinReplicas: new(int32(1)), MaxReplicas: 4, Metrics: []policy.MetricSpec{cpu(55)}},
		"":             {MinReplicas: new(int32(1)), MaxReplicas: 2, Metrics: []policy.MetricSpec{cpu(80)}, Behavior: &policy.Behavior{ScaleUp: defaultUp, ScaleDown: defaultDown(nil)}},
	}
	for _, file := range []string{"all-fields.yaml", "several.yaml"} {
		objects, _ := readAll(t, file)
		conversions := convert(objects, origin.Choices{})
		text := fillIn(conversions)
		c, err := config.Parse(file, []byte(text))
		if err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
		for i := range conversions {
			name := objects[i].Name
			if want[name].MaxReplicas == 0 {
				name = objects[i].Namespace + "/" + name
			}
			if diff := cmp.Diff(want[name], c.Autoscalers[conversions[i].Name].Spec); diff != "" {
				t.Errorf("%s: %s (-want +got):\n%s", file, name, diff)
			}
			delete(want, name)
		}
	}
	if len(want) > 0 {
		t.Errorf("missing autoscalers: %v", want)
	}
}

// TestAdapters compares HPAs whose queries are in annotations of kube-metrics-adapter and in rules of
// prometheus-adapter with a golden file.
func TestAdapters(t *testing.T) {
	objects, skipped := readAll(t, "adapters.yaml")
	if len(skipped) > 0 {
		t.Errorf("skipped %v", skipped)
	}
	conversions := convert(objects, origin.Choices{})
	var page strings.Builder
	for _, a := range conversions {
		page.WriteString(a.TOML() + "\n")
	}
	golden.Assert(t, page.String(), "golden/adapters.toml")
	text := fillIn(conversions)
	if _, err := config.Parse("adapters.toml", []byte(text)); err != nil {
		t.Errorf("%v in\n%s", err, text)
	}
}

func TestSkipped(t *testing.T) {
	_, skipped := readAll(t, "several.yaml")
	want := []origin.Skipped{{File: "several.yaml", Line: 1, What: "Deployment checkout"}, {File: "several.yaml", Line: 50, What: "Service mailer"}}
	if diff := cmp.Diff(want, skipped); diff != "" {
		t.Errorf("skipped (-want +got):\n%s", diff)
	}
}

func TestNames(t *testing.T) {
	objects, _ := readAll(t, "several.yaml")
	var names []string
	for _, conversion := range convert(append(objects, objects...), origin.Choices{}) {
		names = append(names, conversion.Name)
	}
	want := []string{
		"checkout", "mailer", "plain", "other-mailer", "old-name", "mailer-2",
		"checkout-2", "mail-mailer", "plain-2", "other-mailer-2", "old-name-2", "mailer-3",
	}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
}

// header is the beginning of an autoscaling/v2 manifest. Its spec is on line 4.
const header = "apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata: { name: web }\nspec:\n  scaleTargetRef: { kind: Deployment, name: web }\n"

func TestErrors(t *testing.T) {
	for _, test := range []struct {
		name, text string
		want       []string
	}{
		{"unknown fields", header + "  maxReplicas: 3\n  minReplica: 2\n  metrics:\n    - type: Resource\n      resource:\n        name: cpu\n        target:\n          type: Utilization\n          averageUtilisation: 3\n", []string{
			`f:7: HorizontalPodAutoscaler web: unknown field "spec.minReplica"`,
			`f:14: HorizontalPodAutoscaler web: unknown field "spec.metrics[0].resource.target.averageUtilisation"`,
		}},
		{"unknown field beside spec", header + "  maxReplicas: 3\nspecs: {}\n", []string{`f:7: HorizontalPodAutoscaler web: unknown field "specs"`}},
		{"quantity", header + "  maxReplicas: 3\n  metrics:\n    - type: Resource\n      resource:\n        name: memory\n        target: { type: AverageValue, averageValue: 400Mib }\n", []string{`f:11: HorizontalPodAutoscaler web: spec.metrics[0].resource.target.averageValue: "400Mib" is not a quantity`}},
		{"quantity of a tolerance", header + "  maxReplicas: 3\n  behavior:\n    scaleUp: { tolerance: 5% }\n", []string{`f:8: HorizontalPodAutoscaler web: spec.behavior.scaleUp.tolerance: "5%" is not a quantity`}},
		{"utilization", header + "  maxReplicas: 3\n  metrics:\n    - { type: Resource, resource: { name: cpu, target: { type: Utilization, averageUtilization: 60% } } }\n", []string{`f:8: HorizontalPodAutoscaler web: spec.metrics[0].resource.target.averageUtilization: must be int32, not the string 60%`}},
		{"sequence as a quantity", header + "  maxReplicas: 3\n  metrics:\n    - { type: Resource, resource: { name: memory, target: { type: AverageValue,\n      averageValue: [5] } } }\n", []string{`f:9: HorizontalPodAutoscaler web: spec.metrics[0].resource.target.averageValue: must be a quantity, not a sequence`}},
		{"mapping as a quantity", header + "  maxReplicas: 3\n  behavior: { scaleUp: { tolerance: { a: b } } }\n", []string{`f:7: HorizontalPodAutoscaler web: spec.behavior.scaleUp.tolerance: must be a quantity, not a mapping`}},
		{"fraction", header + "  maxReplicas: 2.5\n", []string{`f:6: HorizontalPodAutoscaler web: spec.maxReplicas: must be int32, not the number 2.5`}},
		{"large number", header + "  maxReplicas: 99999999999\n", []string{`f:6: HorizontalPodAutoscaler web: spec.maxReplicas: must be int32, not number 99999999999`}},
		{"sequence as a number", header + "  maxReplicas: [3]\n", []string{`f:6: HorizontalPodAutoscaler web: spec.maxReplicas: must be int32, not array`}},
		{"another type", header + "  maxReplicas: many\n", []string{`f:6: HorizontalPodAutoscaler web: spec.maxReplicas: must be int32, not the string many`}},
		{"a bad quantity", header + "  maxReplicas: 3\n  metrics: [{ type: External, external: { metric: { name: q }, target: { type: Value, value: 3 apples } } }]\n", []string{`f:7: HorizontalPodAutoscaler web: spec.metrics[0].external.target.value: "3 apples" is not a quantity`}},
		{"no part", header + "  maxReplicas: 3\n  metrics:\n    - type: Resource\n", []string{`f:8: HorizontalPodAutoscaler web: spec.metrics[0].resource is required for a metric of type Resource`}},
		{"another part", header + "  maxReplicas: 3\n  metrics:\n    - type: Resource\n      resource: { name: cpu, target: { type: Utilization, averageUtilization: 3 } }\n      containerResource: { name: cpu, container: a, target: { type: Utilization, averageUtilization: 3 } }\n", []string{`f:10: HorizontalPodAutoscaler web: spec.metrics[0].containerResource must not be set for a metric of type Resource`}},
		{"no target", "apiVersion: autoscaling/v1\nkind: HorizontalPodAutoscaler\nspec:\n  maxReplicas: 2\n", []string{`f:3: HorizontalPodAutoscaler: spec.scaleTargetRef needs a kind and a name`}},
		{"no spec", "apiVersion: autoscaling/v1\nkind: HorizontalPodAutoscaler\n", []string{`f:1: HorizontalPodAutoscaler: has no spec`}},
		{"another version", strings.Replace(header, "/v2", "/v3", 1), []string{`f:1: HorizontalPodAutoscaler web: apiVersion "autoscaling/v3" cannot be converted, only autoscaling/v2 and v1`}},
		{"annotation of v1", "apiVersion: autoscaling/v1\nkind: HorizontalPodAutoscaler\nmetadata:\n  annotations:\n    autoscaling.alpha.kubernetes.io/metrics: '[]'\nspec: { maxReplicas: 2, scaleTargetRef: { kind: Deployment, name: web } }\n", []string{
			`f:5: HorizontalPodAutoscaler: annotation autoscaling.alpha.kubernetes.io/metrics cannot be converted: convert the object in the version autoscaling/v2`,
		}},
		{"another group", strings.Replace(header, "autoscaling/v2", "extensions/v1beta1", 1), []string{`HorizontalPodAutoscaler web: apiVersion "extensions/v1beta1" cannot be converted`}},
		{"a field of another version", strings.Replace(header, "/v2", "/v1", 1) + "  maxReplicas: 2\n  behavior: {}\n", []string{`f:7: HorizontalPodAutoscaler web: unknown field "spec.behavior"`}},
		{"no YAML", "a: b\n  c: [\n", []string{`f:2: not valid YAML: mapping values are not allowed in this context`}},
		{"a template", "a: {{ .Values.x }}\n", []string{"with helm template"}},
		{"twice the same key", header + "  maxReplicas: 3\n  maxReplicas: 4\n", []string{`f:7: not valid YAML: mapping key "maxReplicas" already defined at line 6`}},
		{"no manifest", "- a\n- b\n---\nkind: 3\n---\njust: this\n", []string{"f:1: is not a manifest", "f:4: kind: must be string, not the number 3", "f:6: is not a manifest: it has no kind"}},
		{"a list without items", "apiVersion: v1\nkind: List\n", []string{"f:1: List: the list has no items"}},
		{"not a number", header + "  maxReplicas: .nan\n", []string{"f:1: cannot be converted to JSON"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			objects, _, err := manifest.Read("f", []byte(test.text))
			if len(objects) > 0 || err == nil {
				t.Fatalf("got %d objects, error %v; want only errors", len(objects), err)
			}
			var found *origin.Error
			if !errors.As(err, &found) {
				t.Errorf("got an error of type %T, want *origin.Error", err)
			}
			if lines := strings.Count(err.Error(), "\n") + 1; lines != len(test.want) {
				t.Errorf("%d errors, want %d", lines, len(test.want))
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error\n%v\nwant %s", err, want)
				}
			}
		})
	}
}

// TestOtherDocuments checks that an error in one document does not affect others.
func TestOtherDocuments(t *testing.T) {
	text := header + "  maxReplicas: 3\n---\n" + header + "  maxReplica: 1\n---\n" + header + "  maxReplicas: 4\n"
	objects, _, err := manifest.Read("f", []byte(text))
	if err == nil || len(objects) != 2 || objects[1].Spec.MaxReplicas != 4 {
		t.Errorf("got %d objects, error %v; want 2 and an error", len(objects), err)
	}
	if objects, skipped, err := manifest.Read("f", []byte("---\n# nothing\n---\nnull\n")); len(objects)+len(skipped) > 0 || err != nil {
		t.Errorf("Read of empty documents = %v, %v, %v", objects, skipped, err)
	}
}

// TestTargets checks the suggested target for each kind of fleet.
func TestTargets(t *testing.T) {
	objects, _ := readAll(t, "list.json")
	for kind, want := range map[string]string{
		"nomad":     `{ fleet = "f", job = "api", group = "api" }`,
		"compose":   `{ fleet = "f", project = "shop", service = "api" }`,
		"swarm":     `{ fleet = "f", service = "api" }`,
		"process":   `{ fleet = "f", service = "api" }`,
		"awsasg":    `{ fleet = "f", group = "api" }`,
		"gcemig":    `{ fleet = "f", group = "api" }`,
		"azurevmss": `{ fleet = "f", resource_group = "shop", scale_set = "api" }`,
		"systemd":   `{ fleet = "f", template = "api@.service" }`,
	} {
		if kinds.Omitted()[kind] != "" {
			continue
		}
		got := convert(objects, origin.Choices{Fleet: "f", Kind: kind})[0]
		// A decision is needed only if the fleet does not measure cpu.
		if !strings.Contains(got.TOML(), want) || (got.Decisions() == 0) != kinds.Fleets[kind].Samples {
			t.Errorf("kind %s: %d decisions, want %s in\n%s", kind, got.Decisions(), want, got.TOML())
		}
	}
}

// FuzzRead checks that Read does not panic, that errors have a position, and that conversions
// produce valid TOML.
func FuzzRead(f *testing.F) {
	for _, file := range []string{"all-fields.yaml", "several.yaml", "list.json", "keda/scaledobjects.yaml"} {
		text, err := os.ReadFile(filepath.Join("testdata", file))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Add([]byte("a: &a [*a]"))
	f.Add([]byte("x: &x { kind: HorizontalPodAutoscaler, apiVersion: autoscaling/v2 }\n<<: *x\nspec: { <<: *x }\n"))
	f.Add([]byte(header + "  <<: *x"))
	f.Fuzz(func(t *testing.T, text []byte) {
		objects, _, err := manifest.Read("f", text)
		if err != nil && !strings.HasPrefix(err.Error(), "f:") {
			t.Errorf("error %q has no position", err)
		}
		for _, conversion := range convert(objects, origin.Choices{}) {
			if _, err := config.Parse("f.toml", []byte(conversion.TOML())); err == nil || !strings.Contains(err.Error(), "WHICH-FLEET") {
				t.Errorf("%v of\n%s", err, conversion.TOML())
			}
		}
	})
}
