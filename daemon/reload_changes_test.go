package daemon_test

import (
	"errors"
	"testing"
	"time"

	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/daemon/daemontest"
)

// TestReloadChanges checks that ReloadChanges returns the changes or the error of a reload without
// activating anything.
func TestReloadChanges(t *testing.T) {
	daemontest.Run(t, func(t *testing.T, w *daemontest.World) {
		w.AddWithValue("web", 3, 3)
		w.Start()
		w.Advance(time.Minute)
		if changes, err := w.Daemon.ReloadChanges(t.Context()); err != nil || len(changes) > 0 {
			t.Errorf("ReloadChanges without a change = %v, %v", changes, err)
		}
		edited := w.Config.Autoscalers["web"]
		edited.Spec.MaxReplicas = 50
		edited.Written = config.WrittenOf(map[string]any{"max_replicas": 50})
		w.AddWithValue("other", 3, 3)
		changes, err := w.Daemon.ReloadChanges(t.Context())
		if err != nil || len(changes) != 2 || changes[0].String() != "+ autoscalers.other" || changes[1].String() != "+ autoscalers.web.max_replicas: 50" {
			t.Errorf("ReloadChanges = %v, %v", changes, err)
		}
		w.Advance(time.Minute)
		if _, known := w.Daemon.Autoscaler("other"); known || w.View("web").Spec.MaxReplicas != 100 {
			t.Error("the change is active before the reload")
		}
		for range 2 { // changes that need a restart are shown again
			w.Config.Written = map[string]config.Written{"daemon": `{"listen":"127.0.0.1:1"}`}
			changes, err := w.Daemon.Reload(t.Context())
			if err != nil || len(changes) == 0 || changes[0].Key != "daemon.listen" || !changes[0].NextStart {
				t.Errorf("Reload = %v, %v, want the changes that need a restart", changes, err)
			}
		}
		if w.View("web").Spec.MaxReplicas != 50 {
			t.Error("the change is not active after the reload")
		}
		w.LoadErr = errors.New("hpad.toml:3: no")
		if changes, err := w.Daemon.ReloadChanges(t.Context()); !errors.Is(err, w.LoadErr) || changes != nil {
			t.Errorf("ReloadChanges = %v, %v", changes, err)
		}
		w.LoadErr = nil
		edited.Target.Fleet = "nowhere"
		w.Config.Autoscalers["web"] = edited
		if _, err := w.Daemon.ReloadChanges(t.Context()); err == nil {
			t.Error("ReloadChanges returned no error for an invalid configuration")
		}
		if problems := w.Daemon.Readiness().Problems; len(problems) > 0 {
			t.Errorf("problems = %v, want none, because ReloadChanges is no reload", problems)
		}
		w.Stop()
	})
}
