package daemon

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/sources"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/targettest"
)

// These tests are about what a kill at a bad moment leaves: the store replays
// exactly the passes that there were.

// remembered returns what the running daemon remembers of an autoscaler.
func (w *world) remembered(name string) policy.Memory {
	return w.daemon.current.Load().autoscalers[name].published.Load().record.Memory
}

// stored returns what a kill at this moment leaves of an autoscaler's memory.
func (w *world) stored(name string) policy.Memory {
	w.t.Helper()
	snapshot, err := w.store.copied().Load(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	return snapshot.Autoscalers[name].Memory
}

// slowly returns one series after a while, whatever the context says.
func slowly(value float64, after time.Duration) func(context.Context, time.Time) (sources.Vector, error) {
	return func(_ context.Context, at time.Time) (sources.Vector, error) {
		time.Sleep(after)
		return one(value, at), nil
	}
}

// A round that ends after a later one, because of a write that took its time,
// does not take back what the store knows of the later one.
func TestRoundThatEndsAfterALaterOne(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		second := func(a *config.Autoscaler) { a.SyncPeriod = time.Second }
		w.queue("slow", 3, second)
		w.queue("quick", 3, second)
		w.source().value("slow", 3)
		w.source().value("quick", 3)
		w.start()
		w.advance(time.Minute)
		w.fleet().Inject(targettest.Fault{Call: targettest.WriteCall, Target: "slow", Times: 1, Delay: 2500 * time.Millisecond})
		w.source().value("slow", 6)
		newest := w.store.lastRound()
		for range 10 {
			w.advance(500 * time.Millisecond)
			if last := w.store.lastRound(); last.Before(newest) {
				t.Errorf("the store's last completed round went from %s back to %s", newest, last)
			}
			newest = w.store.lastRound()
		}
		w.advance(time.Second)
		for _, name := range []string{"slow", "quick"} {
			if diff := cmp.Diff(w.remembered(name), w.stored(name), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("a kill changes what is remembered of %s (-running +stored):\n%s", name, diff)
			}
		}
		w.stop()
	})
}

// A pass that is late because the store is slow keeps its open intention: at
// every moment a kill leaves either the intention or what became of it.
func TestLatePassKeepsItsIntention(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.queue("q", 3, func(a *config.Autoscaler) {
			a.SyncPeriod = time.Second
			a.Spec.Behavior = &policy.Behavior{}
		})
		w.source().value("q", 3)
		w.start()
		w.advance(time.Minute)
		w.store.slowDown(1500 * time.Millisecond)
		w.source().value("q", 6)
		w.fleet().Inject(targettest.Fault{Call: targettest.WriteCall, Times: 1, Lost: true})
		for range 100 {
			w.advance(100 * time.Millisecond)
			if w.fleet().Replicas("q") != 6 {
				continue
			}
			record, _ := w.store.record("q")
			if record.Intention == nil && len(record.Memory.ScaleUpEvents) != 1 {
				t.Fatalf("a kill at %s forgets the write: %+v", time.Now().Format("05.0"), record)
			}
		}
		if got := w.remembered("q").ScaleUpEvents; len(got) != 1 {
			t.Errorf("scale-up events = %+v, want one", got)
		}
		w.stop()
	})
}

// While the first pass after a long stop waits for its query, the rounds of
// others do not make up passes for the time of the stop.
func TestFirstPassThatTakesLong(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.queue("slow", 3)
		w.queue("quick", 3, func(a *config.Autoscaler) { a.SyncPeriod = time.Second })
		w.source().value("slow", 3)
		w.source().value("quick", 3)
		w.start()
		w.advance(time.Minute + 500*time.Millisecond)
		w.stop()
		before := w.stored("slow")
		w.advance(time.Hour)
		w.source().hangs("slow")
		w.start()
		w.advance(5 * time.Second)
		if diff := cmp.Diff(before, w.stored("slow"), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("a kill leaves other recommendations than before the stop (-before +after):\n%s", diff)
		}
		w.stop()
	})
}

// The record of a removed autoscaler stays away, also when its last pass is
// still under way.
func TestRemovedInTheMiddleOfAPass(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.queue("goes", 3)
		w.queue("quick", 3, func(a *config.Autoscaler) { a.SyncPeriod = time.Second })
		w.source().value("goes", 3)
		w.source().value("quick", 3)
		w.start()
		w.advance(time.Minute - 500*time.Millisecond)
		w.source().set("goes", slowly(6, 5*time.Second))
		w.advance(time.Second)
		delete(w.config.Autoscalers, "goes")
		if _, err := w.daemon.Reload(t.Context()); err != nil {
			t.Fatal(err)
		}
		for range 10 {
			w.advance(time.Second)
			if record, ok := w.store.record("goes"); ok {
				t.Fatalf("the removed autoscaler has a record again: %+v", record)
			}
		}
		if got := w.fleet().Replicas("goes"); got != 3 {
			t.Errorf("the removed autoscaler scaled to %d", got)
		}
		w.stop()
	})
}

// A write that a stop gives up is settled by the next run.
func TestStopGivesUpAHungWrite(t *testing.T) {
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
		if took := time.Since(stopping); took > stopWait+time.Second {
			t.Errorf("the stop took %s", took)
		}
		close(release)
		w.fleet().Change("q", func(target *targettest.MemoryTarget) { target.Replicas = 6 }) // it was made all the same
		w.start()
		w.advance(time.Minute)
		if got := w.remembered("q").ScaleUpEvents; len(got) != 1 || got[0].Change != 3 {
			t.Errorf("scale-up events = %+v, want the change of 3", got)
		}
		w.stop()
	})
}

