package explain

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/policy"
)

// tick is the time of the decisions, now the time of the display.
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

func TestWriteWindow(t *testing.T) {
	made := tick.Add(-10*time.Second - 123456789*time.Nanosecond)
	decision := decided(2, 4)
	decision.Stabilization = &policy.Stabilization{
		Replicas: 4, DownWindow: 5 * time.Minute, Reason: "ScaleDownStabilized",
		Binding: &policy.Recommendation{Replicas: 4, Time: made}, BindingLeaves: made.Add(5 * time.Minute),
	}
	var page bytes.Buffer
	const want = "    which leaves the window at 2026-11-21 12:04:49 +0000, 4m50s after this decision\n"
	if err := Write(&page, api.Explanation{Name: "checkout", Decision: &decision}, time.UTC); err != nil || !strings.Contains(page.String(), want) {
		t.Errorf("page %s, error %v; want %q", &page, err, want)
	}
}
