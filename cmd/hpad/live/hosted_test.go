package live

import (
	"context"
	"errors"
	"iter"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets/process"
)

// running is a daemon with one autoscaler. If the autoscaler has no name, the daemon cannot be
// reached.
type running api.Autoscaler

func (r running) EachBriefly(context.Context) iter.Seq2[api.Autoscaler, error] {
	return func(yield func(api.Autoscaler, error) bool) {
		if r.Name == "" {
			yield(api.Autoscaler{}, errors.New("there is no such socket"))
			return
		}
		yield(api.Autoscaler(r), nil)
	}
}

// TestHosted checks that the counts of processes that hpad starts are read from the running daemon.
func TestHosted(t *testing.T) {
	c, err := config.Parse("hpad.toml", []byte(`
[fleets.local]
kind = "process"
[fleets.local.services.worker]
command  = ["sh", "-c", "exit 3"]
replicas = 3
[sources.prom]
kind = "prometheus"
url  = "http://127.0.0.1:1"
[autoscalers.worker]
target       = { fleet = "local", service = "worker" }
max_replicas = 5
metrics = [{ type = "External", name = "queue", source = "prom", query = "q", average_value = "3" }]
`))
	if err != nil {
		t.Fatal(err)
	}
	condition := func(of policy.ConditionType, is policy.ConditionStatus) policy.Condition {
		return policy.Condition{Type: of, Status: is, Reason: "CrashLoop", Message: "it ends with status 3"}
	}
	known := api.Autoscaler{Name: "worker", Reference: "local/worker", Status: policy.Status{CurrentReplicas: 2}}
	failing, well, other := known, known, known
	failing.Status.Conditions = []policy.Condition{condition(policy.AbleToScale, policy.ConditionTrue), condition(process.ProcessesFailing, policy.ConditionTrue)}
	well.Status.Conditions = []policy.Condition{condition(process.ProcessesFailing, policy.ConditionFalse)}
	other.Reference = "local/another"
	const key = "autoscalers.worker.target"
	begins := []Finding{{Key: key, Text: "local/worker: starts with 3 replicas; no running hpad has it"}}
	for name, test := range map[string]struct {
		running Running
		want    []Finding
	}{
		"no hpad":        {nil, begins},
		"not reachable":  {running{}, begins},
		"another target": {running(other), begins},
		"well":           {running(well), []Finding{{Key: key, Text: "local/worker: 2 replicas in the running hpad"}}},
		"crash loop": {running(failing), []Finding{
			{Key: key, Text: "local/worker: 2 replicas in the running hpad"},
			{Key: key, Text: "local/worker: ProcessesFailing, CrashLoop: it ends with status 3", Problem: true},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []Finding
			for _, finding := range Check(t.Context(), c, test.running) {
				if finding.Key == key {
					got = append(got, finding)
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
		})
	}
}
