package round

import (
	"fmt"
	"slices"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/kinds"
	"github.com/hpad/hpad/daemon/problem"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
)

func countInstances(instances []policy.Instance) (n api.Instances) {
	for i := range instances {
		instance := &instances[i]
		n.Add(instance.Phase.String(), instance.Readiness.String(), instance.Deleting)
	}
	return n
}

// withRequests sets the configured requests of instances (R29).
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

// limitOf returns the limit of Instances[i], or nil.
func limitOf(reading *targets.Reading, i int, resource string) *policy.Amount {
	limits := reading.Locations.At(i).Limits
	found := slices.IndexFunc(limits, func(limit policy.Amount) bool { return limit.Resource == resource })
	if found < 0 {
		return nil
	}
	return &limits[found]
}

// withLimits replaces the requests of the resources of metrics with average_utilization_of =
// "limit". Instances without a limit remain unchanged, because such a metric fails. As in R29,
// other resources then skip tasks without a request.
func withLimits(instances []policy.Instance, reading *targets.Reading, metrics []policy.MetricSpec) []policy.Instance {
	for m := range metrics {
		if metrics[m].Target.UtilizationOf != policy.UtilizationOfLimit {
			continue
		}
		resource := metrics[m].Name
		instances = slices.Clone(instances)
		for i := range instances {
			if limit := limitOf(reading, i, resource); limit != nil {
				requests := slices.DeleteFunc(slices.Clone(instances[i].Requests), func(request policy.Amount) bool { return request.Resource == resource })
				instances[i].Requests = append(requests, *limit)
			}
		}
	}
	return instances
}

// checkLimits returns an error if the metric needs the limit of an instance that has none.
func (d *Definition) checkLimits(metric *policy.MetricSpec, reading *targets.Reading) error {
	for i := range reading.Instances {
		if metric.Target.UtilizationOf == policy.UtilizationOfLimit && limitOf(reading, i, metric.Name) == nil {
			return fmt.Errorf("instance %s of kind %q has no %s limit: %s", reading.NameOf(i), d.Kind, metric.Name, kinds.Fleets[d.Kind].Limits[metric.Name])
		}
	}
	return nil
}

// shortHold limits the length of the hold's message, because it can contain text from jobs and
// images.
func shortHold(hold *policy.Hold) *policy.Hold {
	if hold == nil {
		return nil
	}
	short := *hold
	short.Message = problem.Shorten(short.Message)
	return &short
}

// EndpointsFailed is the condition while the endpoints of a target cannot be published.
const EndpointsFailed policy.ConditionType = "EndpointsFailed"

// notices returns the notices of the platform, with shortened messages, the instances that have
// been unready for too long, and the problem of the target's endpoints.
func (p *pass) notices(reading *targets.Reading, instances []policy.Instance) []policy.Notice {
	short := slices.Clone(reading.Notices)
	if unready := p.unreadyNotice(reading, instances); unready != nil {
		short = append(short, *unready)
	}
	if text := p.env.EndpointsProblem(p.definition.Target); text != "" {
		short = append(short, policy.Notice{Condition: EndpointsFailed, Reason: "PublishFailed", Message: text})
	}
	for i := range short {
		short[i].Message = problem.Shorten(short[i].Message)
	}
	return short
}

// isIdle reports whether the pass failed only because there are no instances to measure. That is
// not an error at zero replicas if a metric can start the first instance.
func isIdle(decision *policy.Decision, settlement policy.Settlement) bool {
	if decision.CurrentReplicas != 0 || decision.Winner == nil || settlement.Error != decision.Error {
		return false
	}
	return !slices.ContainsFunc(decision.Metrics, func(m policy.MetricResult) bool {
		return m.Error != "" && (m.Type == policy.ObjectMetric || m.Type == policy.ExternalMetric)
	})
}
