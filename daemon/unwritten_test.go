package daemon

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/hpad/hpad/daemon/state"
	"github.com/hpad/hpad/targets/clock"
)

// TestUnwrittenState cannot write its state for a while, and at the end.
func TestUnwrittenState(t *testing.T) {
	full := errors.New("no space left on device")
	inWorld(t, func(t *testing.T, w *world) {
		core, logs := observer.New(zap.InfoLevel)
		w.log = zap.New(core)
		w.fed("a", 3, 3)
		w.start()
		w.advance(time.Minute)
		if problems := w.daemon.Readiness().Problems; len(problems) != 0 {
			t.Errorf("problems %v, want none", problems)
		}

		w.store.fail(full)
		w.source().value("a", 6)
		w.advance(time.Minute)
		if got := w.daemon.Autoscalers()[0].Status.DesiredReplicas; got != 6 {
			t.Errorf("it wants %d replicas, want 6 whatever the store says", got)
		}
		problems := w.daemon.Readiness().Problems
		if len(problems) != 1 || problems[0].Subject != "state" || !strings.Contains(problems[0].Message, full.Error()) {
			t.Errorf("problems %v, want that of the state", problems)
		}
		if w.daemon.Readiness().Ready {
			t.Error("a daemon that cannot write its state is ready")
		}
		if told := logs.FilterMessage("state cannot be written; scaling goes on").Len(); told != 1 {
			t.Errorf("the log tells %d times that the state cannot be written, want once", told)
		}

		w.store.fail(nil)
		w.advance(time.Minute)
		if readiness := w.daemon.Readiness(); !readiness.Ready || len(readiness.Problems) != 0 {
			t.Errorf("with room again the readiness is %+v, want no problem", readiness)
		}
		if logs.FilterMessage("state can be written again").Len() != 1 {
			t.Error("the log does not tell that the state can be written again")
		}
		if told := logs.FilterMessageSnippet("evaluation").All(); len(told) != 0 {
			t.Errorf("the log tells of evaluations, which went well: %v", told)
		}

		w.store.fail(full)
		w.advance(time.Minute)
		w.cancel()
		if err := <-w.ended; err == nil || !strings.Contains(err.Error(), full.Error()) {
			t.Errorf("it ended with %v, want what was lost", err)
		}
	})
}

// What could not be written is written with the next commit, also where no later
// pass has anything of its own to write.
func TestUnwrittenStateIsWrittenLater(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.fed("a", 3, 3)
		w.start()
		w.advance(time.Minute)
		w.store.fail(errors.New("no space left on device"))
		w.source().value("a", 6)
		w.advance(15 * time.Second)
		wrote := w.view("a").Status.LastScaleTime
		w.advance(15 * time.Second)
		w.store.fail(nil)
		w.advance(time.Minute)
		record, _ := w.store.record("a")
		if wrote.IsZero() || !record.Status.LastScaleTime.Equal(wrote) || record.Left == nil || *record.Left != 6 || record.Intention != nil {
			t.Errorf("the store has %+v of a write at %s", record, wrote)
		}
		var written []int32
		for _, entry := range w.historyOf("a") {
			if entry.Written != nil {
				written = append(written, *entry.Written)
			}
		}
		if len(written) != 1 || written[0] != 6 {
			t.Errorf("the history has writes of %v, want one of 6", written)
		}
		w.stop()
	})
}

// Of the history so much waits as there is room for; what does not is told.
func TestEntriesDropped(t *testing.T) {
	core, logs := observer.New(zap.InfoLevel)
	store := newMemoryStore()
	r := newRecorder(store, clock.New(clock.System{Wall: time.Now}), zap.New(core), func(time.Duration, int, error) {})
	store.fail(errors.New("no space left on device"))
	r.record("a", nil, make([]state.Entry, keptEntries+500)...)
	r.commit()
	store.fail(nil)
	r.commit()
	r.record("a", nil, state.Entry{})
	r.commit()
	told := logs.FilterMessageSnippet("the history lacks entries").All()
	if len(told) != 1 || told[0].ContextMap()["entries"] != int64(500) {
		t.Errorf("told %+v, want once that 500 entries are lacking", told)
	}
}

// Many changes are written in parts, the history first, what is left of them after an
// error later, and what the last round was with the last part.
func TestWrittenInParts(t *testing.T) {
	store := newMemoryStore()
	store.most = 3
	r := newRecorder(store, clock.New(clock.System{Wall: time.Now}), zap.NewNop(), func(time.Duration, int, error) {})
	const records = 2*writtenAtOnce + 1
	name := func(i int) string { return fmt.Sprintf("a%05d", records-i) } // the last one is written first
	for i := range records {
		r.record(name(i), &state.Record{Created: time.Unix(int64(i), 0)}, state.Entry{Autoscaler: name(i)})
	}
	round := time.Unix(100, 0)
	r.completed(round)
	r.commit()
	if store.commits != 3 || store.written != writtenAtOnce || !store.snapshot.LastRound.IsZero() {
		t.Errorf("%d records in %d commits and the round %v are written before the error, want %d in 3, and none", store.written, store.commits, store.snapshot.LastRound, writtenAtOnce)
	}
	for name := range store.snapshot.Autoscalers {
		if entries, _ := store.History(t.Context(), name, time.Time{}, time.Time{}, 0); len(entries) != 1 {
			t.Fatalf("the record of %s is there before the history, which is %+v", name, entries)
		}
	}
	store.most = 0
	r.commit()
	if store.commits != 5 || store.written != records || !store.snapshot.LastRound.Equal(round) {
		t.Errorf("%d records in %d commits and the round %v are written, want %d in 5, and %v", store.written, store.commits, store.snapshot.LastRound, records, round)
	}
	for i := range records {
		if record := store.snapshot.Autoscalers[name(i)]; !record.Created.Equal(time.Unix(int64(i), 0)) {
			t.Fatalf("the record of %s is %+v", name(i), record)
		}
		if entries, _ := store.History(t.Context(), name(i), time.Time{}, time.Time{}, 0); len(entries) != 1 {
			t.Fatalf("the history of %s is %+v, want one entry", name(i), entries)
		}
	}
}
