package records_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/daemon/daemontest"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/targettest"
)

// deploying is the hold of a platform during a deployment.
var deploying = &policy.Hold{Reason: "DeploymentActive", Message: "a deployment is under way"}

// newRestoringWorld returns a world with an autoscaler whose target has 20 replicas and that
// restores this count. Its metric also requests 20. From 1 replica, R57 alone would permit 4, 8, 16
// and then 20.
func newRestoringWorld(t *testing.T) (w *daemontest.World, start time.Time) {
	w = daemontest.New(t)
	w.Add("web", 20, restores)
	w.Source().Value("web", 20)
	start = time.Now()
	w.Start()
	w.Advance(80 * time.Second)
	return w, start
}

func restores(a *config.Autoscaler) { a.OnForeignChange = config.RestoreForeignChange }

// deploy simulates an external writer that sets the count and starts a deployment.
func deploy(w *daemontest.World, replicas int32) {
	w.Fleet().Change("web", func(target *targettest.MemoryTarget) { target.Replicas, target.Hold = replicas, deploying })
}

// deployed ends the deployment.
func deployed(w *daemontest.World) {
	w.Fleet().Change("web", func(target *targettest.MemoryTarget) { target.Hold = nil })
}

// edit changes the autoscaler and reloads the configuration.
func edit(w *daemontest.World, name string, change func(*config.Autoscaler)) {
	w.T.Helper()
	change(w.Config.Autoscalers[name])
	w.Reload()
}

// TestRestoreLasts checks that a count is restored as soon as possible. Each case starts ten
// seconds before the round at 1m30s.
func TestRestoreLasts(t *testing.T) {
	for _, test := range []struct {
		name string
		// steps runs the events up to the round in which the count can be restored.
		steps func(w *daemontest.World)
		want  []string
	}{
		{"through a hold", func(w *daemontest.World) {
			deploy(w, 1)
			w.Advance(10 * time.Minute)
			deployed(w)
		}, []string{"11m30s: 1>20"}},
		{"through a hold that the write detects", func(w *daemontest.World) {
			w.Fleet().Inject(targettest.Fault{Call: targettest.WriteCall, Times: 3, Err: &targets.HeldError{Hold: *deploying}})
			w.ChangeReplicas(1)
			w.Advance(40 * time.Second)
		}, []string{"2m15s: 1>20"}},
		{"through writes that fail", func(w *daemontest.World) {
			w.Fleet().Inject(targettest.Fault{Call: targettest.WriteCall, Times: 3, Err: errors.New("unavailable")})
			w.ChangeReplicas(1)
			w.Advance(40 * time.Second)
		}, []string{"2m15s: 1>20"}},
		{"through a write that hangs", func(w *daemontest.World) {
			w.Fleet().Inject(targettest.Fault{Call: targettest.WriteCall, Times: 1, Hang: true})
			w.ChangeReplicas(1)
			w.Advance(25 * time.Second)
		}, []string{"1m45s: 1>20", "2m0s: 1>20"}}, // the first write times out at the beginning of the round of 1m45s
		{"through a lost response, which is one write", func(w *daemontest.World) {
			w.Fleet().Inject(targettest.Fault{Call: targettest.WriteCall, Times: 1, Lost: true})
			w.ChangeReplicas(1)
			w.Advance(time.Minute)
		}, []string{"1m30s: 1>20"}},
		{"through part of a write", func(w *daemontest.World) {
			w.Fleet().Inject(targettest.Fault{Call: targettest.WriteCall, Times: 1, Reach: new(int32(3))})
			w.ChangeReplicas(1)
			w.Advance(25 * time.Second)
		}, []string{"1m45s: 3>20"}},
		{"through readings that fail", func(w *daemontest.World) {
			deploy(w, 1)
			w.Advance(20 * time.Second)
			w.Fleet().Inject(targettest.Fault{Call: targettest.SnapshotCall, Times: 4, Err: errors.New("unavailable")})
			w.Advance(time.Minute)
			deployed(w)
		}, []string{"2m45s: 1>20"}},
		{"through a restart", func(w *daemontest.World) {
			deploy(w, 1)
			w.Advance(20 * time.Second)
			w.Stop()
			w.Start()
			deployed(w)
		}, []string{"1m45s: 1>20"}},
		{"through a kill", func(w *daemontest.World) {
			deploy(w, 1)
			w.Advance(20 * time.Second)
			killed := w.Store.Copied()
			w.Stop()
			w.Store = killed
			deployed(w)
			w.Start()
		}, []string{"1m45s: 1>20"}},
		{"through a reload that changes something else", func(w *daemontest.World) {
			deploy(w, 1)
			w.Advance(20 * time.Second)
			edit(w, "web", func(a *config.Autoscaler) {
				a.Spec.Behavior = policy.Default(policy.Spec{Behavior: &policy.Behavior{}}).Behavior
			})
			w.Advance(time.Second)
			deployed(w)
		}, []string{"1m45s: 1>20"}},
		{"from below min", func(w *daemontest.World) {
			edit(w, "web", func(a *config.Autoscaler) { a.Spec.MinReplicas = new(int32(5)) })
			deploy(w, 1)
			w.Advance(time.Minute)
			deployed(w)
		}, []string{"2m30s: 1>20"}},
		{"after another external change", func(w *daemontest.World) {
			deploy(w, 1)
			w.Advance(20 * time.Second)
			deploy(w, 2)
			w.Advance(15 * time.Second)
			deployed(w)
		}, []string{"2m0s: 2>20"}},
		{"after another external change during a downtime", func(w *daemontest.World) {
			deploy(w, 1)
			w.Advance(20 * time.Second)
			w.Stop()
			deploy(w, 30)
			w.Start()
			w.Advance(20 * time.Second)
			deployed(w)
		}, []string{"2m15s: 30>20"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, start := newRestoringWorld(t)
				test.steps(w)
				w.Advance(16 * time.Second)
				got := w.Writes("web", start)
				if hung := []string{"1m45s: 1>20", "1m45s: 1>20"}; cmp.Equal(got, hung) { // the first write timed out before the round of 1m45s
					got[1] = "2m0s: 1>20"
				}
				if diff := cmp.Diff(test.want, got); diff != "" {
					t.Errorf("writes (-want +got):\n%s", diff)
				}
				if got := w.View("web").Restore; got != nil {
					t.Errorf("Restore = %+v, want nil after the restoration", got)
				}
				if record, _ := w.Store.Record("web"); record.Restore != nil {
					t.Errorf("the stored Restore = %+v, want nil", record.Restore)
				}
				w.Advance(time.Minute) // the metrics decide again
				w.Source().Value("web", 24)
				w.Advance(15 * time.Second)
				if got := w.Fleet().Replicas("web"); got != 24 {
					t.Errorf("%d replicas after the metric changed, want 24", got)
				}
				w.Stop()
			})
		})
	}
}

