package round_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/hpad/hpad/daemon/daemontest"
	"github.com/hpad/hpad/sources"
	"github.com/hpad/hpad/test/soak"
)

// TestAnHourOfLoad runs 2,000 autoscalers for an hour. A tenth of them fail, and a tenth scale
// continuously. It checks that no tick is missed, that failing autoscalers keep their counts, and
// that memory use does not grow after ten minutes.
func TestAnHourOfLoad(t *testing.T) {
	daemontest.Run(t, func(t *testing.T, w *daemontest.World) {
		const autoscalers, replicas = 2000, 3
		w.Log = zap.NewNop()
		w.Config.Daemon.SyncPeriod = time.Minute / time.Duration(soak.Rounds(1, 4))
		name := func(n int) string { return fmt.Sprintf("a%04d", n) }
		for n := range autoscalers {
			w.AddWithValue(name(n), replicas, replicas)
			if n%10 == 0 {
				w.Source().Set(name(n), func(context.Context, time.Time) (sources.Vector, error) {
					return sources.Vector{}, errors.New("server unavailable")
				})
			}
		}
		w.Start()
		defer w.Stop()
		run := func(minutes int) (heap uint64) {
			for minute := range minutes {
				for n := 1; n < autoscalers; n += 10 {
					w.Source().Value(name(n), float64(replicas+(n+minute)%3))
				}
				w.Advance(time.Minute)
			}
			w.Store.Forget()
			runtime.GC()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			return m.HeapAlloc
		}
		before := run(10)
		after := run(50)
		t.Logf("%d KiB after ten minutes, %d after an hour", before>>10, after>>10)
		if after > before+before/4 {
			t.Errorf("the heap grew from %d to %d bytes", before, after)
		}
		for n := range autoscalers {
			a := w.View(name(n))
			failing := n%10 == 0
			if a.Evaluation.Late > 0 || time.Since(a.Evaluation.Last) > w.Config.Daemon.SyncPeriod || (a.Evaluation.Error != "") != failing {
				t.Fatalf("evaluation of %s after an hour = %+v", a.Name, a.Evaluation)
			}
			if failing && (a.Status.CurrentReplicas != replicas || len(w.Writes(a.Name, time.Now())) > 0) {
				t.Errorf("the failing autoscaler %s has %d replicas, want %d", a.Name, a.Status.CurrentReplicas, replicas)
			}
		}
	})
}
