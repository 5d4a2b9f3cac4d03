package show

import (
	"strings"
	"testing"
	"time"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/explain"
	"github.com/hpad/hpad/policy"
)

// TestPausesBesideTrouble checks that pauses and problems are both shown.
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

// TestPausedSince checks the start time of a pause.
func TestPausedSince(t *testing.T) {
	noon := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	view := api.Autoscaler{Name: "web", Pauses: []policy.Pause{{Message: "paused by alice: deploy", Since: noon}}}
	var text strings.Builder
	if err := Autoscaler(&text, view, api.InstanceList{}, 20, noon.Add(2*time.Hour)); err != nil {
		t.Fatal(err)
	}
	if want := "Paused since:   Sat, 21 Nov 2026 12:00:00 +0000 (120m ago)\n"; !strings.Contains(text.String(), want) {
		t.Errorf("it does not say %q:\n%s", want, text.String())
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
