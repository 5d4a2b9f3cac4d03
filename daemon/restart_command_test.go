package daemon_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/daemontest"
	"github.com/hpad/hpad/daemon/explain"
	"github.com/hpad/hpad/daemon/kinds"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/swarm"
	"github.com/hpad/hpad/targets/targettest"
)

// restartFleet is a fleet whose restarts return err.
type restartFleet struct {
	targets.Fleet
	err error
}

func (f restartFleet) Restart(context.Context, targets.Ref) error { return f.err }

// TestRestartCommand checks that a requested restart reaches the fleet and is recorded with its
// author, and the errors of restarts that are not possible.
func TestRestartCommand(t *testing.T) {
	restarting := func(err error) func(*targettest.Memory) targets.Fleet {
		return func(memory *targettest.Memory) targets.Fleet { return restartFleet{memory, err} }
	}
	for _, c := range []struct {
		name   string
		change func(w *daemontest.World)
		target string
		class  error
		words  string
	}{
		{"accepted", func(*daemontest.World) {}, "web", nil, ""},
		{"unknown", func(*daemontest.World) {}, "nothing", api.ErrUnknown, "nothing"},
		{"dry run", func(w *daemontest.World) { w.DryRun = true }, "web", api.ErrRefused, api.DryRun},
		{"rejected", func(w *daemontest.World) { w.FleetKind = restarting(targets.ErrForbidden) }, "web", api.ErrRefused, "forbidden"},
		{"unknown outcome", func(w *daemontest.World) { w.FleetKind = restarting(targets.ErrUnknownOutcome) }, "web", api.ErrUnknownOutcome, ""},
		{"other kind", func(w *daemontest.World) { w.FleetKind, w.Kind = nil, "nomad" }, "web", api.ErrRefused, `run "nomad job restart -group GROUP JOB"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			daemontest.Run(t, func(t *testing.T, w *daemontest.World) {
				w.AddWithValue("web", 2, 2)
				w.FleetKind = restarting(nil)
				c.change(w)
				w.Start()
				w.Advance(time.Minute)
				err := w.Daemon.Restart(api.WithAuthor(t.Context(), "alice"), c.target)
				if !errors.Is(err, c.class) || c.class != nil && !strings.Contains(err.Error(), c.words) {
					t.Errorf("Restart() = %v, want %v with %q", err, c.class, c.words)
				}
				w.Advance(time.Second)
				recorded := 0
				for _, entry := range w.HistoryOf("web") {
					shown := api.Recorded{Time: entry.Time, Decision: entry.Decision, Events: entry.Events}
					if strings.Contains(explain.Why(shown, time.UTC), "restart of all instances was requested by alice") && shown.Changed() {
						recorded++
					}
				}
				if (recorded == 1) != (c.class == nil) {
					t.Errorf("%d history entries of the restart", recorded)
				}
				w.Stop()
			})
		})
	}
}

// TestRestartCommands checks that a kind of fleet either can restart instances, or names the
// platform's command.
func TestRestartCommands(t *testing.T) {
	for name, kind := range kinds.Fleets {
		config := kind.Config()
		config.SetDefaults()
		fleet, err := config.Build("test", targets.Env{})
		if err != nil {
			t.Logf("kind %s cannot be built without settings: %v", name, err)
			continue
		}
		if _, can := fleet.(targets.Restarter); can != (kind.Restart == "") {
			t.Errorf("kind %s: can restart: %v, command %q", name, can, kind.Restart)
		}
	}
	if _, can := any(new(swarm.Fleet)).(targets.Restarter); !can {
		t.Error("Swarm cannot restart instances")
	}
}
