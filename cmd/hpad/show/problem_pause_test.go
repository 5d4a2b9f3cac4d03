package show

import (
	"strings"
	"testing"
	"time"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/policy"
)

// TestPausesBesideTrouble holds that neither a pause nor what is wrong hides the other.
func TestPausesBesideTrouble(t *testing.T) {
	var view api.Autoscaler
	view.Pauses = []policy.Pause{{Message: "scale-downs are paused for all autoscalers"}, {Message: "paused by alice: deploy"}}
	view.Evaluation.Error = "query source \"prom\": connection refused"
	got := problem(view, time.Now())
	for _, want := range []string{"paused by alice: deploy", "scale-downs are paused for all autoscalers", "connection refused"} {
		if !strings.Contains(got, want) {
			t.Errorf("it says %q, and nothing of %q", got, want)
		}
	}
	view = api.Autoscaler{Mode: policy.ModeUpOnly}
	if got := problem(view, time.Now()); got != api.ModeText(policy.ModeUpOnly) {
		t.Errorf("the mode alone says %q", got)
	}
}
