package daemon

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

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
	for name, end := range map[string]func(w *world, id string){
		"instance removed": func(w *world, id string) {
			w.fleet().Change("web", func(target *targettest.MemoryTarget) {
				target.Edit = func(reading *targets.Reading) { reading.Instances = reading.Instances[1:] }
			})
		},
		"autoscaler removed": func(w *world, _ string) {
			delete(w.config.Autoscalers, "web")
			if _, err := w.daemon.Reload(w.t.Context()); err != nil {
				w.t.Error(err)
			}
		},
		"stop": func(w *world, _ string) { w.cancel() },
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.fleetKind = func(memory *targettest.Memory) targets.Fleet { return endlessLogs{memory} }
				w.fed("web", 2, 2)
				w.fed("other", 2, 2)
				w.start()
				w.advance(time.Minute)
				list, err := w.daemon.InstancesOf(t.Context(), "web")
				if err != nil || len(list.Instances) != 2 {
					t.Fatalf("instances %+v, %v", list, err)
				}
				id := list.Instances[0].ID
				var text strings.Builder
				ended := make(chan error, 1)
				go func() {
					ended <- w.daemon.WriteLogs(t.Context(), "web", id, targets.LogQuery{Lines: 1, Follow: true}, &text)
				}()
				w.advance(time.Hour)
				synctest.Wait()
				select {
				case err := <-ended:
					t.Fatalf("the output of a running instance ended with %v", err)
				default:
				}
				end(w, id)
				w.advance(10 * time.Second)
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
