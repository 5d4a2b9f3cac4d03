package simulate

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/settings/quantity"
)

// Assumption is a model that a user selects for a metric.
type Assumption struct {
	Model Model `json:"model"`
	// CapacityMilli is the value that one instance can carry, in thousandths of the unit of the
	// target value. For a queue, it is the number of items that one instance completes in 1,000
	// seconds. 0 means the default.
	CapacityMilli int64 `json:"capacity_milli,omitempty"`
}

// ParseAssumption parses "METRIC=MODEL" or "METRIC=MODEL:CAPACITY". The name of the metric can
// contain "=".
func ParseAssumption(text string) (metric string, a Assumption, err error) {
	at := strings.LastIndex(text, "=")
	if at <= 0 {
		return "", a, fmt.Errorf("%q is invalid: use METRIC=MODEL or METRIC=MODEL:CAPACITY", text)
	}
	model, capacity, given := strings.Cut(text[at+1:], ":")
	a.Model = Model(model)
	if !slices.Contains([]Model{Total, Ratio, Queue, Fixed}, a.Model) {
		return "", a, fmt.Errorf("%q is not a model: use total, ratio, queue or fixed", model)
	}
	if given {
		parsed, err := quantity.Parse(capacity)
		if err == nil && parsed.Milli() <= 0 {
			err = fmt.Errorf("%q must be above 0", capacity)
		}
		if err != nil {
			return "", a, fmt.Errorf("capacity of %s: %w", text[:at], err)
		}
		a.CapacityMilli = parsed.Milli()
	}
	return text[:at], a, nil
}

// MetricModel is the model of one metric in a simulation.
type MetricModel struct {
	Name  string `json:"name"`
	Model Model  `json:"model"`
	// Given reports whether the user selected the model.
	Given bool `json:"given,omitempty"`
	// CapacityMilli is the value that one instance can carry, in thousandths of the unit of the
	// target value; 0 if it is unknown.
	CapacityMilli int64 `json:"capacity_milli,omitempty"`
	// Utilization reports whether the unit is percent.
	Utilization bool `json:"utilization,omitempty"`
	// PerSecond is the number of items that one instance takes from a queue in a second.
	PerSecond float64 `json:"per_second,omitempty"`
	// Estimated reports whether PerSecond is an estimate from the recording.
	Estimated bool `json:"estimated,omitempty"`
}

// loadless describes values that do not follow the load. Counts of events, such as
// request_duration_seconds_count, are excluded before the search.
var loadless = []struct {
	words *regexp.Regexp
	is    string
}{
	{words("latency|latencies|duration|durations|delay|response_time|rtt|quantile|histogram_quantile|p50|p90|p95|p99|percentile|apdex"), "a latency"},
	{words("error|errors|failure|failures|failed|5xx|exceptions|success_rate|availability"), "a rate of errors"},
	{words("temperature|age|uptime"), "a state, not an amount of work"},
}

var (
	counters = regexp.MustCompile(`\b\w+_(count|created)\b`)
	statuses = regexp.MustCompile(`=~?\s*"5(\.\.|xx|\d\d|\[)`)
	queues   = words("queue|queued|queues|backlog|lag|pending|waiting|depth|unprocessed|enqueued")
)

// words matches one of the words within an identifier.
func words(list string) *regexp.Regexp {
	return regexp.MustCompile(`(?i)(^|[^a-z0-9])(` + list + `)([^a-z0-9]|$)`)
}

// defaultModel returns the model of a metric, by its type, its name and its query. The error is the
// reason if the metric cannot be simulated.
func defaultModel(metric *policy.MetricSpec, query string) (Model, error) {
	whole := isWhole(metric)
	text := metric.Name + "\n" + counters.ReplaceAllString(query, "")
	if whole || metric.Type == policy.InstancesMetric {
		is := ""
		for i := range loadless {
			if is == "" && loadless[i].words.MatchString(text) {
				is = loadless[i].is
			}
		}
		if is == "" && statuses.MatchString(query) {
			is = "a rate of errors"
		}
		if is != "" {
			return "", fmt.Errorf("it is probably %s, which does not follow the number of instances in a known way", is)
		}
	}
	switch {
	case whole && queues.MatchString(text):
		return Queue, nil
	case whole && metric.Target.AverageValueMilli != nil, metric.Type == policy.InstancesMetric, metric.Target.AverageUtilization == nil && !whole:
		return Total, nil
	}
	return Ratio, nil
}

