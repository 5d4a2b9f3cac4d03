package api_test

import (
	"errors"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/api/apitest"
	"github.com/hpad/hpad/policy"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// twoAutoscalers returns a daemon with two autoscalers: "checkout" has a decision and an event,
// and "käse/1" has neither. The latter name must be escaped in paths.
func twoAutoscalers() *apitest.Daemon {
	return &apitest.Daemon{
		List: []api.Autoscaler{
			{
				Name: "checkout", Reference: "prod/checkout/api", Kind: "nomad", Created: noon.Add(-time.Hour),
				Spec:              policy.Spec{MaxReplicas: 40},
				Status:            policy.Status{CurrentReplicas: 5, DesiredReplicas: 7},
				SyncPeriodSeconds: 15,
				Evaluation:        api.Evaluation{Last: noon, Next: noon.Add(15 * time.Second), DurationSeconds: 0.1},
				Decision:          &policy.Decision{Time: noon, Case: policy.CaseMetrics, CurrentReplicas: 5, DesiredReplicas: 7, Write: true},
				Inputs:            []api.Input{{Source: "prom", Query: "up"}},
				Events: []api.Event{{
					Event: policy.Event{Kind: policy.NormalEvent, Reason: "SuccessfulRescale", Message: "New size: 7"},
					Count: 1, First: noon, Last: noon,
				}},
			},
			{Name: "käse/1", Reference: "local/käse", Kind: "process", SyncPeriodSeconds: 15},
		},
		Alive: api.Health{Healthy: true, LastTick: noon},
		State: api.Readiness{Ready: true},
		TOML:  "[daemon]\nlisten = \"127.0.0.1:4720\"\n",
	}
}

var errBadConfig = errors.New("/etc/hpad/hpad.toml:3: autoscalers.checkout.max_replicas = 0: must be at least 1")

// asShown makes cmp ignore the fields of decisions that the API does not return.
var asShown = cmpopts.IgnoreUnexported(policy.Decision{})
