package simulate

import (
	"strings"
	"testing"

	"github.com/hpad/hpad/policy"
)

func TestDefaultModel(t *testing.T) {
	milli, percent := int64(1000), int32(60)
	average := policy.MetricTarget{Type: policy.AverageValueTarget, AverageValueMilli: &milli}
	value := policy.MetricTarget{Type: policy.ValueTarget, ValueMilli: &milli}
	utilization := policy.MetricTarget{Type: policy.UtilizationTarget, AverageUtilization: &percent}
	for _, test := range []struct {
		kind        policy.MetricType
		name, query string
		target      policy.MetricTarget
		want        Model
		fails       string
	}{
		{policy.ResourceMetric, "cpu", "", utilization, Ratio, ""},
		{policy.ResourceMetric, "memory", "", average, Total, ""},
		{policy.InstancesMetric, "requests", `sum by (instance) (rate(http_requests_total[1m]))`, average, Total, ""},
		{policy.ExternalMetric, "requests", `sum(rate(http_request_duration_seconds_count[1m]))`, average, Total, ""},
		{policy.ExternalMetric, "requests", `sum(rate(http_requests_total{status!~"5.."}[1m]))`, average, Total, ""},
		{policy.ExternalMetric, "busy", `avg(worker_busy)`, value, Ratio, ""},
		{policy.ExternalMetric, "jobs", `sum(rabbitmq_queue_messages_ready)`, average, Queue, ""},
		{policy.ObjectMetric, "consumer_lag", ``, value, Queue, ""},
		{policy.ExternalMetric, "average_load", `sum(stage_usage)`, average, Total, ""},
		{policy.ObjectMetric, "latency", `avg(haproxy_backend_response_time_average_seconds)`, value, "", "a latency"},
		{policy.ExternalMetric, "slow", `histogram_quantile(0.99, sum by (le) (rate(http_request_seconds_bucket[5m])))`, value, "", "a latency"},
		{policy.ExternalMetric, "mean", `rate(http_request_duration_seconds_sum[1m]) / rate(http_request_duration_seconds_count[1m])`, value, "", "a latency"},
		{policy.ExternalMetric, "bad", `sum(rate(http_requests_total{code=~"5.."}[1m]))`, average, "", "a rate of errors"},
		{policy.InstancesMetric, "errors", ``, average, "", "a rate of errors"},
		{policy.ExternalMetric, "oldest", `max(message_age_seconds)`, value, "", "a state"},
	} {
		got, err := defaultModel(&policy.MetricSpec{Type: test.kind, Name: test.name, Target: test.target}, test.query)
		if got != test.want || (err == nil) != (test.fails == "") || err != nil && !strings.Contains(err.Error(), test.fails) {
			t.Errorf("%s %s: got %q, %v; want %q, %q", test.name, test.query, got, err, test.want, test.fails)
		}
	}
}

func TestParseAssumption(t *testing.T) {
	for text, want := range map[string]struct {
		metric string
		Assumption
		fails string
	}{
		"jobs=total":        {"jobs", Assumption{Model: Total}, ""},
		"jobs=queue:2.5":    {"jobs", Assumption{Queue, 2500}, ""},
		"a=b=ratio:1Ki":     {"a=b", Assumption{Ratio, 1024000}, ""},
		"jobs":              {"", Assumption{}, "use METRIC=MODEL"},
		"jobs=linear":       {"", Assumption{}, `"linear" is not a model`},
		"jobs=queue:0":      {"", Assumption{}, "must be above 0"},
		"jobs=queue:a lot":  {"", Assumption{}, "is not a quantity"},
		"jobs=queue:-1e300": {"", Assumption{}, "capacity of jobs"},
	} {
		metric, got, err := ParseAssumption(text)
		if want.fails != "" {
			if err == nil || !strings.Contains(err.Error(), want.fails) {
				t.Errorf("%s: got %v, want %s", text, err, want.fails)
			}
			continue
		}
		if err != nil || metric != want.metric || got != want.Assumption {
			t.Errorf("%s: got %s, %+v, %v", text, metric, got, err)
		}
	}
}
