package round_test

import (
	"testing"
	"time"

	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/daemon/daemontest"
	"github.com/hpad/hpad/daemon/state"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets/targettest"
)

func initially(initial, lowest int32) func(*config.Autoscaler) {
	return func(a *config.Autoscaler) { a.Spec.InitialReplicas, a.Spec.MinReplicas = &initial, &lowest }
}

// TestFirstStart checks that a new target at 0 starts with the higher of initial_replicas and
// min_replicas, and that a manual 0 then holds, also across a restart.
func TestFirstStart(t *testing.T) {
	for name, test := range map[string]struct {
		edit func(*config.Autoscaler)
		want int32
	}{
		"without the key":  {func(*config.Autoscaler) {}, 0},
		"initial_replicas": {initially(3, 1), 3},
		"min_replicas":     {initially(0, 2), 2},
	} {
		t.Run(name, func(t *testing.T) {
			daemontest.Run(t, func(t *testing.T, w *daemontest.World) {
				w.AddWithValue("web", 0, 3, test.edit, func(a *config.Autoscaler) {
					a.Spec.Behavior = &policy.Behavior{ScaleUp: &policy.ScalingRules{SelectPolicy: policy.DisabledChange}}
				})
				w.Start()
				w.Advance(time.Minute)
				w.WantCount("web", test.want)
				if test.want == 0 {
					return
				}
				w.ChangeReplicas(0)
				w.Advance(time.Minute)
				w.Stop()
				w.Start()
				w.Advance(time.Minute)
				w.WantCount("web", 0)
			})
		})
	}
}

// TestFirstStartByMetric checks that initial_replicas = 0 lets an activation start a new target,
// also after a restart and while the target does not exist yet.
func TestFirstStartByMetric(t *testing.T) {
	daemontest.Run(t, func(t *testing.T, w *daemontest.World) {
		w.Config.Daemon.ScaleToZero = true
		w.AddWithValue("web", 0, 2, initially(0, 0), func(a *config.Autoscaler) { a.Spec.Metrics[0].ActivationMilli = new(int64(4000)) })
		w.Fleet().Remove("web")
		w.Start()
		w.Advance(time.Minute)
		w.Fleet().Add("web", targettest.MemoryTarget{})
		w.Advance(time.Minute)
		w.WantCount("web", 0)
		w.Stop()
		w.Start()
		w.Advance(time.Minute)
		w.WantCount("web", 0)
		w.Source().Value("web", 5)
		w.Advance(time.Minute)
		w.WantCount("web", 5)
	})
}

// TestNoFirstStart lists zeros that are or may be manual.
func TestNoFirstStart(t *testing.T) {
	for name, test := range map[string]struct {
		count int32
		act   func(w *daemontest.World)
	}{
		"set by an operator": {0, func(w *daemontest.World) { _ = w.ScaleTo("web", 0, false) }},
		"the state was lost": {0, func(w *daemontest.World) {
			w.Stop()
			_ = w.Store.Commit(w.T.Context(), state.Changes{Deleted: []string{"web"}})
			w.Store.Lose(state.Loss{At: time.Now().UTC(), Part: state.MemoryPart, Message: "lost"})
			w.Start()
		}},
		"the fleet was renamed": {1, func(w *daemontest.World) {
			w.ChangeReplicas(0)
			w.Advance(time.Minute)
			w.Fleet().Add("same", targettest.MemoryTarget{})
			w.Config.Autoscalers["web"].Target = w.Fleet().Ref("same")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			daemontest.Run(t, func(t *testing.T, w *daemontest.World) {
				w.AddWithValue("web", test.count, 1)
				w.Start()
				w.Advance(time.Minute)
				test.act(w)
				w.Advance(time.Minute)
				initially(2, 1)(w.Config.Autoscalers["web"])
				w.Reload()
				w.Advance(time.Minute)
				if got := w.View("web").Status.CurrentReplicas; got != 0 {
					t.Errorf("current replicas = %d, want 0", got)
				}
			})
		})
	}
}
