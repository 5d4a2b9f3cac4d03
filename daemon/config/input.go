package config

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/schedule"
	"github.com/hpad/hpad/sources"
	"github.com/hpad/hpad/targets"
)

// Match specifies what an instance label contains.
type Match string

// The values of Match. An address may include a port of the instance.
const (
	MatchID      Match = "id"
	MatchName    Match = "name"
	MatchAddress Match = "address"
)

// Names returns the possible values of the instance label for instance i of a reading. It falls
// back to the ID if the instance's name or location is unknown.
func (m Match) Names(reading *targets.Reading, i int) []string {
	id := reading.Instances[i].ID
	if m == MatchID || reading.Locations == nil {
		return []string{id}
	}
	location := reading.Locations.At(i)
	if m == MatchName {
		if location.Name == "" {
			return []string{id}
		}
		return []string{location.Name}
	}
	var names []string
	for _, address := range location.Addresses {
		names = append(names, address)
		for _, port := range location.Ports {
			names = append(names, net.JoinHostPort(address, strconv.Itoa(port.Number)))
		}
	}
	return names
}

// readInputs returns the inputs of the metrics in a spec with defaults. It records unknown sources,
// and metrics that need a source but have none.
func (t *table) readInputs(c *Config, given []metricTable, schedules []schedule.Config, a Autoscaler) []Input {
	inputs := make([]Input, len(a.Spec.Metrics))
	combined := a.Spec.Metrics[len(a.Spec.Metrics)-1].Formula != ""
	minimum := *a.Spec.MinReplicas
	for i := range schedules {
		if scheduled := schedules[i].MinReplicas; scheduled != nil {
			minimum = min(minimum, *scheduled)
		}
	}
	for i := range a.Spec.Metrics {
		var m metricTable
		path := "metrics"
		if a.Spec.Metrics[i].Formula != "" {
			inputs[i].Query = a.Spec.Metrics[i].Formula
			continue
		}
		if i < len(given) { // otherwise it is the default metric (R10)
			m, path = given[i], element("metrics", i)
		} else {
			m = metricTable{Type: metricType(a.Spec.Metrics[i].Type), Resource: a.Spec.Metrics[i].Name}
		}
		if m.OnMissing != nil && m.OnMissing.After != 0 && m.OnMissing.After < a.SyncPeriod {
			t.addWritten(under(path, "on_missing.after"), fmt.Sprintf("must be at least the sync_period, which is %s", a.SyncPeriod))
		}
		t.checkRequest(c.Fleets[a.Target.Fleet], path, &a.Spec.Metrics[i], a)
		t.checkLimit(path, m, given, a)
		t.checkActivation(path, m, minimum, combined)
		t.lintAmount(under(path, "value"), m.Resource, m.Value)
		t.lintAmount(under(path, "average_value"), m.Resource, m.AverageValue)
		if m.Source == "" {
			t.checkSampled(m, path, a)
			inputs[i].MaxAge = m.maxAge()
			continue
		}
		t.known(under(path, "source"), m.Source, sourcesKey)
		checked := m
		if combined {
			checked.Value, checked.AverageValue = nil, nil // only the target of the formula matters
		}
		t.checkQuery(c, path, checked)
		t.checkAge(c, path, m)
		inputs[i] = m.input()
	}
	return inputs
}

// input returns the input of a metric with a source.
func (m metricTable) input() Input {
	in := Input{Source: m.Source, Query: m.Query, Select: sources.LabelsOf(m.Select), InstanceLabel: m.InstanceLabel, Match: m.Match, MaxAge: m.maxAge()}
	if m.InstanceLabel != "" && m.Match == "" {
		in.Match = MatchID
	}
	if m.Window != nil {
		in.Window = *m.Window
	}
	if len(m.Valid) == 2 {
		in.Valid = &Range{Min: *milliOf(&m.Valid[0]), Max: *milliOf(&m.Valid[1])}
	}
	if m.MinSeries != nil {
		in.MinSeries = *m.MinSeries
	}
	in.EmptyZero = m.Empty == emptyZero
	return in
}

func (m metricTable) maxAge() time.Duration {
	if m.MaxAge == nil {
		return 0
	}
	return *m.MaxAge
}

