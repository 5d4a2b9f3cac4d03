package manifest_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/golden"

	"github.com/hpad/hpad/cmd/hpad/manifest"
	"github.com/hpad/hpad/cmd/hpad/origin"
	"github.com/hpad/hpad/daemon/config"
)

// TestScaledObjects compares converted ScaledObjects with a golden file, and checks that they are
// valid configurations.
func TestScaledObjects(t *testing.T) {
	objects, skipped := readAll(t, "keda/scaledobjects.yaml")
	if len(skipped) > 0 {
		t.Errorf("skipped %v", skipped)
	}
	conversions := convert(objects, origin.Choices{})
	var got []string
	for i := range conversions {
		got = append(got, conversions[i].TOML())
	}
	golden.Assert(t, strings.Join(got, "\n"), "golden/keda.toml")
	text := fillIn(conversions)
	if _, err := config.Parse("keda.toml", []byte(text)); err != nil {
		t.Errorf("%v in\n%s", err, text)
	}
	for _, conversion := range convert(objects, origin.Choices{Fleet: "f", Kind: "nomad", Source: "prom"}) {
		if n := conversion.Decisions(); n != 0 {
			t.Errorf("%s: %d decisions with a fleet and a source", conversion.Name, n)
		}
	}
}

func TestInvalidScaledObjects(t *testing.T) {
	const form = "apiVersion: keda.sh/v1alpha1\nkind: ScaledObject\nmetadata: { name: web, namespace: shop }\nspec:\n  scaleTargetRef: { name: web }\n"
	const trigger = "  triggers:\n    - { type: prometheus, metadata: { query: %s, threshold: %s } }\n"
	good := fmt.Sprintf(trigger, "up", `"3"`)
	for _, test := range []struct{ name, text, want string }{
		{"threshold", fmt.Sprintf(trigger, "up", "3x"), `f:7: ScaledObject shop/web: spec.triggers[0].metadata.threshold: "3x" is not a quantity`},
		{"threshold of 0", fmt.Sprintf(trigger, "up", `"0"`), `f:7: ScaledObject shop/web: spec.triggers[0].metadata.threshold: "0" must be greater than 0`},
		{"threshold as a number", fmt.Sprintf(trigger, "up", "3"), `f:7: ScaledObject shop/web: spec.triggers[0].metadata.threshold: must be string, not the number 3: write it in quotes, "3"`},
		{"threshold with decimals", fmt.Sprintf(trigger, "up", "12.5"), `f:7: ScaledObject shop/web: spec.triggers[0].metadata.threshold: must be string, not the number 12.5: write it in quotes, "12.5"`},
		{"type of prometheus", "  triggers:\n    - { type: prometheus, metricType: Utilization, metadata: { query: up, threshold: \"3\" } }\n", `f:7: ScaledObject shop/web: spec.triggers[0].metricType: must be AverageValue or Value for a prometheus trigger, not "Utilization"`},
		{"type of cpu", "  triggers:\n    - { type: cpu, metadata: { value: \"60\" } }\n", `f:7: ScaledObject shop/web: spec.triggers[0].metricType: must be AverageValue or Utilization for a cpu trigger, not ""`},
		{"flag as a bool", "  triggers:\n    - { type: cpu, metricType: Utilization, metadata: { value: \"60\" } }\n    - type: prometheus\n      metadata:\n        query: up\n        ignoreNullValues: true\n", `f:11: ScaledObject shop/web: spec.triggers[1].metadata.ignoreNullValues: must be string, not the bool true: write it in quotes, "true"`},
		{"replicas of cron", "  triggers:\n    - { type: cron, metadata: { timezone: UTC, start: 0 8 * * *, end: 0 18 * * *, desiredReplicas: many } }\n", `f:7: ScaledObject shop/web: spec.triggers[0].metadata.desiredReplicas: must be a number of replicas, not "many"`},
		{"activation", "  triggers:\n    - { type: kafka, metadata: { lagThreshold: \"3\", activationLagThreshold: some } }\n", `f:7: ScaledObject shop/web: spec.triggers[0].metadata.activationLagThreshold: "some" is not a quantity`},
		{"no query", fmt.Sprintf(trigger, `""`, `"3"`), `f:7: ScaledObject shop/web: spec.triggers[0].metadata.query: is required`},
		{"no trigger", "  triggers: []\n", `f:6: ScaledObject shop/web: spec.triggers: is required`},
		{"version", "", `f:1: ScaledObject shop/web: apiVersion "keda.sh/v2": must be keda.sh/v1alpha1`},
	} {
		text := form + test.text
		if test.text == "" {
			text = strings.Replace(form+good, "v1alpha1", "v2", 1)
		}
		objects, _, err := manifest.Read("f", []byte(text))
		if len(objects) > 0 || err == nil || !strings.HasPrefix(err.Error(), test.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: got %d objects, error\n%v\nwant\n%s", test.name, len(objects), err, test.want)
		}
	}
}

