package round_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap/zaptest/observer"

	"github.com/hpad/hpad/daemon/adapters"
	"github.com/hpad/hpad/daemon/daemontest"
	"github.com/hpad/hpad/daemon/state"
	"github.com/hpad/hpad/daemon/ticks"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/sources"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/targettest"
)

// failing makes a query return the errors in rotation.
func failing(s *daemontest.Source, text string, errs ...error) {
	calls := 0
	s.Set(text, func(_ context.Context, at time.Time) (sources.Vector, error) {
		err := errs[calls%len(errs)]
		calls++
		if err == nil {
			return daemontest.Vector(3, at), nil
		}
		return sources.Vector{}, err
	})
}

// failuresLogged returns the failures that were logged since the last call.
func failuresLogged(logs *observer.ObservedLogs) []string {
	var all []string
	for _, entry := range logs.TakeAll() {
		line := []string{entry.Message}
		fields := entry.ContextMap()
		for _, key := range []string{"autoscaler", "err"} {
			if value, ok := fields[key]; ok {
				line = append(line, fmt.Sprint(value))
			}
		}
		if changes, ok := fields["changes"]; ok {
			line = append(line, fmt.Sprintf("%v changes", changes))
		}
		all = append(all, strings.Join(line, " | "))
	}
	return all
}

// TestCausesAreReportedOnce checks that the log and the history contain each cause of a failure
// once, even if conditions and reasons do not change.
func TestCausesAreReportedOnce(t *testing.T) {
	daemontest.Run(t, func(t *testing.T, w *daemontest.World) {
		logs := w.Observed()
		w.AddWithValue("q", 3, 3)
		w.Start()
		w.Advance(time.Minute)
		logs.TakeAll()
		begun := len(w.HistoryOf("q"))
		var since []time.Time
		fail := func(result func(context.Context, time.Time) (sources.Vector, error)) {
			w.Source().Set("q", result)
			since = append(since, ticks.Next(time.Now(), 15*time.Second))
			w.Advance(10 * time.Minute)
		}
		port := 40000
		fail(func(context.Context, time.Time) (sources.Vector, error) {
			port++
			return sources.Vector{}, fmt.Errorf("read tcp 127.0.0.1:%d: connection refused", port)
		})
		fail(func(context.Context, time.Time) (sources.Vector, error) {
			return sources.Vector{}, &sources.QueryError{Err: errors.New("server returned 400 Bad Request: parse error")}
		})
		fail(func(_ context.Context, at time.Time) (sources.Vector, error) {
			return daemontest.Vector(math.NaN(), at), nil
		})
		fail(func(_ context.Context, at time.Time) (sources.Vector, error) { return daemontest.Vector(3, at), nil })

		const first = "1 of 1 metrics failed, first external metric queue: "
		want := []string{
			"source does not respond | read tcp 127.0.0.1:40001: connection refused",
			"source has recovered",
			"evaluation failed | q | " + first + "server returned 400 Bad Request: parse error",
			"evaluation failed | q | " + first + "series {}: value is not a number (NaN)",
			"evaluation recovered | q",
		}
		got := failuresLogged(logs)
		slices.Sort(want) // the order of sources and autoscalers is random
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("log (-want +got):\n%s", diff)
		}
		entries := w.HistoryOf("q")[begun:]
		if len(entries) != 4 {
			t.Fatalf("%d history entries, want one for each cause and one for the end: %+v", len(entries), entries)
		}
		for i, entry := range entries {
			if !entry.Time.Equal(since[i]) || entry.Unreported != nil {
				t.Errorf("time of entry %d = %s (unreported %v), want %s", i, entry.Time, entry.Unreported, since[i])
			}
			if i < 3 && !entry.Since.Equal(since[i]) || i == 3 && !entry.Since.IsZero() {
				t.Errorf("start time of entry %d = %s, want %s", i, entry.Since, since[i])
			}
		}
		w.Stop()
	})
}

