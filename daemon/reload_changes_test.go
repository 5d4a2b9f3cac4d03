package daemon

import (
	"errors"
	"testing"
	"time"

	"github.com/hpad/hpad/daemon/config"
)

// TestReloadChanges checks that ReloadChanges returns the changes or the error of a reload without
// activating anything.
func TestReloadChanges(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.fed("web", 3, 3)
		w.start()
		w.advance(time.Minute)
		if changes, err := w.daemon.ReloadChanges(t.Context()); err != nil || len(changes) > 0 {
			t.Errorf("ReloadChanges without a change = %v, %v", changes, err)
		}
		edited := w.config.Autoscalers["web"]
		edited.Spec.MaxReplicas = 50
		edited.Written = config.WrittenOf(map[string]any{"max_replicas": 50})
		w.config.Autoscalers["web"] = edited
		w.fed("other", 3, 3)
		changes, err := w.daemon.ReloadChanges(t.Context())
		if err != nil || len(changes) != 2 || changes[0].String() != "+ autoscalers.other" || changes[1].String() != "+ autoscalers.web.max_replicas: 50" {
			t.Errorf("ReloadChanges = %v, %v", changes, err)
		}
		w.advance(time.Minute)
		if _, known := w.daemon.Autoscaler("other"); known || w.view("web").Spec.MaxReplicas != 100 {
			t.Error("the change is active before the reload")
		}
		for range 2 { // changes that need a restart are shown again
			w.config.Written = map[string]config.Written{"daemon": `{"listen":"127.0.0.1:1"}`}
			changes, err := w.daemon.Reload(t.Context())
			if err != nil || len(changes) == 0 || changes[0].Key != "daemon.listen" || !changes[0].NextStart {
				t.Errorf("Reload = %v, %v, want the changes that need a restart", changes, err)
			}
		}
		if w.view("web").Spec.MaxReplicas != 50 {
			t.Error("the change is not active after the reload")
		}
		w.loadErr = errors.New("hpad.toml:3: no")
		if changes, err := w.daemon.ReloadChanges(t.Context()); !errors.Is(err, w.loadErr) || changes != nil {
			t.Errorf("ReloadChanges = %v, %v", changes, err)
		}
		w.loadErr = nil
		edited.Target.Fleet = "nowhere"
		w.config.Autoscalers["web"] = edited
		if _, err := w.daemon.ReloadChanges(t.Context()); err == nil {
			t.Error("ReloadChanges returned no error for an invalid configuration")
		}
		if problems := w.daemon.Readiness().Problems; len(problems) > 0 {
			t.Errorf("problems = %v, want none, because ReloadChanges is no reload", problems)
		}
		w.stop()
	})
}
