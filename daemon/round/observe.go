package round

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/kinds"
	"github.com/hpad/hpad/daemon/observe"
	"github.com/hpad/hpad/daemon/problem"
	"github.com/hpad/hpad/daemon/redact"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
)

// observation returns the observation and the reading of the target. If the read failed, the
// observation contains the error.
func (p *pass) observation() (policy.Observation, *targets.Reading) {
	a, def := p.autoscaler, p.definition
	observed := p.env.Clock.Now()
	reading, since, err := p.reading()
	if err != nil {
		p.after.cause = err
		return policy.Observation{
			ReadError: problem.Shorten(redact.Text(err.Error())), ReadReason: targets.Reason(err), Unscalable: errors.Is(err, targets.ErrUnscalable),
		}, &reading
	}
	a.known = since
	instances := reading.Instances
	if p.round.readOnly || def.measuresInstances() || slices.ContainsFunc(instances, isUnready) {
		instances = a.dated(instances, p.round.scale, observed)
	}
	observation := policy.Observation{
		SpecReplicas:   reading.SpecReplicas,
		StatusReplicas: reading.StatusReplicas,
		Finite:         reading.Finite,
		Hold:           shortHold(reading.Hold),
		Notices:        p.notices(&reading, instances),
		Instances:      withLimits(withRequests(instances, def.Requests), &reading, def.Spec.Metrics),
	}
	if !def.strict { // upstream's targets have no bounds of their own
		observation.PlatformMin, observation.PlatformMax = reading.Min, reading.Max
	}
	if def.Settings.Mode == policy.ModeOff {
		return observation, &reading
	}
	target := observe.Target{Ref: def.Target, Reading: &reading, Strict: def.strict, Scale: p.round.scale, Observed: observed}
	observation.Metrics = make([]policy.Reading, len(def.Spec.Metrics))
	for i := range observation.Metrics {
		observation.Metrics[i] = p.metric(i, &target)
	}
	return observation, &reading
}

// metric returns the reading of one metric of the spec.
func (p *pass) metric(i int, target *observe.Target) policy.Reading {
	metric, in := &p.definition.Spec.Metrics[i], &p.definition.MetricInputs[i]
	if metric.Formula != "" {
		return policy.Reading{}
	}
	var reading policy.Reading
	var response *observe.Response
	var err error
	if in.From == nil {
		var samples targets.Samples
		if samples, err = p.sampled(); err == nil {
			reading, err = target.Sampled(metric, &in.Input, samples)
		}
	} else if response, err = p.queried(i); err == nil {
		reading, err = target.Queried(metric, &in.Input, response)
	}
	if err == nil {
		err = p.definition.checkLimits(metric, target.Reading)
	}
	if len(reading.Warnings) > 0 {
		reading.Partial = redact.Text(reading.Partial)
		reading.Warnings = slices.Clone(reading.Warnings) // other passes read them too
		for i, warning := range reading.Warnings {
			reading.Warnings[i] = redact.Text(warning)
		}
	}
	if err != nil {
		return policy.Reading{Error: problem.Shorten(redact.Text(err.Error())), Warnings: reading.Warnings, Partial: reading.Partial}
	}
	if age := target.Age(&reading); age > p.definition.SyncPeriod {
		if p.after.Ages == nil {
			p.after.Ages = make([]time.Duration, len(p.definition.MetricInputs))
		}
		p.after.Ages[i] = age
	}
	return reading
}

// reading returns the reading of the target and the time when the read started.
func (p *pass) reading() (_ targets.Reading, since time.Time, _ error) {
	read, target := p.snapshot().get(), p.definition.Target
	if read == nil {
		return targets.Reading{}, since, fmt.Errorf("read fleet %q: %w", p.definition.Fleet.Name, readLimit(p.plan.timeout))
	}
	if read.Err != nil {
		return targets.Reading{}, since, read.Err
	}
	reading, ok := read.Readings[target]
	if !ok {
		return reading, since, fmt.Errorf("read target %s: missing from the fleet's response", target)
	}
	if reading.Err != nil {
		return reading, since, fmt.Errorf("read target %s: %w", target, reading.Err)
	}
	return reading, read.Began, nil
}

// sampled returns the samples of the target.
func (p *pass) sampled() (targets.Samples, error) {
	result := p.round.samples[p.plan.samples].get()
	switch {
	case result == nil:
		return targets.Samples{}, fmt.Errorf("read samples of fleet %q: %w", p.definition.Fleet.Name, readLimit(p.plan.timeout))
	case result.err != nil:
		return targets.Samples{}, result.err
	}
	return result.samples[p.definition.Target], nil
}

// queried returns the result of the query of a metric.
func (p *pass) queried(metric int) (*observe.Response, error) {
	result := p.round.queries[p.plan.queries[metric]].get()
	switch {
	case result == nil:
		return nil, fmt.Errorf("query source %q: %w", p.definition.MetricInputs[metric].From.Name, readLimit(p.plan.timeout))
	case result.err != nil:
		return nil, result.err
	}
	return &result.response, nil
}

func (p *pass) snapshot() *snapshotRead { return &p.round.snapshots[p.plan.snapshot] }

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