// TestCauseSurvivesARestart checks that the start time of a problem survives a restart, and that
// the problem is not recorded again.
func TestCauseSurvivesARestart(t *testing.T) {
	daemontest.Run(t, func(t *testing.T, w *daemontest.World) {
		logs := w.Observed()
		w.Add("q", 3)
		failing(w.Source(), "q", &sources.QueryError{Err: errors.New("bad query")})
		w.Start()
		began := w.View("q").Evaluation.Since
		w.Advance(time.Minute)
		if began.IsZero() || len(w.HistoryOf("q")) != 1 {
			t.Fatalf("start time = %s, history = %+v", began, w.HistoryOf("q"))
		}
		w.Stop()
		logs.TakeAll()
		w.Start()
		w.Advance(time.Minute)
		if got := w.View("q").Evaluation.Since; !got.Equal(began) {
			t.Errorf("start time = %s, want %s", got, began)
		}
		if got := w.HistoryOf("q"); len(got) != 1 {
			t.Errorf("history after a restart = %+v", got)
		}
		if got := failuresLogged(logs); !daemontest.Contains(got, "evaluation failed | q") {
			t.Errorf("log of the new process = %q, want the failure", got)
		}
		w.Stop()
	})
}

// TestFailedFleetIsOneLine checks that an outage of a fleet is logged in one line, which contains
// the number of affected autoscalers.
func TestFailedFleetIsOneLine(t *testing.T) {
	daemontest.Run(t, func(t *testing.T, w *daemontest.World) {
		logs := w.Observed()
		for i := range 20 {
			name := fmt.Sprintf("q%d", i)
			w.Add(name, 3)
			w.Source().Value(name, 3)
		}
		w.Start()
		w.Advance(time.Minute)
		logs.TakeAll()
		remove := w.Fleet().Inject(targettest.Fault{Call: targettest.SnapshotCall, Err: errors.New("connection refused")})
		w.Advance(time.Minute)
		remove()
		remove = w.Fleet().Inject(targettest.Fault{Call: targettest.SnapshotCall, Err: targets.ErrForbidden})
		w.Advance(time.Minute)
		remove()
		w.Advance(time.Minute)
		for _, line := range logs.All() {
			if got := line.ContextMap()["autoscalers"]; got != int64(20) {
				t.Errorf("%s: %v autoscalers, want 20", line.Message, got)
			}
		}
		got := failuresLogged(logs)
		if len(got) != 3 || !strings.Contains(got[0], "connection refused") || !strings.Contains(got[1], "forbidden") || got[2] != "fleet has recovered" {
			t.Errorf("log = %q, want one line for each cause and one for the end", got)
		}
		// The error of a single target is logged for its autoscaler.
		w.Fleet().Change("q3", func(target *targettest.MemoryTarget) { target.Err = targets.ErrTargetNotFound })
		w.Advance(time.Minute)
		if got := failuresLogged(logs); len(got) != 1 || !strings.HasPrefix(got[0], "evaluation failed | q3 | ") {
			t.Errorf("log = %q, want one line about q3", got)
		}
		w.Stop()
	})
}

