package adapters_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/daemon/daemontest"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/targettest"
)

// limitedTable is the configuration of a fleet with a timeout.
type limitedTable struct {
	daemontest.FleetTable
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
func slow(w *daemontest.World, timeout time.Duration, takes func() time.Duration) *slowFleet {
	fleet := &slowFleet{takes: takes}
	w.FleetConfig = func() targets.Config { return limitedTable{daemontest.FleetTable{World: w}, timeout} }
	w.FleetKind = func(memory *targettest.Memory) targets.Fleet {
		fleet.Memory = memory
		return fleet
	}
	return fleet
}

func everySecond(a *config.Autoscaler) { a.SyncPeriod = time.Second }

// TestReadOutlastsItsRound checks that a read continues after its passes time out, and that the
// round in which it ends uses its result.
func TestReadOutlastsItsRound(t *testing.T) {
	daemontest.Run(t, func(t *testing.T, w *daemontest.World) {
		slow(w, 10*time.Second, func() time.Duration { return 2300 * time.Millisecond })
		w.AddWithValue("q", 3, 6, everySecond)
		w.Start()
		w.Advance(31 * time.Second)
		if got := w.Fleet().Calls().Snapshots; got < 9 || got > 12 {
			t.Errorf("%d reads in 31 s, want 9 to 12 successive reads", got)
		}
		if got := w.Fleet().Replicas("q"); got != 6 {
			t.Errorf("replicas = %d, want 6 from the readings", got)
		}
		if got := w.View("q").Evaluation.Late; got != 0 {
			t.Errorf("%d late passes, want 0", got)
		}
		w.Stop()
	})
}

// TestReadOlderThanAWrite checks that a write invalidates a read that started before it.
func TestReadOlderThanAWrite(t *testing.T) {
	daemontest.Run(t, func(t *testing.T, w *daemontest.World) {
		var takes atomic.Int64
		slow(w, 10*time.Second, func() time.Duration { return time.Duration(takes.Load()) })
		w.AddWithValue("q", 3, 3, everySecond)
		w.AddWithValue("other", 3, 3, everySecond)
		w.Start()
		w.Advance(3500 * time.Millisecond)
		w.Fleet().Inject(targettest.Fault{Call: targettest.WriteCall, Target: "q", Times: 1, Delay: 2500 * time.Millisecond})
		w.Source().Value("q", 6)
		w.Advance(time.Second) // q is being written, and its count is still 3
		takes.Store(int64(5300 * time.Millisecond))
		w.Advance(time.Second) // during this read
		takes.Store(0)
		w.Advance(10 * time.Second)
		if got := w.Fleet().Replicas("q"); got != 6 {
			t.Errorf("replicas = %d, want the written count 6", got)
		}
		if daemontest.Contains(w.Reasons("q"), daemontest.ForeignEvent) {
			t.Errorf("events = %v, want no foreign change", w.Reasons("q"))
		}
		if got := w.View("q").Evaluation; time.Since(got.Last) > time.Second || got.Error != "" {
			t.Errorf("evaluation = %+v, want q evaluated in the newest round", got)
		}
		w.Stop()
	})
}
