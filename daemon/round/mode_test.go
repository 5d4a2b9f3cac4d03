package round_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/daemon/daemontest"
	"github.com/hpad/hpad/daemon/state"
	"github.com/hpad/hpad/policy"
)

func setMode(w *daemontest.World, name string, mode policy.Mode) {
	w.T.Helper()
	w.Config.Autoscalers[name].Mode = mode
	w.Reload()
	w.Advance(time.Millisecond)
}

// TestRecommend checks that mode "recommend" fills the window but adds no scale events, so that
// changing the mode to "on" causes neither a jump nor a rate limit.
func TestRecommend(t *testing.T) {
	daemontest.Run(t, func(t *testing.T, w *daemontest.World) {
		w.AddWithValue("web", 10, 10, func(a *config.Autoscaler) {
			a.Spec.Behavior = &policy.Behavior{
				ScaleUp: &policy.ScalingRules{Policies: []policy.ScalingPolicy{{Type: policy.InstancesPolicy, Value: 3, PeriodSeconds: 1800}}},
			}
			a.Mode = policy.ModeRecommend
			a.OnForeignChange = config.RestoreForeignChange
		})
		logs := w.Observed()
		w.Start()
		w.Source().Value("web", 20)
		w.Advance(2 * time.Minute)
		w.WantCount("web", 10)
		d := w.View("web").Decision
		if d.HeldBy != policy.HeldByMode || d.Write || d.DesiredReplicas != 13 || !strings.Contains(d.Message, "recommend") {
			t.Errorf("HeldBy = %q, desired = %d: %s", d.HeldBy, d.DesiredReplicas, d.Message)
		}
		if got := w.Condition("web", policy.ScalingLimited); got != "True/ModeRecommend" {
			t.Errorf("ScalingLimited = %s", got)
		}
		if got := daemontest.Messages(logs); slices.Index(got, "not rescaled") < 0 || slices.Index(got, "not rescaled") != len(got)-1 {
			t.Errorf("log = %q", got)
		}
		entries := w.HistoryOf("web")
		if held := slices.IndexFunc(entries, func(e state.Entry) bool { return e.Decision.HeldBy == policy.HeldByMode }); held < 0 || len(entries) > 3 {
			t.Errorf("%d history entries, want at most 3 and a held one", len(entries))
		}
		w.Source().Value("web", 4)
		w.Advance(time.Minute)
		setMode(w, "web", policy.ModeOn)
		w.WantCount("web", 10) // the window still contains the earlier 20
		w.Advance(6 * time.Minute)
		w.WantCount("web", 4)
		w.Source().Value("web", 20)
		w.Advance(15 * time.Second)
		w.WantCount("web", 13) // 3 above the 10 at the start of the period: recommendations are not scale events
		w.Stop()
	})
}
