package explain

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/policy"
)

// tick is the time of the decisions that are shown, now when they are looked at.
var (
	tick = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	now  = tick.Add(20 * time.Second)
)

// decided returns a decision that found 4 replicas.
func decided(wanted, desired int32) policy.Decision {
	return policy.Decision{
		Time: tick, Case: policy.CaseMetrics, CurrentReplicas: 4, DesiredReplicas: desired, Write: desired != 4,
		MinReplicas: 1, MaxReplicas: 10, Raw: &wanted, Recommendation: &wanted,
	}
}

func TestExplanationTellsWhatBecameOfTheWrite(t *testing.T) {
	for _, test := range []struct {
		name   string
		status policy.Status
		became api.Evaluation
		want   string
	}{
		{"written", policy.Status{LastScaleTime: tick}, api.Evaluation{Written: new(int32(6))}, "    written\n"},
		{"in part", policy.Status{}, api.Evaluation{Written: new(int32(5)), Error: "scale group: no\nroom"}, "    written in part, 5 of 6: scale group: no room\n"},
		{"not saved", policy.Status{}, api.Evaluation{Written: new(int32(6)), Error: "disk full"}, "    written, and not all of it went well: disk full\n"},
		{"dry run", policy.Status{}, api.Evaluation{DryRun: true}, "    not written: hpad is in a dry run\n"},
		{"held", policy.Status{}, api.Evaluation{Hold: &policy.Hold{Reason: "Deploying", Message: "wait"}}, "    not written: Deploying: wait\n"},
		{"failed", policy.Status{}, api.Evaluation{Error: "scale group: no"}, "    not written: scale group: no\n"},
		{"of an earlier version", policy.Status{LastScaleTime: tick.Add(-time.Hour)}, api.Evaluation{}, "    no write is recorded\n"},
		{"refused", policy.Status{Conditions: []policy.Condition{{
			Type: policy.AbleToScale, Status: policy.ConditionFalse, Reason: "FailedUpdateScale", Message: "quota exceeded",
		}}}, api.Evaluation{}, "    not written: FailedUpdateScale: quota exceeded\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var page bytes.Buffer
			decision := decided(6, 6)
			err := Write(&page, api.Explanation{Name: "checkout", Status: test.status, Evaluation: test.became, Decision: &decision}, time.UTC)
			if err != nil || !strings.Contains(page.String(), "4 → 6\n"+test.want) {
				t.Errorf("page %s, error %v; want %q", &page, err, test.want)
			}
		})
	}
}

func TestExplanationTellsHowLongTheWindowHolds(t *testing.T) {
	made := tick.Add(-10*time.Second - 123456789*time.Nanosecond)
	decision := decided(2, 4)
	decision.Stabilization = &policy.Stabilization{
		Replicas: 4, DownWindow: 5 * time.Minute, Reason: "ScaleDownStabilized",
		Binding: &policy.Recommendation{Replicas: 4, Time: made}, BindingLeaves: made.Add(5 * time.Minute),
	}
	var page bytes.Buffer
	const want = "    which counts up to 2026-11-21 12:04:49 +0000, 4m50s after this decision\n"
	if err := Write(&page, api.Explanation{Name: "checkout", Decision: &decision}, time.UTC); err != nil || !strings.Contains(page.String(), want) {
		t.Errorf("page %s, error %v; want %q", &page, err, want)
	}
}
