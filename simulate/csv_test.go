package simulate_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/simulate"
)

// TestReadCSV reads rows in any order, with the counts that averages of instances need.
func TestReadCSV(t *testing.T) {
	p := policyOf("p", spec(1, 9, utilization(50), average("jobs", 5)))
	text := "time,metric,value\n1772409630,jobs,7.5\n1772409600,cpu,40\n2026-03-02 00:00:00,replicas,4\n2026-03-02T01:00:15+01:00,cpu,\n1772409600,jobs,3\n1772409630,cpu,60\n"
	recording, err := simulate.ReadCSV(strings.NewReader(text), "web", &p)
	if err != nil {
		t.Fatal(err)
	}
	if len(recording.Ticks) != 3 || recording.Step != 15*time.Second || !recording.CountsUnknown {
		t.Fatalf("got %+v", recording)
	}
	want := []simulate.Reading{
		{Milli: 160_000, Groups: &policy.Groups{Ready: 4}, Requests: &policy.Requests{Ready: 400_000}}, {Milli: 3000},
	}
	for i, got := range recording.Ticks[0].Readings {
		if got.Milli != want[i].Milli || got.Missing || i == 0 && (*got.Groups != *want[i].Groups || *got.Requests != *want[i].Requests) {
			t.Errorf("reading %d: got %+v, want %+v", i, got, want[i])
		}
	}
	if second := recording.Ticks[1]; !second.Readings[0].Missing || !second.Readings[1].Missing || second.Ready != 4 {
		t.Errorf("without values, got %+v", second)
	}
}

func TestReadCSVErrors(t *testing.T) {
	p := policyOf("p", spec(1, 9, average("jobs", 5)))
	for text, want := range map[string]string{
		"":                                   "the file has no values",
		"1,jobs\n":                           "each row must have a time, a metric and a value",
		"1,jobs,2\nnow,jobs,2\n":             `line 2: "now" is not a time`,
		"1,jobs,2\n2,jobs,many\n":            `line 2: "many" is not a number`,
		"1,jobs,2\n1,jobs,3\n":               `line 2: metric "jobs" has two values at 1`,
		"1,requests,2\n2,requests,3\n":       `the file has no metric "jobs"; it has requests`,
		"# a comment\n1,other,2\n2,more,3\n": `the file has no metric "jobs"; it has more, other`,
	} {
		if _, err := simulate.ReadCSV(strings.NewReader(text), "web", &p); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %s", text, err, want)
		}
	}
}

// BenchmarkTrace reads the requests of a real load balancer, and simulates two policies over 4 days.
func BenchmarkTrace(b *testing.B) {
	text, err := os.ReadFile("testdata/nab/elb.csv")
	if err != nil {
		b.Fatal(err)
	}
	active, other := policyOf("active", spec(2, 40, average("requests", 20))), policyOf("other", spec(2, 40, average("requests", 25)))
	for b.Loop() {
		recording, err := simulate.ReadCSV(strings.NewReader(string(text)), "web", &active)
		if err != nil {
			b.Fatal(err)
		}
		run(b, recording, simulate.Assumptions{}, active, other)
	}
}
