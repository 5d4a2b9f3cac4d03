package daemon

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/hpad/hpad/sources"
	"github.com/hpad/hpad/test/soak"
)

// TestAnHourOfLoad runs 2,000 autoscalers for an hour. A tenth of them fail, and a tenth scale
// continuously. It checks that no tick is missed, that failing autoscalers keep their counts, and
// that memory use does not grow after ten minutes.
func TestAnHourOfLoad(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		const autoscalers, replicas = 2000, 3
		w.log = zap.NewNop()
		w.config.Daemon.SyncPeriod = time.Minute / time.Duration(soak.Rounds(1, 4))
		name := func(n int) string { return fmt.Sprintf("a%04d", n) }
		for n := range autoscalers {
			w.fed(name(n), replicas, replicas)
			if n%10 == 0 {
				w.source().set(name(n), func(context.Context, time.Time) (sources.Vector, error) {
					return sources.Vector{}, errors.New("server unavailable")
				})
			}
		}
		w.start()
		defer w.stop()
		run := func(minutes int) (heap uint64) {
			for minute := range minutes {
				for n := 1; n < autoscalers; n += 10 {
					w.source().value(name(n), float64(replicas+(n+minute)%3))
				}
				w.advance(time.Minute)
			}
			w.store.forget()
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
			a := w.view(name(n))
			failing := n%10 == 0
			if a.Evaluation.Late > 0 || time.Since(a.Evaluation.Last) > w.config.Daemon.SyncPeriod || (a.Evaluation.Error != "") != failing {
				t.Fatalf("evaluation of %s after an hour = %+v", a.Name, a.Evaluation)
			}
			if failing && (a.Status.CurrentReplicas != replicas || len(w.writes(a.Name, time.Now())) > 0) {
				t.Errorf("the failing autoscaler %s has %d replicas, want %d", a.Name, a.Status.CurrentReplicas, replicas)
			}
		}
	})
}

// forget deletes the recorded history entries.
func (s *memoryStore) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.entries = nil
}
