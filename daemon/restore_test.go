package daemon

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/targettest"
)

// deploying is the hold of a platform during a deployment.
var deploying = &policy.Hold{Reason: "DeploymentActive", Message: "a deployment is under way"}

// newRestoringWorld returns a world with an autoscaler whose target has 20 replicas and that
// restores this count. Its metric also requests 20. From 1 replica, R57 alone would permit 4, 8, 16
// and then 20.
func newRestoringWorld(t *testing.T) (w *world, start time.Time) {
	w = newWorld(t)
	w.queue("web", 20, restores)
	w.source().value("web", 20)
	start = time.Now()
	w.start()
	w.advance(80 * time.Second)
	return w, start
}

func restores(a *config.Autoscaler) { a.OnForeignChange = config.RestoreForeignChange }

// deploy simulates an external writer that sets the count and starts a deployment.
func (w *world) deploy(replicas int32) {
	w.fleet().Change("web", func(target *targettest.MemoryTarget) { target.Replicas, target.Hold = replicas, deploying })
}

// deployed ends the deployment.
func (w *world) deployed() {
	w.fleet().Change("web", func(target *targettest.MemoryTarget) { target.Hold = nil })
}

// scale simulates an external writer that sets the count without a deployment.
func (w *world) scale(replicas int32) {
	w.fleet().Change("web", func(target *targettest.MemoryTarget) { target.Replicas = replicas })
}

// edit changes the autoscaler and reloads the configuration.
func (w *world) edit(name string, change func(*config.Autoscaler)) {
	w.t.Helper()
	change(w.config.Autoscalers[name])
	if _, err := w.daemon.Reload(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
}

// TestRestoreLasts checks that a count is restored as soon as possible. Each case starts ten
// seconds before the round at 1m30s.
func TestRestoreLasts(t *testing.T) {
	for _, test := range []struct {
		name string
		// steps runs the events up to the round in which the count can be restored.
		steps func(w *world)
		want  []string
	}{
		{"through a hold", func(w *world) {
			w.deploy(1)
			w.advance(10 * time.Minute)
			w.deployed()
		}, []string{"11m30s: 1>20"}},
		{"through a hold that the write detects", func(w *world) {
			w.fleet().Inject(targettest.Fault{Call: targettest.WriteCall, Times: 3, Err: &targets.HeldError{Hold: *deploying}})
			w.scale(1)
			w.advance(40 * time.Second)
		}, []string{"2m15s: 1>20"}},
		{"through writes that fail", func(w *world) {
			w.fleet().Inject(targettest.Fault{Call: targettest.WriteCall, Times: 3, Err: errors.New("unavailable")})
			w.scale(1)
			w.advance(40 * time.Second)
		}, []string{"2m15s: 1>20"}},
		{"through a write that hangs", func(w *world) {
			w.fleet().Inject(targettest.Fault{Call: targettest.WriteCall, Times: 1, Hang: true})
			w.scale(1)
			w.advance(25 * time.Second)
		}, []string{"1m45s: 1>20", "2m0s: 1>20"}}, // the first write times out at the beginning of the round of 1m45s
		{"through a lost response, which is one write", func(w *world) {
			w.fleet().Inject(targettest.Fault{Call: targettest.WriteCall, Times: 1, Lost: true})
			w.scale(1)
			w.advance(time.Minute)
		}, []string{"1m30s: 1>20"}},
		{"through part of a write", func(w *world) {
			w.fleet().Inject(targettest.Fault{Call: targettest.WriteCall, Times: 1, Reach: new(int32(3))})
			w.scale(1)
			w.advance(25 * time.Second)
		}, []string{"1m45s: 3>20"}},
		{"through readings that fail", func(w *world) {
			w.deploy(1)
			w.advance(20 * time.Second)
			w.fleet().Inject(targettest.Fault{Call: targettest.SnapshotCall, Times: 4, Err: errors.New("unavailable")})
			w.advance(time.Minute)
			w.deployed()
		}, []string{"2m45s: 1>20"}},
		{"through a restart", func(w *world) {
			w.deploy(1)
			w.advance(20 * time.Second)
			w.stop()
			w.start()
			w.deployed()
		}, []string{"1m45s: 1>20"}},
		{"through a kill", func(w *world) {
			w.deploy(1)
			w.advance(20 * time.Second)
			killed := w.store.copied()
			w.stop()
			w.store = killed
			w.deployed()
			w.start()
		}, []string{"1m45s: 1>20"}},
		{"through a reload that changes something else", func(w *world) {
			w.deploy(1)
			w.advance(20 * time.Second)
			w.edit("web", func(a *config.Autoscaler) {
				a.Spec.Behavior = policy.Default(policy.Spec{Behavior: &policy.Behavior{}}).Behavior
			})
			w.advance(time.Second)
			w.deployed()
		}, []string{"1m45s: 1>20"}},
		{"from below min", func(w *world) {
			w.edit("web", func(a *config.Autoscaler) { a.Spec.MinReplicas = new(int32(5)) })
			w.deploy(1)
			w.advance(time.Minute)
			w.deployed()
		}, []string{"2m30s: 1>20"}},
		{"after another external change", func(w *world) {
			w.deploy(1)
			w.advance(20 * time.Second)
			w.deploy(2)
			w.advance(15 * time.Second)
			w.deployed()
		}, []string{"2m0s: 2>20"}},
		{"after another external change during a downtime", func(w *world) {
			w.deploy(1)
			w.advance(20 * time.Second)
			w.stop()
			w.deploy(30)
			w.start()
			w.advance(20 * time.Second)
			w.deployed()
		}, []string{"2m15s: 30>20"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, start := newRestoringWorld(t)
				test.steps(w)
				w.advance(16 * time.Second)
				got := w.writes("web", start)
				if hung := []string{"1m45s: 1>20", "1m45s: 1>20"}; cmp.Equal(got, hung) { // the first write timed out before the round of 1m45s
					got[1] = "2m0s: 1>20"
				}
				if diff := cmp.Diff(test.want, got); diff != "" {
					t.Errorf("writes (-want +got):\n%s", diff)
				}
				if got := w.view("web").Restore; got != nil {
					t.Errorf("Restore = %+v, want nil after the restoration", got)
				}
				if record, _ := w.store.record("web"); record.Restore != nil {
					t.Errorf("the stored Restore = %+v, want nil", record.Restore)
				}
				w.advance(time.Minute) // the metrics decide again
				w.source().value("web", 24)
				w.advance(15 * time.Second)
				if got := w.fleet().Replicas("web"); got != 24 {
					t.Errorf("%d replicas after the metric changed, want 24", got)
				}
				w.stop()
			})
		})
	}
}

