package daemon

import (
	"slices"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/trouble"
	"github.com/hpad/hpad/policy"
)

// countInstances counts instances by their state.
func countInstances(instances []policy.Instance) (n api.Instances) {
	for i := range instances {
		instance := &instances[i]
		n.Add(instance.Phase.String(), instance.Readiness.String(), instance.Deleting)
	}
	return n
}

// withRequests states the configured requests for instances whose fleet states
// none (R29).
func withRequests(instances []policy.Instance, requests []policy.Amount) []policy.Instance {
	if len(requests) == 0 {
		return instances
	}
	stated := slices.Clone(instances)
	for i := range stated {
		stated[i].Requests = requests
	}
	return stated
}

// shortHold returns a hold with a text of bounded length. Platforms quote texts of jobs and
// images.
func shortHold(hold *policy.Hold) *policy.Hold {
	if hold == nil {
		return nil
	}
	short := *hold
	short.Message = trouble.Shorten(short.Message)
	return &short
}

// shortNotices returns notices with texts of bounded length.
func shortNotices(notices []policy.Notice) []policy.Notice {
	short := slices.Clone(notices)
	for i := range short {
		short[i].Message = trouble.Shorten(short[i].Message)
	}
	return short
}

// sleeps reports whether all that failed in a pass is that instances could not be
// measured of which there are none: at zero replicas, with a metric that says
// when they are wanted again. That is how such a target is meant to be.
func sleeps(decision *policy.Decision, settlement policy.Settlement) bool {
	if decision.CurrentReplicas != 0 || decision.Winner == nil || settlement.Error != decision.Error {
		return false
	}
	return !slices.ContainsFunc(decision.Metrics, func(m policy.MetricResult) bool {
		return m.Error != "" && (m.Type == policy.ObjectMetric || m.Type == policy.ExternalMetric)
	})
}
