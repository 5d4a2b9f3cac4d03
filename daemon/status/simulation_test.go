package status_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/daemon/status"
)

// TestPoliciesOf checks the policies of variants, and that a variant cannot change the origin of recorded
// values.
func TestPoliciesOf(t *testing.T) {
	c, err := config.Parse("hpad.toml", []byte(`
[fleets.local]
kind = "process"
services.web = { command = ["sleep", "1h"] }
[sources.prom]
kind = "prometheus"
url = "http://127.0.0.1:9090"
[sources.other]
kind = "prometheus"
url = "http://127.0.0.1:9091"
[autoscalers.web]
target = { fleet = "local", service = "web" }
max_replicas = 10
[[autoscalers.web.metrics]]
type = "External"
name = "queue"
source = "prom"
query = "queue_length"
average_value = 100
`))
	if err != nil {
		t.Fatal(err)
	}
	web := c.Autoscalers["web"]
	policies, err := status.PoliciesOf(c, web, []config.Variant{{Set: []string{"max_replicas=30", "metrics[0].average_value=60"}}})
	if err != nil || len(policies) != 2 || policies[0].Label != "active" || policies[1].Label != "max_replicas=30 metrics[0].average_value=60" ||
		policies[0].Spec.MaxReplicas != 10 || policies[1].Spec.MaxReplicas != 30 || policies[1].Queries[0] != "queue_length" {
		t.Errorf("policies = %+v, %v", policies, err)
	}
	for set, want := range map[string]string{
		"max_replica=3":                     `variant "max_replica=3": autoscalers.web.max_replica: unknown key; did you mean "max_replicas"?`,
		"metrics[0].query=other":            `metrics[0]: cannot have another type, source, query or selection than the active metric "queue"`,
		"metrics[0].source=other":           `metrics[0]: cannot have another type, source, query or selection than the active metric "queue"`,
		`metrics[0].select={queue="mails"}`: `metrics[0]: cannot have another type, source, query or selection than the active metric "queue"`,
	} {
		_, err := status.PoliciesOf(c, web, []config.Variant{{}, {Set: []string{set}}})
		if _, invalid := errors.AsType[config.Errors](err); !invalid || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", set, err, want)
		}
	}
}
