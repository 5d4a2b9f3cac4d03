package daemon

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/targettest"
)

// limitedTable is the configuration of a fleet with a timeout.
type limitedTable struct {
	fleetTable
	timeout time.Duration
}

func (c limitedTable) CallTimeout() time.Duration { return c.timeout }

// slowFleet returns its readings after a delay. If the context ends first, it returns an error or,
// if missing is set, readings in which the targets in missing have errors.
type slowFleet struct {
	*targettest.Memory
	takes   func() time.Duration
	missing map[string]error
}

func (f *slowFleet) Snapshot(ctx context.Context, refs []targets.Ref) (map[targets.Ref]targets.Reading, error) {
	readings, err := f.Memory.Snapshot(ctx, refs)
	if err != nil {
		return nil, err
	}
	var cut error
	select {
	case <-time.After(f.takes()):
	case <-ctx.Done():
		cut = context.Cause(ctx)
	}
	if cut != nil && f.missing == nil {
		return nil, cut
	}
	for ref, reading := range readings {
		if missing := f.missing[ref.Name]; cut != nil && missing != nil {
			reading.Err = missing
			readings[ref] = reading
		}
	}
	return readings, nil
}

// slow configures a fleet with a call timeout. Each read lasts for the duration that takes returns.
func (w *world) slow(timeout time.Duration, takes func() time.Duration) *slowFleet {
	fleet := &slowFleet{takes: takes}
	w.fleetConfig = func() targets.Config { return limitedTable{fleetTable{w, nil}, timeout} }
	w.fleetKind = func(memory *targettest.Memory) targets.Fleet {
		fleet.Memory = memory
		return fleet
	}
	return fleet
}

func everySecond(a *config.Autoscaler) { a.SyncPeriod = time.Second }

// TestReadOutlastsItsRound checks that a read continues after its passes time out, and that the
// round in which it ends uses its result.
func TestReadOutlastsItsRound(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.slow(10*time.Second, func() time.Duration { return 2300 * time.Millisecond })
		w.fed("q", 3, 6, everySecond)
		w.start()
		w.advance(31 * time.Second)
		if got := w.fleet().Calls().Snapshots; got < 9 || got > 12 {
			t.Errorf("%d reads in 31 s, want 9 to 12 successive reads", got)
		}
		if got := w.fleet().Replicas("q"); got != 6 {
			t.Errorf("replicas = %d, want 6 from the readings", got)
		}
		if got := w.view("q").Evaluation.Late; got != 0 {
			t.Errorf("%d late passes, want 0", got)
		}
		w.stop()
	})
}

// TestReadOlderThanAWrite checks that a write invalidates a read that started before it.
func TestReadOlderThanAWrite(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		var takes atomic.Int64
		w.slow(10*time.Second, func() time.Duration { return time.Duration(takes.Load()) })
		w.fed("q", 3, 3, everySecond)
		w.fed("other", 3, 3, everySecond)
		w.start()
		w.advance(3500 * time.Millisecond)
		w.fleet().Inject(targettest.Fault{Call: targettest.WriteCall, Target: "q", Times: 1, Delay: 2500 * time.Millisecond})
		w.source().value("q", 6)
		w.advance(time.Second) // q is being written, and its count is still 3
		takes.Store(int64(5300 * time.Millisecond))
		w.advance(time.Second) // during this read
		takes.Store(0)
		w.advance(10 * time.Second)
		if got := w.fleet().Replicas("q"); got != 6 {
			t.Errorf("replicas = %d, want the written count 6", got)
		}
		if contains(w.reasons("q"), foreignEvent) {
			t.Errorf("events = %v, want no foreign change", w.reasons("q"))
		}
		if got := w.view("q").Evaluation; time.Since(got.Last) > time.Second || got.Error != "" {
			t.Errorf("evaluation = %+v, want q evaluated in the newest round", got)
		}
		w.stop()
	})
}