// TestPaused checks that a paused ScaledObject does not become an active autoscaler.
func TestPaused(t *testing.T) {
	for annotations, want := range map[string]string{
		``:                                         "",
		`kubectl.kubernetes.io/x: "true"`:          "",
		`autoscaling.keda.sh/paused: "true"`:       "off",
		`autoscaling.keda.sh/paused: ""`:           "off",
		`autoscaling.keda.sh/paused: "false"`:      "",
		`autoscaling.keda.sh/paused-replicas: "3"`: "off",
		`{ autoscaling.keda.sh/paused: "false", autoscaling.keda.sh/paused-replicas: "0" }`:             "off",
		`{ autoscaling.keda.sh/paused: "true", autoscaling.keda.sh/paused-replicas: "0" }`:              "off",
		`autoscaling.keda.sh/paused-scale-in: "true"`:                                                   "up-only",
		`autoscaling.keda.sh/paused-scale-out: "true"`:                                                  "down-only",
		`{ autoscaling.keda.sh/paused-scale-in: "true", autoscaling.keda.sh/paused-scale-out: "true" }`: "off",
		`autoscaling.keda.sh/paused-scale-out: "false"`:                                                 "",
	} {
		if !strings.HasPrefix(annotations, "{") {
			annotations = "{ " + annotations + " }"
		}
		objects, _, err := manifest.Read("f", []byte("apiVersion: keda.sh/v1alpha1\nkind: ScaledObject\nmetadata: { name: web, annotations: "+annotations+" }\nspec:\n"+
			"  scaleTargetRef: { name: web }\n  triggers:\n    - { type: prometheus, metadata: { query: up, threshold: \"3\" } }\n"))
		if err != nil {
			t.Fatal(annotations, err)
		}
		conversions := convert(objects, origin.Choices{})
		c, err := config.Parse("keda.toml", []byte(fillIn(conversions)))
		if err != nil {
			t.Fatal(annotations, err)
		}
		mode, text := conversions[0].Mode, conversions[0].TOML()
		if active := c.Autoscalers["web"].Mode; mode != want || string(active) != want || strings.Contains(text, "# Paused in Kubernetes by autoscaling.keda.sh/paused") != (want != "") {
			t.Errorf("%s: mode %q, active %q, want %q in\n%s", annotations, mode, active, want, text)
		}
	}
}

