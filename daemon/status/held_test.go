package status_test

import (
	"slices"
	"testing"
	"time"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/daemontest"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/targettest"
)

// TestHeldByPlatform checks that health and readiness name a target whose platform accepts no change,
// whether a read or the write reported it.
func TestHeldByPlatform(t *testing.T) {
	hold := policy.Hold{Reason: "UpdatePaused", Message: "the update is paused"}
	want := api.Problem{Subject: "autoscaler web", Message: "UpdatePaused: the update is paused"}
	for name, change := range map[string]func(w *daemontest.World){
		"read": func(w *daemontest.World) {
			w.Fleet().Change("web", func(target *targettest.MemoryTarget) { target.Hold = &hold })
		},
		"write": func(w *daemontest.World) {
			w.Fleet().Inject(targettest.Fault{Call: targettest.WriteCall, Err: &targets.HeldError{Hold: hold}})
			w.Source().Value("web", 20)
		},
	} {
		t.Run(name, func(t *testing.T) {
			daemontest.Run(t, func(t *testing.T, w *daemontest.World) {
				w.AddWithValue("web", 5, 5)
				w.Start()
				shown := func() bool {
					return slices.Contains(w.Daemon.Health().HeldBack, want) && slices.Contains(w.Daemon.Readiness().Problems, want)
				}
				if shown() {
					t.Errorf("health shows a hold before it exists: %+v", w.Daemon.Health())
				}
				change(w)
				w.Advance(time.Minute)
				if !shown() {
					t.Errorf("health = %+v, readiness = %+v, want %+v", w.Daemon.Health(), w.Daemon.Readiness(), want)
				}
				if health := w.Daemon.Health(); !health.Strictly() {
					t.Error("a hold fails the strict check")
				}
				w.Stop()
			})
		})
	}
}
