package round_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/daemon/daemontest"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets/targettest"
)

// memoryOf returns the memory of an autoscaler in the running daemon.
func memoryOf(w *daemontest.World, name string) policy.Memory {
	return w.Record(name).Memory
}

// stored returns the memory that an autoscaler would have after a kill at this moment.
func stored(w *daemontest.World, name string) policy.Memory {
	w.T.Helper()
	snapshot, err := w.Store.Copied().Load(w.T.Context())
	if err != nil {
		w.T.Fatal(err)
	}
	return snapshot.Autoscalers[name].Memory
}

// TestStopAbandonsHungWrite checks that the next run settles a write that a stop interrupted.
func TestStopAbandonsHungWrite(t *testing.T) {
	daemontest.Run(t, func(t *testing.T, w *daemontest.World) {
		w.Add("q", 3, func(a *config.Autoscaler) {
			a.SyncPeriod = time.Minute
			a.Spec.Behavior = &policy.Behavior{}
		})
		w.Source().Value("q", 3)
		w.Start()
		w.Advance(2*time.Minute - time.Second)
		w.Source().Value("q", 6)
		release := make(chan struct{})
		w.Fleet().Inject(targettest.Fault{Call: targettest.WriteCall, Times: 1, Block: release})
		w.Advance(2 * time.Second)
		stopping := time.Now()
		w.Stop()
		if took := time.Since(stopping); took > 21*time.Second { // a stop waits 20 s for active writes
			t.Errorf("stop duration = %s", took)
		}
		close(release)
		w.Fleet().Change("q", func(target *targettest.MemoryTarget) { target.Replicas = 6 }) // the platform made the write anyway
		w.Start()
		w.Advance(time.Minute)
		if got := memoryOf(w, "q").ScaleUpEvents; len(got) != 1 || got[0].Change != 3 {
			t.Errorf("scale-up events = %+v, want the change of 3", got)
		}
		w.Stop()
	})
}

// TestSettledWriteIsInTheHistory checks that the history contains a change that the previous,
// killed run made.
func TestSettledWriteIsInTheHistory(t *testing.T) {
	daemontest.Run(t, func(t *testing.T, w *daemontest.World) {
		w.Add("q", 3, func(a *config.Autoscaler) { a.Spec.Behavior = &policy.Behavior{} })
		w.Source().Value("q", 4)
		w.Start()
		w.Advance(time.Minute)
		w.Source().Value("q", 6)
		w.Fleet().Inject(targettest.Fault{Call: targettest.WriteCall, Times: 1, Delay: time.Second})
		w.Advance(15*time.Second + 500*time.Millisecond)
		killed := w.Store.Copied()
		w.Advance(time.Second)
		w.Stop()
		w.Store = killed
		w.Start()
		w.Advance(15 * time.Second)
		entries := w.HistoryOf("q")
		last := entries[len(entries)-1]
		if !slices.ContainsFunc(last.Events, func(e policy.Event) bool {
			return e.Reason == "SuccessfulRescale" && strings.HasPrefix(e.Message, "New size: 6")
		}) {
			t.Errorf("history = %+v, want the rescale", entries)
		}
		w.Stop()
	})
}

// TestIntentionHasTheMemoryOfItsDecision checks that the recommendation survives a kill between the
// intention and its outcome, because the record of the intention contains it.
func TestIntentionHasTheMemoryOfItsDecision(t *testing.T) {
	daemontest.Run(t, func(t *testing.T, w *daemontest.World) {
		w.AddWithValue("q", 3, 3)
		w.Start()
		w.Advance(time.Minute)
		w.Fleet().Inject(targettest.Fault{Call: targettest.WriteCall, Times: 1, Hang: true})
		w.Source().Value("q", 6)
		w.Advance(15 * time.Second)
		decided := time.Now().Truncate(15 * time.Second)
		record, _ := w.Store.Record("q")
		if record.Intention == nil || record.Intention.To != 6 || !record.Intention.Time.Equal(decided) {
			t.Fatalf("intention = %+v, want a write to 6 at %s", record.Intention, decided)
		}
		all := stored(w, "q").Recommendations
		if last := all[len(all)-1]; last.Replicas != 6 || !last.Time.Equal(decided) {
			t.Errorf("recommendations after a kill = %+v, want the last to be 6 at %s", all, decided)
		}
		w.Advance(time.Minute)
		w.Stop()
	})
}

// TestOpenIntentionIsEvaluatedImmediately checks that after a kill between the intention and the
// write, the first pass does not wait for the next tick.
func TestOpenIntentionIsEvaluatedImmediately(t *testing.T) {
	for _, written := range []bool{false, true} {
		t.Run(fmt.Sprintf("written %t", written), func(t *testing.T) {
			daemontest.Run(t, func(t *testing.T, w *daemontest.World) {
				w.AddWithValue("q", 3, 3, func(a *config.Autoscaler) { a.SyncPeriod = 30 * time.Minute })
				w.AddWithValue("idle", 3, 3, func(a *config.Autoscaler) { a.SyncPeriod = 30 * time.Minute })
				w.Start()
				w.Advance(time.Minute)
				w.Source().Value("q", 6)
				w.Fleet().Inject(targettest.Fault{Call: targettest.WriteCall, Times: 1, Hang: true})
				w.Advance(30 * time.Minute)
				left := w.Store.Copied()
				if record, _ := left.Record("q"); record.Intention == nil {
					t.Fatal("no intention after the kill")
				}
				w.Stop()
				w.Store = left
				if written {
					w.Fleet().Change("q", func(target *targettest.MemoryTarget) { target.Replicas = 6 })
				}
				evaluated := w.Source().Count("idle")
				w.Start()
				w.Advance(5 * time.Second)
				if got := w.Fleet().Replicas("q"); got != 6 {
					t.Errorf("count five seconds after the start = %d, want 6", got)
				}
				if record, _ := w.Store.Record("q"); record.Intention != nil || len(record.Memory.ScaleUpEvents) > 1 {
					t.Errorf("stored intention = %+v, events = %+v, want the intention settled once", record.Intention, record.Memory.ScaleUpEvents)
				}
				if got := w.Source().Count("idle"); got != evaluated {
					t.Error("an autoscaler without an intention was evaluated before its tick")
				}
				w.Stop()
			})
		})
	}
}