// TestPollingInterval checks that the polling interval becomes the period of the autoscaler only if it
// determines when KEDA reads the metrics.
func TestPollingInterval(t *testing.T) {
	const live, cached = `{ type: prometheus, metadata: { query: up, threshold: "3" } }`, `{ type: kafka, useCachedMetrics: true, metadata: { lagThreshold: "3" } }`
	for _, test := range []struct {
		spec, triggers string
		period         time.Duration
		note           string
	}{
		{"", live, 0, ""},
		{"pollingInterval: 60", live, 0, "Not converted: pollingInterval = 60"},
		{"pollingInterval: 5", live, 5 * time.Second, ""},
		{"pollingInterval: 5, minReplicaCount: 1", live, 0, "Not converted: pollingInterval = 5"},
		{"pollingInterval: 5, minReplicaCount: 2, idleReplicaCount: 1", live, 5 * time.Second, ""},
		{"pollingInterval: 60, minReplicaCount: 1", cached, time.Minute, ""},
		{"", cached, 30 * time.Second, ""},
		{"pollingInterval: 60", cached + ", " + live, 0, "spec.triggers[0].useCachedMetrics"},
		{"pollingInterval: 60", `{ type: cron, metadata: { timezone: UTC, start: 0 8 * * *, end: 0 18 * * *, desiredReplicas: "3" } }`, 0, "Not converted: pollingInterval = 60"},
	} {
		objects, _, err := manifest.Read("f", fmt.Appendf(nil, "apiVersion: keda.sh/v1alpha1\nkind: ScaledObject\nmetadata: { name: web }\n"+
			"spec: { scaleTargetRef: { name: web }, triggers: [%s], %s }\n", test.triggers, test.spec))
		if err != nil {
			t.Fatal(test, err)
		}
		a := convert(objects, origin.Choices{})[0]
		if notes := strings.Join(a.Notes, "\n"); a.SyncPeriod != test.period || !strings.Contains(notes, test.note) || strings.Contains(notes, "Not converted") != (test.note != "") {
			t.Errorf("%+v: sync period %s, notes %s", test, a.SyncPeriod, notes)
		}
	}
}

// TestMadeByKEDA checks that the conversion of an HPA that KEDA created advises the user to
// convert the ScaledObject instead, because the HPA does not contain the queries of its metrics.
func TestMadeByKEDA(t *testing.T) {
	const labeled, selected = `, labels: { scaledobject.keda.sh/name: web }`, `, selector: { matchLabels: { scaledobject.keda.sh/name: web } }`
	for _, test := range []struct{ metric, labels, selector, remedy string }{
		{"s12-prometheus-http_requests", labeled, "", `convert ScaledObject "web" instead`},
		{"s1-prometheus", "", selected, `convert ScaledObject "web" instead`},
		{"queue_length", "", "", ""},
	} {
		text := fmt.Sprintf("apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata: { name: keda-hpa-web%s }\nspec:\n"+
			"  scaleTargetRef: { kind: Deployment, name: web }\n  maxReplicas: 3\n  metrics:\n"+
			"    - type: Resource\n      resource: { name: cpu, target: { type: Utilization, averageUtilization: 60 } }\n"+
			"    - type: External\n      external:\n        metric: { name: %s%s }\n        target: { type: AverageValue, averageValue: \"100\" }\n", test.labels, test.metric, test.selector)
		objects, _, err := manifest.Read("f", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		conversion := convert(objects, origin.Choices{Fleet: "f", Kind: "nomad", Source: "prom"})[0]
		metric := conversion.Metrics[1]
		trigger, ok := objects[0].Triggers[1]
		if ok != (test.remedy != "") || !strings.HasPrefix(trigger.Remedy, test.remedy) {
			t.Errorf("%s: trigger %+v, want the remedy %s", test.metric, trigger, test.remedy)
		}
		decides := slices.ContainsFunc(metric.Notes, func(note string) bool { return note == "DECIDE: the query: "+trigger.Remedy+"." })
		if decides != ok || ok == (len(metric.Suggested) > 0) || metric.AverageValue != "100" || conversion.Decisions() != 1 {
			t.Errorf("%s: %+v", test.metric, metric)
		}
	}
}

// TestTriggers compares converted ScaledObjects with triggers of many types, windows and a formula
// with a golden file. With the queries, and without the formula's open decisions, they are valid.
func TestTriggers(t *testing.T) {
	objects, _ := readAll(t, "keda/triggers.yaml")
	conversions := convert(objects, origin.Choices{})
	var got []string
	for i := range conversions {
		got = append(got, conversions[i].TOML())
	}
	golden.Assert(t, strings.Join(got, "\n"), "golden/keda-triggers.toml")
	text := strings.Replace(fillIn(conversions), `"s2-datadog"`, `"s2-datadog"`+"\n"+`query = "up"`, 1)
	if _, err := config.Parse("keda.toml", []byte(text)); err != nil {
		t.Errorf("%v in\n%s", err, text)
	}
}
