package show

import (
	"strings"
	"testing"
	"time"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/explain"
	"github.com/hpad/hpad/policy"
)

// TestPausesBesideTrouble holds that neither a pause nor what is wrong hides the other.
func TestPausesBesideTrouble(t *testing.T) {
	var view api.Autoscaler
	view.Pauses = []policy.Pause{{Message: "scale-downs are paused for all autoscalers"}, {Message: "paused by alice: deploy"}}
	view.Evaluation.Error = "query source \"prom\": connection refused"
	got := explain.Problem(view, time.Now())
	for _, want := range []string{"paused by alice: deploy", "scale-downs are paused for all autoscalers", "connection refused"} {
		if !strings.Contains(got, want) {
			t.Errorf("it says %q, and nothing of %q", got, want)
		}
	}
	view = api.Autoscaler{Mode: policy.ModeUpOnly}
	if got := explain.Problem(view, time.Now()); got != api.ModeText(policy.ModeUpOnly) {
		t.Errorf("the mode alone says %q", got)
	}
}

// TestHistoryHasPauses holds that an entry names a pause that began, once.
func TestHistoryHasPauses(t *testing.T) {
	entry := api.Recorded{Decision: policy.Decision{Case: policy.CaseMetrics, CurrentReplicas: 4, DesiredReplicas: 4}}
	entry.Events = []policy.Event{{Reason: "Paused", Message: "paused by alice: deploy"}}
	if got := explain.Why(entry, time.UTC); strings.Count(got, "aused by alice: deploy") != 1 {
		t.Errorf("it says %q", got)
	}
}
