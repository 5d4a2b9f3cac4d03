package daemon

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets/targettest"
)

// The following tests kill the daemon at unfavorable moments and check that the store replays
// exactly the completed passes.

// memoryOf returns the memory of an autoscaler in the running daemon.
func (w *world) memoryOf(name string) policy.Memory {
	return w.record(name).Memory
}

// stored returns the memory that an autoscaler would have after a kill at this moment.
func (w *world) stored(name string) policy.Memory {
	w.t.Helper()
	snapshot, err := w.store.copied().Load(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	return snapshot.Autoscalers[name].Memory
}

// TestStopAbandonsHungWrite checks that the next run settles a write that a stop interrupted.
func TestStopAbandonsHungWrite(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.queue("q", 3, func(a *config.Autoscaler) {
			a.SyncPeriod = time.Minute
			a.Spec.Behavior = &policy.Behavior{}
		})
		w.source().value("q", 3)
		w.start()
		w.advance(2*time.Minute - time.Second)
		w.source().value("q", 6)
		release := make(chan struct{})
		w.fleet().Inject(targettest.Fault{Call: targettest.WriteCall, Times: 1, Block: release})
		w.advance(2 * time.Second)
		stopping := time.Now()
		w.stop()
		if took := time.Since(stopping); took > 21*time.Second { // a stop waits 20 s for active writes
			t.Errorf("stop duration = %s", took)
		}
		close(release)
		w.fleet().Change("q", func(target *targettest.MemoryTarget) { target.Replicas = 6 }) // the platform made the write anyway
		w.start()
		w.advance(time.Minute)
		if got := w.memoryOf("q").ScaleUpEvents; len(got) != 1 || got[0].Change != 3 {
			t.Errorf("scale-up events = %+v, want the change of 3", got)
		}
		w.stop()
	})
}

// TestSettledWriteIsInTheHistory checks that the history contains a change that the previous,
// killed run made.
func TestSettledWriteIsInTheHistory(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.queue("q", 3, func(a *config.Autoscaler) { a.Spec.Behavior = &policy.Behavior{} })
		w.source().value("q", 4)
		w.start()
		w.advance(time.Minute)
		w.source().value("q", 6)
		w.fleet().Inject(targettest.Fault{Call: targettest.WriteCall, Times: 1, Delay: time.Second})
		w.advance(15*time.Second + 500*time.Millisecond)
		killed := w.store.copied()
		w.advance(time.Second)
		w.stop()
		w.store = killed
		w.start()
		w.advance(15 * time.Second)
		entries, err := w.store.History(t.Context(), "q", time.Time{}, time.Time{}, 0)
		if err != nil {
			t.Fatal(err)
		}
		last := entries[len(entries)-1]
		if !slices.ContainsFunc(last.Events, func(e policy.Event) bool {
			return e.Reason == "SuccessfulRescale" && strings.HasPrefix(e.Message, "New size: 6")
		}) {
			t.Errorf("history = %+v, want the rescale", entries)
		}
		w.stop()
	})
}

// TestIntentionHasTheMemoryOfItsDecision checks that the recommendation survives a kill between the
// intention and its outcome, because the record of the intention contains it.
func TestIntentionHasTheMemoryOfItsDecision(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.fed("q", 3, 3)
		w.start()
		w.advance(time.Minute)
		w.fleet().Inject(targettest.Fault{Call: targettest.WriteCall, Times: 1, Hang: true})
		w.source().value("q", 6)
		w.advance(15 * time.Second)
		decided := time.Now().Truncate(15 * time.Second)
		record, _ := w.store.record("q")
		if record.Intention == nil || record.Intention.To != 6 || !record.Intention.Time.Equal(decided) {
			t.Fatalf("intention = %+v, want a write to 6 at %s", record.Intention, decided)
		}
		all := w.stored("q").Recommendations
		if last := all[len(all)-1]; last.Replicas != 6 || !last.Time.Equal(decided) {
			t.Errorf("recommendations after a kill = %+v, want the last to be 6 at %s", all, decided)
		}
		w.advance(time.Minute)
		w.stop()
	})
}

// TestOpenIntentionIsEvaluatedImmediately checks that after a kill between the intention and the
// write, the first pass does not wait for the next tick.
func TestOpenIntentionIsEvaluatedImmediately(t *testing.T) {
	for _, written := range []bool{false, true} {
		t.Run(fmt.Sprintf("written %t", written), func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.fed("q", 3, 3, func(a *config.Autoscaler) { a.SyncPeriod = 30 * time.Minute })
				w.fed("idle", 3, 3, func(a *config.Autoscaler) { a.SyncPeriod = 30 * time.Minute })
				w.start()
				w.advance(time.Minute)
				w.source().value("q", 6)
				w.fleet().Inject(targettest.Fault{Call: targettest.WriteCall, Times: 1, Hang: true})
				w.advance(30 * time.Minute)
				left := w.store.copied()
				if record, _ := left.record("q"); record.Intention == nil {
					t.Fatal("no intention after the kill")
				}
				w.stop()
				w.store = left
				if written {
					w.fleet().Change("q", func(target *targettest.MemoryTarget) { target.Replicas = 6 })
				}
				evaluated := w.source().count("idle")
				w.start()
				w.advance(5 * time.Second)
				if got := w.fleet().Replicas("q"); got != 6 {
					t.Errorf("count five seconds after the start = %d, want 6", got)
				}
				if record, _ := w.store.record("q"); record.Intention != nil || len(record.Memory.ScaleUpEvents) > 1 {
					t.Errorf("stored intention = %+v, events = %+v, want the intention settled once", record.Intention, record.Memory.ScaleUpEvents)
				}
				if got := w.source().count("idle"); got != evaluated {
					t.Error("an autoscaler without an intention was evaluated before its tick")
				}
				w.stop()
			})
		})
	}
}