// TestRestoreEnds checks cases in which a count is no longer restored.
func TestRestoreEnds(t *testing.T) {
	for _, test := range []struct {
		name  string
		steps func(w *world)
		want  []string
	}{
		{"with new bounds", func(w *world) {
			w.edit("web", func(a *config.Autoscaler) { a.Spec.MaxReplicas = 10 })
		}, []string{"1m45s: 1>4", "2m0s: 4>8", "2m15s: 8>10"}},
		{"with a new min", func(w *world) {
			w.edit("web", func(a *config.Autoscaler) { a.Spec.MinReplicas = new(int32(2)) })
		}, []string{"1m45s: 1>2", "2m0s: 2>4", "2m15s: 4>8", "2m30s: 8>16", "2m45s: 16>20"}},
		{"with new bounds during a downtime", func(w *world) {
			w.stop()
			w.config.Autoscalers["web"].Spec.MaxReplicas = 10
			w.start()
		}, []string{"1m45s: 1>4", "2m0s: 4>8", "2m15s: 8>10"}},
		{"when foreign changes are accepted", func(w *world) {
			w.edit("web", func(a *config.Autoscaler) { a.OnForeignChange = config.AcceptForeignChange })
		}, []string{"1m45s: 1>4", "2m0s: 4>8", "2m15s: 8>16", "2m30s: 16>20"}},
		{"with the autoscaler, which is added again", func(w *world) {
			a := w.config.Autoscalers["web"]
			delete(w.config.Autoscalers, "web")
			if _, err := w.daemon.Reload(w.t.Context()); err != nil {
				w.t.Fatal(err)
			}
			w.config.Autoscalers["web"] = a
			if _, err := w.daemon.Reload(w.t.Context()); err != nil {
				w.t.Fatal(err)
			}
		}, []string{"1m45s: 1>4", "2m0s: 4>8", "2m15s: 8>16", "2m30s: 16>20"}},
		{"after an external writer restored the count", func(w *world) {
			w.deploy(20)
			w.advance(15 * time.Second)
			w.source().value("web", 25)
		}, []string{"2m0s: 20>25"}},
		{"after an operator disabled and enabled the autoscaler (R51)", func(w *world) {
			w.deploy(0)
			w.advance(15 * time.Second)
			w.deploy(3)
		}, []string{"2m0s: 3>6", "2m15s: 6>12", "2m30s: 12>20"}},
		{"in a dry run", func(w *world) {
			w.stop()
			w.dryRun = true
			w.start()
			w.advance(15 * time.Second)
			w.stop()
			w.dryRun = false
			w.start()
		}, []string{"2m0s: 1>4", "2m15s: 4>8", "2m30s: 8>16", "2m45s: 16>20"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, start := newRestoringWorld(t)
				w.deploy(1)
				w.advance(15 * time.Second)
				if got := w.view("web").Restore; got == nil || got.Replicas != 20 || got.Foreign != 1 || !got.Since.Equal(start.Add(90*time.Second)) {
					t.Errorf("Restore = %+v, want a count of 20, changed to 1 at 1m30s", got)
				}
				test.steps(w)
				w.advance(time.Second) // the hold still applies in the evaluation after the reload
				w.deployed()
				w.advance(2 * time.Minute)
				if diff := cmp.Diff(test.want, w.writes("web", start)); diff != "" {
					t.Errorf("writes (-want +got):\n%s", diff)
				}
				if got := w.view("web").Restore; got != nil {
					t.Errorf("Restore = %+v, want nil after the restoration", got)
				}
				w.stop()
			})
		})
	}
}
