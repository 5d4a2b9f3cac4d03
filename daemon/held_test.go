package daemon

import (
	"slices"
	"testing"
	"time"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/targettest"
)

// TestHeldByPlatform checks that health and readiness name a target whose platform accepts no change,
// whether a read or the write reported it.
func TestHeldByPlatform(t *testing.T) {
	hold := policy.Hold{Reason: "UpdatePaused", Message: "the update is paused"}
	want := api.Problem{Subject: "autoscaler web", Message: "UpdatePaused: the update is paused"}
	for name, change := range map[string]func(w *world){
		"read": func(w *world) {
			w.fleet().Change("web", func(target *targettest.MemoryTarget) { target.Hold = &hold })
		},
		"write": func(w *world) {
			w.fleet().Inject(targettest.Fault{Call: targettest.WriteCall, Err: &targets.HeldError{Hold: hold}})
			w.source().value("web", 20)
		},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.fed("web", 5, 5)
				w.start()
				shown := func() bool {
					return slices.Contains(w.daemon.Health().HeldBack, want) && slices.Contains(w.daemon.Readiness().Problems, want)
				}
				if shown() {
					t.Errorf("health shows a hold before it exists: %+v", w.daemon.Health())
				}
				change(w)
				w.advance(time.Minute)
				if !shown() {
					t.Errorf("health = %+v, readiness = %+v, want %+v", w.daemon.Health(), w.daemon.Readiness(), want)
				}
				if health := w.daemon.Health(); !health.Strictly() {
					t.Error("a hold fails the strict check")
				}
				w.stop()
			})
		})
	}
}
