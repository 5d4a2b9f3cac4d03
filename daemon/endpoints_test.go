package daemon

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/daemon/endpoints"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/targettest"
)

// localTable is the configuration of a fleet on hpad's own host.
type localTable struct{ fleetTable }

func (localTable) Local() bool { return true }

// TestEndpoints checks when the endpoints of local and remote fleets are published, what service
// discovery returns, and that a problem becomes a condition.
func TestEndpoints(t *testing.T) {
	for name, local := range map[string]bool{"local": true, "remote": false} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				file := filepath.Join(t.TempDir(), "new", "web.map")
				w.fed("web", 2, 2, func(a *config.Autoscaler) {
					a.Endpoints = &endpoints.Config{File: file, Template: "{{len .Instances}}", Timeout: time.Second}
				})
				w.fleet().Change("web", func(target *targettest.MemoryTarget) { target.Edit = addressed })
				if local {
					w.fleetConfig = func() targets.Config { return localTable{fleetTable{w, nil}} }
				}
				ref := w.fleet().Ref("web")
				want := func(want string, count int) {
					t.Helper()
					text, err := os.ReadFile(file)
					if string(text) != want {
						t.Errorf("the file contains %q, want %q (%v)", text, want, err)
					}
					if groups, err := w.daemon.Endpoints(t.Context(), ref); err != nil || len(groups) != count || groups[0].Labels["autoscaler"] != "web" {
						t.Errorf("service discovery returns %+v, %v", groups, err)
					}
				}
				w.start()
				w.advance(20 * time.Second)
				if got := w.condition("web", "EndpointsFailed"); got != "True/PublishFailed" {
					t.Errorf("without the directory the condition is %q", got)
				}
				if err := os.Mkdir(filepath.Dir(file), 0o750); err != nil {
					t.Fatal(err)
				}
				w.advance(2 * time.Minute)
				if got := w.condition("web", "EndpointsFailed"); got != "False/Resolved" {
					t.Errorf("with the directory the condition is %q", got)
				}
				want("2", 2)
				w.source().value("web", 3)
				w.advance(15 * time.Second) // the next pass writes the count
				w.advance(2 * time.Second)
				if local {
					want("3", 3)
				}
				w.advance(15 * time.Second)
				want("3", 3)
				restore := w.fleet().Inject(targettest.Fault{Call: targettest.SnapshotCall, Err: targets.ErrForbidden})
				w.advance(5 * time.Minute)
				want("3", 3)
				restore()
				if _, err := w.daemon.Endpoints(t.Context(), w.fleet().Ref("other")); !errors.Is(err, api.ErrUnknown) {
					t.Errorf("unknown target: %v", err)
				}
				w.stop()
				w.dryRun = true
				if err := os.Remove(file); err != nil {
					t.Fatal(err)
				}
				w.start()
				w.advance(time.Minute)
				want("", 3)
				w.stop()
			})
		})
	}
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
	inWorld(t, func(t *testing.T, w *world) {
		w.fed("web", 2, 2, func(a *config.Autoscaler) { a.Mode = policy.ModeOff })
		w.fleet().Inject(targettest.Fault{Call: targettest.SnapshotCall, Err: targets.ErrForbidden})
		w.start()
		w.advance(time.Minute)
		if groups, err := w.daemon.Endpoints(t.Context(), w.fleet().Ref("web")); !errors.Is(err, api.ErrUnread) {
			t.Errorf("%+v, %v", groups, err)
		}
		w.stop()
	})
}