// TestOutcomesAreRecorded checks that the history and the view contain the outcome of a write.
func TestOutcomesAreRecorded(t *testing.T) {
	hold := &policy.Hold{Reason: "DependencyNotReady", Message: "waits"}
	for _, test := range []struct {
		name   string
		fault  targettest.Fault
		dryRun bool
		// after is the duration of the write.
		after time.Duration
		want  func(e state.Entry) bool
	}{
		{"held", targettest.Fault{Err: &targets.HeldError{Hold: *hold}}, false, 0, func(e state.Entry) bool {
			return e.Written == nil && e.Hold != nil && *e.Hold == *hold && e.Error == ""
		}},
		{"partial", targettest.Fault{Reach: new(int32(4))}, false, 0, func(e state.Entry) bool {
			return e.Written != nil && *e.Written == 4 && e.Error == "scale fleet/q to 6 replicas: 4 replicas reached: no capacity for 6 replicas"
		}},
		{"partial after the write time", targettest.Fault{Err: &targets.PartialError{Reached: 4, Err: targets.ErrWriteTime}}, false, 0, func(e state.Entry) bool {
			return strings.HasSuffix(e.Error, "time limit for one write exceeded (15s, the sync_period)")
		}},
		{"failed", targettest.Fault{Err: targets.ErrForbidden}, false, 0, func(e state.Entry) bool {
			return e.Written == nil && e.Hold == nil && e.Error == "scale fleet/q to 6 replicas: forbidden"
		}},
		{"timeout", targettest.Fault{Hang: true}, false, 15*time.Second + 2*adapters.CallGrace, func(e state.Entry) bool {
			return strings.Count(e.Error, "scale ") == 1 && strings.HasSuffix(e.Error, "(no response within 15s, the sync_period)")
		}},
		{"hung", targettest.Fault{Block: make(chan struct{})}, false, 15*time.Second + 2*adapters.CallGrace, func(e state.Entry) bool {
			return strings.Count(e.Error, "scale ") == 1 && strings.HasSuffix(e.Error, "no response within 15s, the sync_period")
		}},
		{"dry run", targettest.Fault{Err: errors.New("unexpected write")}, true, 0, func(e state.Entry) bool {
			return e.DryRun && e.Written == nil && e.Error == ""
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			daemontest.Run(t, func(t *testing.T, w *daemontest.World) {
				w.DryRun = test.dryRun
				w.AddWithValue("q", 3, 6)
				block := make(chan struct{})
				if test.fault.Block != nil {
					test.fault.Block = block
				}
				test.fault.Call = targettest.WriteCall
				w.Fleet().Inject(test.fault)
				w.Start()
				w.Advance(test.after)
				entries := w.HistoryOf("q")
				if len(entries) == 0 || !test.want(entries[0]) {
					t.Errorf("history = %+v", entries)
				}
				recorded, err := w.Daemon.History(t.Context(), "q", time.Time{}, time.Time{}, 0)
				if err != nil || len(recorded) == 0 {
					t.Fatalf("History = %v, %v", recorded, err)
				}
				view := w.View("q").Evaluation
				if e := recorded[0].Evaluation(); !cmp.Equal(e.Written, view.Written) || !cmp.Equal(e.Hold, view.Hold) || e.DryRun != view.DryRun || e.Error != view.Error {
					t.Errorf("the entry contains %+v, the view %+v", e, view)
				}
				close(block)
				w.Stop()
			})
		})
	}
}

// TestForeignChangesAndBoundsAreReported checks that changes by external writers and changes to
// bounds are in the log and in the history.
func TestForeignChangesAndBoundsAreReported(t *testing.T) {
	daemontest.Run(t, func(t *testing.T, w *daemontest.World) {
		logs := w.Observed()
		w.AddWithValue("q", 3, 3)
		w.Start()
		w.Advance(time.Minute)
		logs.TakeAll()
		w.Fleet().Change("q", func(target *targettest.MemoryTarget) { target.Replicas = 9 })
		w.Advance(15 * time.Second)
		all := logs.TakeAll()
		if len(all) == 0 || all[0].Message != "count changed by external writer" || all[0].ContextMap()["from"] != int32(3) || all[0].ContextMap()["to"] != int32(9) {
			t.Errorf("log = %+v, want the change from 3 to 9 first", all)
		}
		entries := w.HistoryOf("q")
		if last := entries[len(entries)-1]; last.Decision.Foreign == nil || last.Decision.Foreign.From != 3 {
			t.Errorf("foreign change of the newest entry = %+v", last.Decision.Foreign)
		}
		w.Advance(20 * time.Minute)
		logs.TakeAll()

		changed := w.Config.Autoscalers["q"]
		twelve := int32(12) // more than the count, so that the pass writes
		changed.Spec.MinReplicas, changed.Spec.MaxReplicas = &twelve, 50
		w.Reload()
		w.Advance(time.Minute)
		const message = "the configuration changed min from 1 to 12 and max from 100 to 50"
		found := logs.FilterMessage("bounds changed").All()
		if len(found) != 1 || found[0].ContextMap()["change"] != message {
			t.Errorf("log = %+v", found)
		}
		wantBoundsEvent(w, message)

		// A change to the bounds between two runs is detected as well.
		w.Stop()
		changed.Spec.MaxReplicas = 60
		w.Config.Autoscalers["q"] = changed
		w.Start()
		w.Advance(time.Minute)
		wantBoundsEvent(w, "the configuration changed max from 50 to 60")
		w.Stop()
	})
}

// wantBoundsEvent checks that the history of "q" contains the event for changed bounds exactly
// once.
func wantBoundsEvent(w *daemontest.World, message string) {
	w.T.Helper()
	count := 0
	for _, entry := range w.HistoryOf("q") {
		for _, event := range entry.Events {
			if event == (policy.Event{Kind: policy.NormalEvent, Reason: "BoundsChanged", Message: message}) {
				count++
			}
		}
	}
	if count != 1 {
		w.T.Errorf("the history contains %d events %q, want 1", count, message)
	}
}
