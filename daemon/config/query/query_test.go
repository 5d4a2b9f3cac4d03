package query

import (
	"fmt"
	"slices"
	"testing"
)

func TestRanges(t *testing.T) {
	for text, want := range map[string][]string{
		`queue`:                           nil,
		`sum(rate(x[2s]))`:                {"rate 2s 2"},
		`sum(rate((x{job="a"}[2s])))`:     {"rate 2s 2"},
		`rate(a[1m]) / increase(b[5m])`:   {"rate 1m0s 2", "increase 5m0s 2"},
		`avg_over_time(x[10s])`:           {"avg_over_time 10s 1"},
		`max_over_time(rate(x[1m])[5m:])`: {"rate 1m0s 2"},
		`rate(x[2s:1s])`:                  nil,
		`absent_over_time(x[30s])`:        {"absent_over_time 30s 0"},
		`irate(x[10s] offset 5m @ end())`: {"irate 10s 2"},
		`histogram_quantile(0.9, rate(x_bucket[15s])) > bool 3`: {"rate 15s 2"},
	} {
		q, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, r := range q.Ranges() {
			got = append(got, fmt.Sprint(r.Function, " ", r.Span, " ", r.Samples))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
	if _, err := Parse("sum(x"); err == nil {
		t.Error("Parse accepted an invalid query")
	}
}

func TestOfJob(t *testing.T) {
	for text, want := range map[string]bool{
		`rate(x[1m])`:                       true,
		`rate(x{job="worker"}[1m])`:         true,
		`rate(x{job=~"w.*",queue="a"}[1m])`: true,
		`rate(x{job!="worker"}[1m])`:        false,
		`rate(x{job="api"}[1m])`:            false,
	} {
		q, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := q.Ranges()[0].OfJob("worker"); got != want {
			t.Errorf("%s: OfJob() = %t, want %t", text, got, want)
		}
	}
}

func TestTotal(t *testing.T) {
	for text, want := range map[string]bool{
		// The length of a queue, in different spellings.
		`rabbitmq_queue_messages_ready{queue="jobs"}`:    true,
		`sum(rabbitmq_queue_messages_ready)`:             true,
		`sum by (queue) (rabbitmq_queue_messages_ready)`: true,
		`count(jobs{state="waiting"})`:                   true,
		// Total rates over all instances.
		`sum(rate(http_requests_total[1m]))`: true,
		// Values per instance or item.
		`sum(queue_depth) / count(up)`:                                  false,
		`sum(queue_depth) / scalar(count(up))`:                          false,
		`sum(rate(x_seconds_sum[1m])) / sum(rate(x_seconds_count[1m]))`: false,
		`avg(queue_depth)`:                                              false,
		`sum(avg by (pod) (queue_depth))`:                               false,
		`histogram_quantile(0.9, sum by (le) (rate(http_request_duration_seconds_bucket[1m])))`: false,
		`sum(histogram_quantile(0.9, rate(x_bucket[1m])))`:                                      false,
		`max(queue_wait_seconds)`:                      false,
		`sum(kafka_consumergroup_lag_seconds)`:         false,
		`messages_per_consumer`:                        false,
		`time() - max(queue_oldest_message_timestamp)`: false,
		`quantile(0.9, queue_depth)`:                   false,
		`sum({job="shop"})`:                            false,
		`up`:                                           false,
	} {
		q, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := q.Total(); got != want {
			t.Errorf("%s: Total() = %t, want %t", text, got, want)
		}
	}
}

func TestLatest(t *testing.T) {
	for text, want := range map[string]bool{
		`x`: true, `sum(x)`: true, `sum(rate(x[1m]))`: false, `rate(x[1m]) / y`: true, `max_over_time(x[5m:1m])`: true,
		`max_over_time(rate(x[1m])[5m:1m])`: false, `vector(1)`: false, `(x)`: true, `-max_over_time(x[1m])`: false,
	} {
		q, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := q.Latest(); got != want {
			t.Errorf("%s: Latest() = %t, want %t", text, got, want)
		}
	}
}

func TestUnfit(t *testing.T) {
	for text, want := range map[string]string{
		`x[5m]`:                "returns a range of samples for each series instead of one value: use a function such as avg_over_time(…) or rate(…)",
		`(sum(x)[5m:1m])`:      "returns a range of samples for each series instead of one value: use a function such as avg_over_time(…) or rate(…)",
		`"jobs"`:               "returns a string instead of a number",
		`5`:                    "",
		`scalar(x)`:            "",
		`x`:                    "",
		`max_over_time(x[5m])`: "",
	} {
		q, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := q.Unfit(); got != want {
			t.Errorf("%s: Unfit() = %q, want %q", text, got, want)
		}
	}
}

// TestParseFlagged checks queries that require feature flags of the server.
func TestParseFlagged(t *testing.T) {
	for text, want := range map[string][2]bool{
		`sum(x`:                 {false, false},
		`sort_by_label(x)`:      {false, true},
		`sort_by_label(x, "a")`: {false, true},
		`limitk(2, x)`:          {false, true},
		`rate(x[1m])`:           {true, true},
	} {
		_, plain := Parse(text)
		_, flagged := ParseFlagged(text)
		if got := [2]bool{plain == nil, flagged == nil}; got != want {
			t.Errorf("%s: parsed without and with flags = %t, want %t", text, got, want)
		}
	}
}
