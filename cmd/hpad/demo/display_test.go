package demo

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/policy"
)

var start = time.Date(2026, 11, 21, 12, 0, 20, 0, time.UTC)

// decision returns a decision some seconds after start.
func decision(second int, from, to int32) api.Autoscaler {
	at := start.Add(time.Duration(second) * time.Second)
	busy := int64(820)
	view := api.Autoscaler{Decision: &policy.Decision{
		Time: at, Case: policy.CaseMetrics, CurrentReplicas: from, DesiredReplicas: to, Write: from != to,
		Metrics: []policy.MetricResult{
			{Type: policy.ExternalMetric, Name: "queue", Error: "no sample"},
			{
				Type: policy.InstancesMetric, Name: "busy", TargetType: policy.AverageValueTarget, TargetValue: 700, Proposal: to,
				Current: policy.MetricStatus{AverageValueMilli: &busy}, Ratio: new(1.17),
			},
		},
	}}
	if from != to {
		view.Status.LastScaleTime, view.Evaluation.Written = at, &to
	}
	return view
}

// counts returns a fleet that went through a sequence of counts.
func counts(all ...int32) *fleet {
	f := new(fleet)
	for i := range all {
		to := all[min(i+1, len(all)-1)]
		f.add(decision(i, all[i], to).Decision, to != all[i])
	}
	return f
}

func TestVerdict(t *testing.T) {
	const (
		notGrown  = "the fleet did not grow: it never had more workers than the 2 at the start"
		notShrunk = "the fleet did not shrink: it grew from 2 to 5 workers and stayed there"
	)
	for _, test := range []struct {
		name  string
		fleet *fleet
		want  string
	}{
		{"no decision", counts(), "no decision was made, so the fleet did not grow"},
		{"steady", counts(2, 2, 2), notGrown},
		{"only down", counts(2, 1, 1), notGrown},
		{"only up", counts(2, 3, 5, 5), notShrunk},
		{"down before the maximum", counts(2, 4, 3, 5), notShrunk},
		{"up and down", counts(2, 5, 4), ""},
		{"up, down and up again", counts(2, 5, 4, 5), ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := ""
			if err := test.fleet.verdict(); err != nil {
				got = err.Error()
			}
			if got != test.want {
				t.Errorf("verdict = %q, want %q", got, test.want)
			}
		})
	}
}

// TestIntroduction compares the introduction with docs/cli.md.
func TestIntroduction(t *testing.T) {
	page, err := os.ReadFile("../../../docs/cli.md")
	if err != nil {
		t.Fatal(err)
	}
	intro := introduction(Example(2 * time.Minute))
	if text := strings.Join(intro[:4], "\n"); !strings.Contains(string(page), "\n"+text+"\n") {
		t.Errorf("docs/cli.md lacks the introduction:\n%s", text)
	}
}