// An open intention is about one target; when a reload points the autoscaler at
// another one, whose count means nothing to it, it is dropped.
func TestIntentionOfAnotherTarget(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.queue("q", 3, func(a *config.Autoscaler) { a.Spec.Behavior = &policy.Behavior{} })
		w.source().value("q", 3)
		w.start()
		w.advance(time.Minute)
		w.source().value("q", 6)
		w.fleet().Inject(targettest.Fault{Call: targettest.WriteCall, Times: 1, Lost: true})
		w.advance(15 * time.Second)
		changed := w.config.Autoscalers["q"]
		changed.Target = w.fleet().Add("another", targettest.MemoryTarget{Replicas: 5})
		w.config.Autoscalers["q"] = changed
		w.source().value("q", 5)
		if _, err := w.daemon.Reload(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.advance(15 * time.Second)
		if got := w.remembered("q").ScaleUpEvents; len(got) != 0 || contains(w.reasons("q"), foreignEvent) {
			t.Errorf("scale-up events = %+v, events = %v, want none of the other target", got, w.reasons("q"))
		}
		if record, _ := w.store.record("q"); record.Intention != nil {
			t.Errorf("intention = %+v, want it dropped", record.Intention)
		}
		w.stop()
	})
}

// A write of which a part is known to have been done is settled then, even if
// the fleet does not know about the rest.
func TestPartialWriteOfUnknownEnd(t *testing.T) {
	partial := &targets.PartialError{Reached: 4, Err: targets.ErrUnknownOutcome}
	inWorld(t, func(t *testing.T, w *world) {
		w.queue("q", 3, func(a *config.Autoscaler) { a.Spec.Behavior = &policy.Behavior{} })
		w.source().value("q", 3)
		w.start()
		w.advance(time.Minute)
		w.source().value("q", 6)
		w.fleet().Inject(targettest.Fault{Call: targettest.WriteCall, Times: 1, Err: partial})
		w.advance(15 * time.Second)
		w.fleet().Change("q", func(target *targettest.MemoryTarget) { target.Replicas = 4 })
		w.source().value("q", 4)
		w.advance(30 * time.Second)
		if got := w.remembered("q").ScaleUpEvents; len(got) != 1 || got[0].Change != 1 {
			t.Errorf("scale-up events = %+v, want the change of 1 alone", got)
		}
		w.stop()
	})
}

// A change that a run finds to have been made by the one before, which was
// killed, is in the history.
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

// A stop in the middle of a round, some of whose passes have ended, forgets
// nothing of those.
func TestStopInTheMiddleOfARound(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.queue("quick", 3)
		w.queue("slow", 3)
		w.source().value("quick", 3)
		w.source().value("slow", 3)
		w.start()
		w.advance(time.Minute - time.Second)
		w.source().hangs("slow")
		w.advance(2 * time.Second)
		before := w.remembered("quick")
		w.stop()
		if diff := cmp.Diff(before, w.stored("quick"), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("the stop changed what is remembered (-before +after):\n%s", diff)
		}
	})
}

// An autoscaler that a restart found left out of the configuration and a later
// reload finds back has its windows, and nothing was made up meanwhile.
func TestLeftOutByMistake(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.queue("q", 9)
		w.queue("other", 3)
		w.source().value("q", 9)
		w.source().value("other", 3)
		w.start()
		w.advance(time.Minute + time.Second)
		w.stop()
		before := w.stored("q")
		q := w.config.Autoscalers["q"]
		delete(w.config.Autoscalers, "q")
		w.start()
		w.advance(time.Minute)
		if diff := cmp.Diff(before, w.stored("q"), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("the store changed what is remembered (-before +after):\n%s", diff)
		}
		w.source().value("q", 2)
		w.config.Autoscalers["q"] = q
		if _, err := w.daemon.Reload(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.advance(time.Minute)
		if got := w.fleet().Replicas("q"); got != 9 {
			t.Errorf("replicas = %d, want 9 for the rest of the window", got)
		}
		if got := w.remembered("q").Recommendations; len(got) == 0 || !got[0].Time.Equal(before.Recommendations[0].Time) {
			t.Errorf("recommendations = %+v, want those of %+v before", got, before.Recommendations)
		}
		w.stop()
	})
}

// A kill between the intention and its outcome loses nothing of the decision: its
// recommendation is in the record of the intention.
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
			t.Fatalf("intention %+v, want one to 6 at %s", record.Intention, decided)
		}
		all := w.stored("q").Recommendations
		if last := all[len(all)-1]; last.Replicas != 6 || !last.Time.Equal(decided) {
			t.Errorf("a kill leaves the recommendations %+v, want 6 at %s last", all, decided)
		}
		w.advance(time.Minute)
		w.stop()
	})
}

// TestOpenIntentionIsDueAtOnce kills the daemon between the intention and the write. The
// first pass after the start does not wait for the next tick.
func TestOpenIntentionIsDueAtOnce(t *testing.T) {
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
					t.Fatal("the kill leaves no intention")
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
					t.Errorf("the count is %d five seconds after the start, want 6", got)
				}
				if record, _ := w.store.record("q"); record.Intention != nil || len(record.Memory.ScaleUpEvents) > 1 {
					t.Errorf("the store has %+v and the events %+v, want the intention settled once", record.Intention, record.Memory.ScaleUpEvents)
				}
				if got := w.source().count("idle"); got != evaluated {
					t.Error("an autoscaler without an intention was evaluated before its tick")
				}
				w.stop()
			})
		})
	}
}
