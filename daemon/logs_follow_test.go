package daemon_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hpad/hpad/daemon/daemontest"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/targettest"
)

// endlessLogs is a fleet whose followed output does not end, like that of journalctl.
type endlessLogs struct{ *targettest.Memory }

func (endlessLogs) WriteLogs(ctx context.Context, _ targets.Ref, id string, _ targets.LogQuery, to io.Writer) error {
	_, _ = io.WriteString(to, id+" runs\n")
	<-ctx.Done()
	_, _ = io.WriteString(to, id+" ends\n")
	return ctx.Err()
}

// TestFollowedOutputEnds checks that followed output lasts as long as its instance, and ends without
// an error when the instance is removed.
func TestFollowedOutputEnds(t *testing.T) {
	for name, end := range map[string]func(w *daemontest.World, id string){
		"instance removed": func(w *daemontest.World, id string) {
			w.Fleet().Change("web", func(target *targettest.MemoryTarget) {
				target.Edit = func(reading *targets.Reading) { reading.Instances = reading.Instances[1:] }
			})
		},
		"autoscaler removed": func(w *daemontest.World, _ string) {
			delete(w.Config.Autoscalers, "web")
			if _, err := w.Daemon.Reload(w.T.Context()); err != nil {
				w.T.Error(err)
			}
		},
		"stop": func(w *daemontest.World, _ string) { w.Cancel() },
	} {
		t.Run(name, func(t *testing.T) {
			daemontest.Run(t, func(t *testing.T, w *daemontest.World) {
				w.FleetKind = func(memory *targettest.Memory) targets.Fleet { return endlessLogs{memory} }
				w.AddWithValue("web", 2, 2)
				w.AddWithValue("other", 2, 2)
				w.Start()
				w.Advance(time.Minute)
				list, err := w.Daemon.InstancesOf(t.Context(), "web")
				if err != nil || len(list.Instances) != 2 {
					t.Fatalf("instances %+v, %v", list, err)
				}
				id := list.Instances[0].ID
				var text strings.Builder
				ended := make(chan error, 1)
				go func() {
					ended <- w.Daemon.WriteLogs(t.Context(), "web", id, targets.LogQuery{Lines: 1, Follow: true}, &text)
				}()
				w.Advance(time.Hour)
				synctest.Wait()
				select {
				case err := <-ended:
					t.Fatalf("the output of a running instance ended with %v", err)
				default:
				}
				end(w, id)
				w.Advance(10 * time.Second)
				synctest.Wait()
				select {
				case err = <-ended:
				default:
					t.Fatal("the output did not end")
				}
				if wantErr := name == "stop"; (err != nil) != wantErr || wantErr && !errors.Is(err, context.Canceled) || text.String() != id+" runs\n"+id+" ends\n" {
					t.Errorf("the output is %q, %v", text.String(), err)
				}
			})
		})
	}
}
