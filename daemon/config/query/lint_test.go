package query

import (
	"strings"
	"testing"
)

func TestFindings(t *testing.T) {
	for text, want := range map[string]string{
		`http_requests_total`:                                           "counter",
		`sum(http_requests_total{code="500"}) * 2`:                      "counter",
		`max_over_time(http_requests_total[5m])`:                        "counter",
		`sum(rate(http_requests_total[1m]))`:                            "",
		`rate(sum(http_requests_total)[5m:])`:                           "shows a jump",
		`max_over_time(rate(http_requests_total[1m])[5m:])`:             "",
		`jobs_enqueued_total - jobs_finished_total`:                     "",
		`count(http_requests_total)`:                                    "",
		`sum(memory_used / memory_total)`:                               "",
		`queue_waiting_total`:                                           "",
		`sum(http_request_duration_seconds_count)`:                      "counter",
		`sum(x_seconds_sum) / sum(x_seconds_count)`:                     "x_seconds_sum is a counter",
		`sum(rate(x_seconds_sum[5m])) / sum(rate(x_seconds_count[5m]))`: "",
		`jobs_count`:              "",
		`job:http_requests_total`: "",
		`rate(queue_depth[5m])`:   "gauge",
		`deriv(queue_depth[5m])`:  "",
		`histogram_quantile(95, sum by (le) (rate(x_bucket[5m])))`:         "infinite",
		`histogram_quantile(0.95, sum by (le) (rate(x_bucket[5m])))`:       "",
		`histogram_quantile(0.95, sum(rate(x_bucket[5m])))`:                "label le",
		`histogram_quantile(0.95, sum without (pod) (rate(x_bucket[5m])))`: "",
		`histogram_quantile(0.95, sum by (le) (x_bucket))`:                 "counter",
		`histogram_quantile(0.95, sum(rate(x[5m])))`:                       "",
		`quantile(95, x)`: "infinite",
		`sum(x) > bool 5`: "bool",
		`sum(x > bool 5)`: "",
		`x @ 1609746000`:  "fixed time",
		`60 + 60 * sin(vector(time() * pi() / 30))`: "",
	} {
		q, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		got := strings.Join(q.Findings(), "; ")
		if (want == "") != (got == "") || !strings.Contains(got, want) {
			t.Errorf("%s: Findings() = %q, want %q", text, got, want)
		}
	}
}

func TestGap(t *testing.T) {
	for text, want := range map[string]string{
		`queue > 0`:                   "> 0",
		`sum(queue > 5) * 2`:          "> 5",
		`sum(a) + sum(b != 0)`:        "!= 0",
		`count(job_state == 1)`:       "== 1",
		`absent(queue)`:               "absent(…)",
		`sum(queue > 0) or vector(0)`: "",
		`sum(0 < queue)`:              "> 0",
		`1 <= queue`:                  ">= 1",
		`0 > queue`:                   "",
		`100 * (queue > 0)`:           "> 0",
		`a / (queue > 0)`:             "",
		`queue >= 0`:                  "",
		`queue < 100`:                 "",
		`queue > bool 0`:              "",
		`queue and on () (up > 0)`:    "",
		`sum(up == 1)`:                "",
		`a / (b > 0)`:                 "",
		`sum(queue_length) or 0 * max(up{job="queue"} == 1)`: "",
	} {
		q, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := q.Gap(); got != want {
			t.Errorf("%s: Gap() = %q, want %q", text, got, want)
		}
	}
}

func TestAverages(t *testing.T) {
	for text, want := range map[string]bool{
		`avg(queue_depth)`:                            true,
		`avg by (queue) (queue_depth)`:                false,
		`ceil(avg(x) * 100) or vector(0)`:             true,
		`quantile(0.9, x)`:                            true,
		`max(rate(http_requests_total[1m]))`:          true,
		`max(redis_key_size{key="jobs"})`:             false,
		`max(avg by (queue) (queue_depth))`:           false,
		`max(http_latency_seconds)`:                   true,
		`max(queue_depth)`:                            false,
		`histogram_quantile(0.9, rate(x_bucket[1m]))`: true,
		`sum(a) / count(b)`:                           true,
		`sum(a) / scalar(count(b))`:                   true,
		`sum(a) / sum(b)`:                             true,
		`sum(queue_depth) / 100`:                      false,
		`sum(queue_depth) / avg(rate(done[5m]))`:      false,
		`sum(x)`:                                      false,
		`sum(avg by (instance) (x))`:                  false,
	} {
		q, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := q.Averages(); got != want {
			t.Errorf("%s: Averages() = %t, want %t", text, got, want)
		}
	}
}

func TestDrops(t *testing.T) {
	for text, want := range map[string]bool{
		`x`:                              false,
		`sum(x)`:                         true,
		`sum by (id) (x)`:                false,
		`sum by (job) (x)`:               true,
		`sum without (id) (x)`:           true,
		`sum without (job) (x)`:          false,
		`topk(3, sum by (job) (x))`:      true,
		`topk(3, x)`:                     false,
		`count_values("id", x)`:          false,
		`vector(1)`:                      true,
		`5`:                              true,
		`clamp_max(x, 5)`:                false,
		`100 * sum by (job) (x)`:         true,
		`rate(x[1m]) * 5`:                false,
		`a / on (id) b`:                  false,
		`a / on (job) b`:                 true,
		`a / ignoring (id) b`:            true,
		`a * on (job) group_left b`:      false,
		`a * on (job) group_left (id) b`: false,
		`sum by (job) (a) * on (job) group_right b`:                  false,
		`sum by (job) (a) * on (job) group_left b`:                   true,
		`sum by (job) (a) or b`:                                      false,
		`sum by (job) (a) and b`:                                     true,
		`label_replace(sum by (job) (x), "id", "$1", "job", "(.*)")`: false,
		`label_replace(sum by (job) (x), "as", "$1", "job", "(.*)")`: true,
		`histogram_quantile(0.9, sum by (le, id) (x))`:               false,
		`histogram_quantile(0.9, sum by (le) (x))`:                   true,
	} {
		q, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := q.Drops("id"); got != want {
			t.Errorf("%s: Drops() = %t, want %t", text, got, want)
		}
	}
}