// TestRestoreEnds checks cases in which a count is no longer restored.
func TestRestoreEnds(t *testing.T) {
	for _, test := range []struct {
		name  string
		steps func(w *daemontest.World)
		want  []string
	}{
		{"with new bounds", func(w *daemontest.World) {
			edit(w, "web", func(a *config.Autoscaler) { a.Spec.MaxReplicas = 10 })
		}, []string{"1m45s: 1>4", "2m0s: 4>8", "2m15s: 8>10"}},
		{"with a new min", func(w *daemontest.World) {
			edit(w, "web", func(a *config.Autoscaler) { a.Spec.MinReplicas = new(int32(2)) })
		}, []string{"1m45s: 1>2", "2m0s: 2>4", "2m15s: 4>8", "2m30s: 8>16", "2m45s: 16>20"}},
		{"with new bounds during a downtime", func(w *daemontest.World) {
			w.Stop()
			w.Config.Autoscalers["web"].Spec.MaxReplicas = 10
			w.Start()
		}, []string{"1m45s: 1>4", "2m0s: 4>8", "2m15s: 8>10"}},
		{"when foreign changes are accepted", func(w *daemontest.World) {
			edit(w, "web", func(a *config.Autoscaler) { a.OnForeignChange = config.AcceptForeignChange })
		}, []string{"1m45s: 1>4", "2m0s: 4>8", "2m15s: 8>16", "2m30s: 16>20"}},
		{"with the autoscaler, which is added again", func(w *daemontest.World) {
			a := w.Config.Autoscalers["web"]
			delete(w.Config.Autoscalers, "web")
			w.Reload()
			w.Config.Autoscalers["web"] = a
			w.Reload()
		}, []string{"1m45s: 1>4", "2m0s: 4>8", "2m15s: 8>16", "2m30s: 16>20"}},
		{"after an external writer restored the count", func(w *daemontest.World) {
			deploy(w, 20)
			w.Advance(15 * time.Second)
			w.Source().Value("web", 25)
		}, []string{"2m0s: 20>25"}},
		{"after an operator disabled and enabled the autoscaler (R51)", func(w *daemontest.World) {
			deploy(w, 0)
			w.Advance(15 * time.Second)
			deploy(w, 3)
		}, []string{"2m0s: 3>6", "2m15s: 6>12", "2m30s: 12>20"}},
		{"in a dry run", func(w *daemontest.World) {
			w.Stop()
			w.DryRun = true
			w.Start()
			w.Advance(15 * time.Second)
			w.Stop()
			w.DryRun = false
			w.Start()
		}, []string{"2m0s: 1>4", "2m15s: 4>8", "2m30s: 8>16", "2m45s: 16>20"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, start := newRestoringWorld(t)
				deploy(w, 1)
				w.Advance(15 * time.Second)
				if got := w.View("web").Restore; got == nil || got.Replicas != 20 || got.Foreign != 1 || !got.Since.Equal(start.Add(90*time.Second)) {
					t.Errorf("Restore = %+v, want a count of 20, changed to 1 at 1m30s", got)
				}
				test.steps(w)
				w.Advance(time.Second) // the hold still applies in the evaluation after the reload
				deployed(w)
				w.Advance(2 * time.Minute)
				if diff := cmp.Diff(test.want, w.Writes("web", start)); diff != "" {
					t.Errorf("writes (-want +got):\n%s", diff)
				}
				if got := w.View("web").Restore; got != nil {
					t.Errorf("Restore = %+v, want nil after the restoration", got)
				}
				w.Stop()
			})
		})
	}
}
