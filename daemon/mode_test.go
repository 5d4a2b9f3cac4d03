package daemon

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/daemon/state"
	"github.com/hpad/hpad/policy"
)

func (w *world) setMode(name string, mode policy.Mode) {
	w.t.Helper()
	w.config.Autoscalers[name].Mode = mode
	if _, err := w.daemon.Reload(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	w.advance(time.Millisecond)
}

// TestRecommend checks that mode "recommend" fills the window but adds no scale events, so that
// changing the mode to "on" causes neither a jump nor a rate limit.
func TestRecommend(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.fed("web", 10, 10, func(a *config.Autoscaler) {
			a.Spec.Behavior = &policy.Behavior{
				ScaleUp: &policy.ScalingRules{Policies: []policy.ScalingPolicy{{Type: policy.InstancesPolicy, Value: 3, PeriodSeconds: 1800}}},
			}
			a.Mode = policy.ModeRecommend
			a.OnForeignChange = config.RestoreForeignChange
		})
		logs := w.observed()
		w.start()
		w.source().value("web", 20)
		w.advance(2 * time.Minute)
		w.wantCount("web", 10)
		d := w.view("web").Decision
		if d.HeldBy != policy.HeldByMode || d.Write || d.DesiredReplicas != 13 || !strings.Contains(d.Message, "recommend") {
			t.Errorf("HeldBy = %q, desired = %d: %s", d.HeldBy, d.DesiredReplicas, d.Message)
		}
		if got := w.condition("web", policy.ScalingLimited); got != "True/ModeRecommend" {
			t.Errorf("ScalingLimited = %s", got)
		}
		if got := messages(logs); slices.Index(got, "not rescaled") < 0 || slices.Index(got, "not rescaled") != len(got)-1 {
			t.Errorf("log = %q", got)
		}
		entries, _ := w.store.History(t.Context(), "web", time.Time{}, time.Time{}, 0)
		if held := slices.IndexFunc(entries, func(e state.Entry) bool { return e.Decision.HeldBy == policy.HeldByMode }); held < 0 || len(entries) > 3 {
			t.Errorf("%d history entries, want at most 3 and a held one", len(entries))
		}
		w.source().value("web", 4)
		w.advance(time.Minute)
		w.setMode("web", policy.ModeOn)
		w.wantCount("web", 10) // the window still contains the earlier 20
		w.advance(6 * time.Minute)
		w.wantCount("web", 4)
		w.source().value("web", 20)
		w.advance(15 * time.Second)
		w.wantCount("web", 13) // 3 above the 10 at the start of the period: recommendations are not scale events
		w.stop()
	})
}
