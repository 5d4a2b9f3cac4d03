package daemon_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/daemon/daemontest"
	"github.com/hpad/hpad/daemon/endpoints"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/targettest"
)

// localTable is the configuration of a fleet on hpad's own host.
type localTable struct{ daemontest.FleetTable }

func (localTable) Local() bool { return true }

// TestEndpoints checks when the endpoints of local and remote fleets are published, what service
// discovery returns, and that a problem becomes a condition.
func TestEndpoints(t *testing.T) {
	for name, local := range map[string]bool{"local": true, "remote": false} {
		t.Run(name, func(t *testing.T) {
			daemontest.Run(t, func(t *testing.T, w *daemontest.World) {
				file := filepath.Join(t.TempDir(), "new", "web.map")
				w.AddWithValue("web", 2, 2, func(a *config.Autoscaler) {
					a.Endpoints = &endpoints.Config{File: file, Template: "{{len .Instances}}", Timeout: time.Second}
				})
				w.Fleet().Change("web", func(target *targettest.MemoryTarget) { target.Edit = addressed })
				if local {
					w.FleetConfig = func() targets.Config { return localTable{daemontest.FleetTable{World: w}} }
				}
				ref := w.Fleet().Ref("web")
				want := func(want string, count int) {
					t.Helper()
					text, err := os.ReadFile(file)
					if string(text) != want {
						t.Errorf("the file contains %q, want %q (%v)", text, want, err)
					}
					if groups, err := w.Daemon.Endpoints(t.Context(), ref); err != nil || len(groups) != count || groups[0].Labels["autoscaler"] != "web" {
						t.Errorf("service discovery returns %+v, %v", groups, err)
					}
				}
				w.Start()
				w.Advance(20 * time.Second)
				if got := w.Condition("web", "EndpointsFailed"); got != "True/PublishFailed" {
					t.Errorf("without the directory the condition is %q", got)
				}
				if err := os.Mkdir(filepath.Dir(file), 0o750); err != nil {
					t.Fatal(err)
				}
				w.Advance(2 * time.Minute)
				if got := w.Condition("web", "EndpointsFailed"); got != "False/Resolved" {
					t.Errorf("with the directory the condition is %q", got)
				}
				want("2", 2)
				w.Source().Value("web", 3)
				w.Advance(15 * time.Second) // the next pass writes the count
				w.Advance(2 * time.Second)
				if local {
					want("3", 3)
				}
				w.Advance(15 * time.Second)
				want("3", 3)
				restore := w.Fleet().Inject(targettest.Fault{Call: targettest.SnapshotCall, Err: targets.ErrForbidden})
				w.Advance(5 * time.Minute)
				want("3", 3)
				restore()
				if _, err := w.Daemon.Endpoints(t.Context(), w.Fleet().Ref("other")); !errors.Is(err, api.ErrUnknown) {
					t.Errorf("unknown target: %v", err)
				}
				w.Stop()
				w.DryRun = true
				if err := os.Remove(file); err != nil {
					t.Fatal(err)
				}
				w.Start()
				w.Advance(time.Minute)
				want("", 3)
				w.Stop()
			})
		})
	}
}

// TestFirstReadingIsKept checks that the first reading of a target with endpoints is available to
// its publisher, also if the publisher starts after the first pass.
func TestFirstReadingIsKept(t *testing.T) {
	daemontest.Run(t, func(t *testing.T, w *daemontest.World) {
		w.AddWithValue("web", 2, 2, func(a *config.Autoscaler) { a.Endpoints = &endpoints.Config{} }) // without a file, no publisher starts
		w.Start()
		if reading := w.Daemon.Generation().Autoscalers["web"].Reading(w.Fleet().Ref("web")); reading == nil {
			t.Error("there is no reading after the first pass")
		}
		w.Stop()
	})
}

// addressed adds addresses to the instances of a reading.
func addressed(reading *targets.Reading) {
	locations := make(targets.LocationList, len(reading.Instances))
	for i := range locations {
		locations[i] = targets.Location{Addresses: []string{"10.0.0.1"}, Ports: targets.Ports{{Number: 8000 + i}}}
	}
	reading.Locations = locations
}

// TestUnreadEndpoints checks that service discovery fails before the first reading.
func TestUnreadEndpoints(t *testing.T) {
	daemontest.Run(t, func(t *testing.T, w *daemontest.World) {
		w.AddWithValue("web", 2, 2, func(a *config.Autoscaler) { a.Mode = policy.ModeOff })
		w.Fleet().Inject(targettest.Fault{Call: targettest.SnapshotCall, Err: targets.ErrForbidden})
		w.Start()
		w.Advance(time.Minute)
		if groups, err := w.Daemon.Endpoints(t.Context(), w.Fleet().Ref("web")); !errors.Is(err, api.ErrUnread) {
			t.Errorf("%+v, %v", groups, err)
		}
		w.Stop()
	})
}