// checkActivation warns if an activation has no effect. minimum is the lowest minimum of the
// autoscaler and its schedules.
func (t *table) checkActivation(path string, m metricTable, minimum int32, combined bool) {
	key := under(path, "activation")
	switch {
	case m.Activation == nil:
	case combined:
		t.warn(key, "has no effect on an input of a formula")
	case minimum > 0:
		t.warn(key, "has no effect, because min_replicas is above 0 and hpad never scales to 0: set min_replicas = 0")
	}
}

// checkRequest warns if a metric has a target utilization but its resource request is not stated.
func (t *table) checkRequest(fleet Fleet, path string, metric *policy.MetricSpec, a Autoscaler) {
	requester, ok := fleet.Config.(targets.Requester)
	ofWhole := metric.Type == policy.ResourceMetric
	if !ok || a.Target.Name == "" || metric.Target.Type != policy.UtilizationTarget || !ofWhole && metric.Type != policy.ContainerResourceMetric {
		return
	}
	stated, at := requester.Requests(a.Target.Name, metric.Name)
	if stated || ofWhole && slices.ContainsFunc(a.Requests, func(amount policy.Amount) bool { return amount.Resource == metric.Name }) {
		return
	}
	var places []string
	if at != "" {
		places = append(places, "["+join(fleetsKey, fleet.Name)+"."+at+"]")
	}
	switch {
	case !ofWhole: // only the fleet knows the requests of a task
	case t.path == "":
		places = append(places, "the label "+targets.LabelPrefix+join("requests", metric.Name))
	default:
		places = append(places, "the autoscaler's target")
	}
	key, detail := under(path, "average_utilization"), ""
	if path == metricsKey {
		key, detail = path, fmt.Sprintf("by default, the target is %s at %d%%, which ", metric.Name, *metric.Target.AverageUtilization)
	}
	detail += fmt.Sprintf("is a percentage of the %s request of an instance, and no request is set", metric.Name)
	if len(places) > 0 {
		detail += ": set it in " + strings.Join(places, " or in ")
	}
	t.warnUnworkable(key, detail)
}

// checkLimit records an average_utilization_of = "limit" that cannot be computed. The metrics of a
// resource must agree, because the limits replace the requests of the instances.
func (t *table) checkLimit(path string, m metricTable, given []metricTable, a Autoscaler) {
	key := under(path, "average_utilization_of")
	if m.AverageUtilizationOf != policy.UtilizationOfLimit || m.AverageUtilization == nil || !m.is(policy.ResourceMetric) {
		return
	}
	if t.loader.strict {
		t.addWritten(key, `is not allowed with compat = "strict": the utilization of an HPA is a percentage of the request`)
		return
	}
	name, kind, ok := t.loader.kindOfFleet(a.Target.Fleet)
	if _, limited := kind.Limits[m.Resource]; ok && m.Resource != "" && !limited {
		t.addWritten(key, fmt.Sprintf("is not possible: a fleet of kind %q does not report %s limits", name, m.Resource))
	}
	if slices.ContainsFunc(given, func(other metricTable) bool {
		return other.is(policy.ResourceMetric) && other.Resource == m.Resource && other.AverageUtilization != nil && slices.Contains([]string{"", "request"}, other.AverageUtilizationOf)
	}) {
		t.addWritten(key, "contradicts another metric of "+m.Resource+", which uses the request: all of them must use the limit, or all the request")
	}
}

// checkSampled records an error for a metric without a source that its fleet cannot read.
func (t *table) checkSampled(m metricTable, path string, a Autoscaler) {
	name, kind, ok := t.loader.kindOfFleet(a.Target.Fleet)
	switch {
	case m.is(policy.InstancesMetric, policy.ObjectMetric, policy.ExternalMetric):
		t.add(under(path, "source"), "", "is required for a metric of type "+string(m.Type)+": the name of one of the sources")
	case !ok || !m.ofResource():
	case !kind.Samples:
		t.add(under(path, "source"), "", fmt.Sprintf("is required: a fleet of kind %q does not measure the use of resources", name))
	case !slices.Contains([]string{"", "cpu", "memory"}, m.Resource) && (m.is(policy.ResourceMetric) || strings.ContainsAny(m.Resource, "-/")):
		t.addWritten(under(path, "resource"), fmt.Sprintf("is not measured by a fleet of kind %q: use cpu, memory, or a source", name))
	}
}