// chooseModels returns the models of all metrics that a policy uses.
func (s *simulation) chooseModels(p *Policy) error {
	names := MetricNames(p.Spec.Metrics)
	for i := range p.Spec.Metrics {
		metric := &p.Spec.Metrics[i]
		if metric.Formula != "" {
			continue
		}
		at := slices.Index(s.recording.Metrics, names[i])
		if at < 0 {
			return fmt.Errorf("metric %q of %q is not recorded; the recording contains %s", names[i], p.Label, strings.Join(s.recording.Metrics, ", "))
		}
		model := &s.models[at]
		if model.Model != "" {
			continue
		}
		given, ok := s.assume.Metrics[names[i]]
		model.Model, model.Given = given.Model, ok
		if given.Model == Queue {
			model.PerSecond = float64(given.CapacityMilli) / 1000
		} else {
			model.CapacityMilli = given.CapacityMilli
		}
		if !ok {
			query := ""
			if i < len(p.Queries) {
				query = p.Queries[i]
			}
			var err error
			if model.Model, err = defaultModel(metric, query); err != nil {
				return fmt.Errorf("metric %q cannot be simulated: %w; select a model with --assume %s=MODEL: total, ratio, queue or fixed", names[i], err, names[i])
			}
		}
		s.targets[at], model.Utilization = targetOf(metric)
		s.shared[at] = isWhole(metric) && metric.Target.AverageValueMilli == nil && model.Model != Ratio
	}
	return nil
}

func isWhole(metric *policy.MetricSpec) bool {
	return metric.Type == policy.ExternalMetric || metric.Type == policy.ObjectMetric
}

// checkAssumptions returns an error for a model of an unknown metric.
func (s *simulation) checkAssumptions() error {
	for _, name := range slices.Sorted(maps.Keys(s.assume.Metrics)) {
		if !slices.Contains(s.recording.Metrics, name) {
			return fmt.Errorf("there is no metric %q; the metrics are %s", name, strings.Join(s.recording.Metrics, ", "))
		}
	}
	return nil
}

// full is the utilization of an instance that carries its whole request, in thousandths of percent.
const full = 100_000

// setCapacities sets the capacities that users did not set: the highest value that one of the
// policies accepts, which is its target value and its tolerance. For a utilization, it is at least
// 100 %.
func (s *simulation) setCapacities(policies []Policy) {
	for i := range policies {
		p := &policies[i]
		tolerance := p.Settings.Tolerance
		if behavior := p.Spec.Behavior; behavior != nil && behavior.ScaleUp != nil && behavior.ScaleUp.Tolerance != nil {
			tolerance = *behavior.ScaleUp.Tolerance
		}
		names := MetricNames(p.Spec.Metrics)
		for m := range p.Spec.Metrics {
			metric := &p.Spec.Metrics[m]
			model := s.modelOf(names[m], metric)
			if model.Given && s.assume.Metrics[names[m]].CapacityMilli != 0 && model.Model != Queue {
				continue
			}
			target, utilization := targetOf(metric)
			if metric.Formula != "" && s.formulaTarget == 0 {
				s.formulaTarget = target
			}
			if utilization != model.Utilization {
				continue
			}
			accepted := int64(math.Round(float64(target) * (1 + tolerance)))
			if utilization {
				accepted = max(accepted, full)
			}
			model.CapacityMilli = max(model.CapacityMilli, accepted)
		}
	}
}

// modelOf returns the model of a metric. A formula has its own model, which s.formula contains.
func (s *simulation) modelOf(name string, metric *policy.MetricSpec) *MetricModel {
	if metric.Formula != "" {
		s.formula.Name = metric.Formula
		return &s.formula
	}
	return &s.models[slices.Index(s.recording.Metrics, name)]
}

// targetOf returns the target value of a metric in thousandths, and whether it is a utilization.
func targetOf(metric *policy.MetricSpec) (milli int64, utilization bool) {
	switch target := &metric.Target; {
	case target.AverageValueMilli != nil && (metric.Type != policy.ObjectMetric || target.Type == policy.AverageValueTarget):
		return *target.AverageValueMilli, false
	case target.ValueMilli != nil:
		return *target.ValueMilli, false
	case target.AverageUtilization != nil:
		return int64(*target.AverageUtilization) * 1000, true
	case target.AverageValueMilli != nil:
		return *target.AverageValueMilli, false
	}
	return 0, false
}

var errCountsUnknown = errors.New(`the number of instances is unknown: use the graphs of hpad, or a CSV file that has rows with the metric "replicas"`)
