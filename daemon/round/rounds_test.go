package round_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/hpad/hpad/daemon/adapters"
	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/daemon/daemontest"
	"github.com/hpad/hpad/daemon/explain"
	"github.com/hpad/hpad/daemon/metrics"
	"github.com/hpad/hpad/daemon/notify"
	"github.com/hpad/hpad/daemon/reason"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/sources"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/targettest"
)

func TestRoundReadsOnce(t *testing.T) {
	daemontest.Run(t, func(t *testing.T, w *daemontest.World) {
		for i := range 100 {
			w.Add(fmt.Sprintf("a%d", i), 3, func(a *config.Autoscaler) { a.Inputs[0].Query = fmt.Sprintf("q%d", i%3) })
		}
		for i := range 3 {
			w.Source().Value(fmt.Sprintf("q%d", i), 3)
		}
		w.Start()
		before := w.Fleet().Calls()
		queries := w.Source().Count("q1")
		w.Advance(10 * 15 * time.Second)
		after := w.Fleet().Calls()
		if got := after.Snapshots - before.Snapshots; got != 10 {
			t.Errorf("10 rounds read the fleet %d times, want 10", got)
		}
		if got := after.Refs - before.Refs; got != 10*100 {
			t.Errorf("10 rounds read %d targets, want 1000", got)
		}
		if got := w.Source().Count("q1") - queries; got != 10 {
			t.Errorf("10 rounds sent a shared query %d times, want 10", got)
		}
		w.Stop()
	})
}

func TestTicksAreAligned(t *testing.T) {
	daemontest.Run(t, func(t *testing.T, w *daemontest.World) {
		w.Add("default", 3)
		w.Add("slow", 3, func(a *config.Autoscaler) { a.SyncPeriod = time.Minute })
		w.Add("fast", 3, func(a *config.Autoscaler) { a.SyncPeriod = time.Second })
		w.Advance(7300 * time.Millisecond)
		var mu sync.Mutex
		at := map[string][]time.Duration{}
		started := time.Now().Truncate(time.Minute)
		for name := range w.Config.Autoscalers {
			w.Source().Set(name, func(_ context.Context, now time.Time) (sources.Vector, error) {
				mu.Lock()
				defer mu.Unlock()
				at[name] = append(at[name], now.Sub(started))
				return daemontest.Vector(3, now), nil
			})
		}
		w.Start()
		w.Advance(61 * time.Second)
		w.Stop()
		s := time.Second
		first := 7300 * time.Millisecond // R23: a new autoscaler is evaluated immediately
		if want := []time.Duration{first, 15 * s, 30 * s, 45 * s, 60 * s}; !slices.Equal(at["default"], want) {
			t.Errorf("default was evaluated at %v, want %v", at["default"], want)
		}
		if want := []time.Duration{first, 60 * s}; !slices.Equal(at["slow"], want) {
			t.Errorf("slow was evaluated at %v, want %v", at["slow"], want)
		}
		if got := len(at["fast"]); got != 62 {
			t.Errorf("fast was evaluated %d times, want 62", got)
		}
	})
}

func TestScalesUpAndDown(t *testing.T) {
	daemontest.Run(t, func(t *testing.T, w *daemontest.World) {
		w.AddWithValue("q", 3, 3)
		start := time.Now()
		w.Start()
		w.Advance(time.Minute)
		w.Source().Value("q", 9)
		w.Advance(time.Minute)
		w.Source().Value("q", 2)
		w.Advance(10 * time.Minute)
		// R57: at most twice the count. R55: the last 9 was at 120 s and is valid for five minutes.
		want := []string{"1m15s: 3>6", "1m30s: 6>9", "7m15s: 9>2"}
		if diff := cmp.Diff(want, w.Writes("q", start)); diff != "" {
			t.Errorf("writes (-want +got):\n%s", diff)
		}
		view := w.View("q")
		if view.Status.DesiredReplicas != 2 || view.Evaluation.Error != "" || view.Decision == nil {
			t.Errorf("view = %+v", view)
		}
		if !daemontest.Contains(w.Reasons("q"), "SuccessfulRescale") {
			t.Errorf("events = %v, want a SuccessfulRescale", w.Reasons("q"))
		}
		w.Stop()
	})
}

// TestHungSourceDelaysNoOther checks that a hanging source does not delay autoscalers that do not
// use it, and that its metric fails at the deadline.
func TestHungSourceDelaysNoOther(t *testing.T) {
	daemontest.Run(t, func(t *testing.T, w *daemontest.World) {
		w.Sources["slow"] = daemontest.NewSource()
		w.Add("good", 3)
		w.Add("stuck", 8, func(a *config.Autoscaler) { a.Inputs[0].Source = "slow" })
		w.Source().Value("good", 3)
		w.Sources["slow"].Hang("stuck")
		w.Start()
		w.Advance(30*time.Second + time.Millisecond)
		tick := time.Now().Truncate(15 * time.Second).UTC()
		if got := w.View("good").Evaluation; !got.Last.Equal(tick) || got.Error != "" {
			t.Errorf("good's evaluation = %+v, want the last at %s", got, tick)
		}
		if got := w.View("stuck").Evaluation.Last; got.Equal(tick) {
			t.Errorf("stuck was evaluated at %s without a response", got)
		}
		w.Advance(11 * time.Second)
		stuck := w.View("stuck")
		if !stuck.Evaluation.Last.Equal(tick) || stuck.Evaluation.Late != 0 || stuck.Evaluation.Error == "" {
			t.Errorf("stuck's evaluation = %+v, want a failed one at %s", stuck.Evaluation, tick)
		}
		if got := w.Fleet().Replicas("stuck"); got != 8 {
			t.Errorf("replicas = %d, want an unchanged 8", got)
		}
		readiness := w.Daemon.Readiness()
		if !readiness.Ready || !slices.ContainsFunc(readiness.Problems, func(p api.Problem) bool { return p.Subject == "source slow" }) {
			t.Errorf("readiness = %+v, want ready with a problem of source slow", readiness)
		}
		w.Stop()
	})
}

// TestAdapterThatIgnoresItsContext checks that an adapter that ignores its context affects only its
// own autoscalers and a limited number of goroutines.
func TestAdapterThatIgnoresItsContext(t *testing.T) {
	daemontest.Run(t, func(t *testing.T, w *daemontest.World) {
		w.Fleets["other"] = targettest.NewMemory("other")
		w.Add("q", 3)
		w.Add("blocked", 3, func(a *config.Autoscaler) {
			a.Target = w.Fleets["other"].Add("blocked", targettest.MemoryTarget{Replicas: 3})
		})
		w.Source().Value("q", 3)
		w.Source().Value("blocked", 30)
		w.Start()
		release := make(chan struct{})
		remove := w.Fleets["other"].Inject(targettest.Fault{Call: targettest.SnapshotCall, Block: release})
		w.Advance(10 * time.Minute)
		if got := w.Fleets["other"].Calls().Snapshots; got > 1+adapters.ReadsAtOnce {
			t.Errorf("the blocked fleet was called %d times, want at most %d", got, 1+adapters.ReadsAtOnce)
		}
		if got := w.Condition("blocked", policy.AbleToScale); got != "False/FailedGetScale" {
			t.Errorf("AbleToScale = %s", got)
		}
		if got := w.View("q").Evaluation; got.Error != "" || time.Since(got.Last) > 16*time.Second {
			t.Errorf("q's evaluation = %+v", got)
		}
		remove()
		close(release)
		w.Advance(time.Minute)
		if got := w.Condition("blocked", policy.AbleToScale); got == "False/FailedGetScale" {
			t.Errorf("AbleToScale after the fleet recovered = %s", got)
		}
		w.Stop()
	})
}

// TestHungWrite checks that a hanging write delays only its own autoscaler, then fails, and is
// settled by the next reading.
func TestHungWrite(t *testing.T) {
	daemontest.Run(t, func(t *testing.T, w *daemontest.World) {
		second := func(a *config.Autoscaler) { a.SyncPeriod = time.Second }
		w.Add("q", 3, second)
		w.Add("other", 3, second)
		w.Source().Value("q", 6)
		w.Source().Value("other", 3)
		remove := w.Fleet().Inject(targettest.Fault{Call: targettest.WriteCall, Target: "q", Hang: true})
		w.Start()
		w.Advance(4500 * time.Millisecond)
		if got := w.View("q").Evaluation.Late; got < 3 {
			t.Errorf("late ticks = %d, want at least 3", got)
		}
		if problems := w.Daemon.Health().Unevaluated; len(problems) != 1 || problems[0].Subject != "autoscaler q" {
			t.Errorf("unevaluated = %v, want only q", problems)
		}
		if !w.View("q").Evaluation.Unevaluated || w.View("other").Evaluation.Unevaluated {
			t.Errorf("want q as the only unevaluated autoscaler in the views")
		}
		if got := w.View("other").Evaluation; got.Late != 0 || time.Since(got.Last) > time.Second {
			t.Errorf("other's evaluation = %+v", got)
		}
		remove()
		w.Advance(3 * time.Second)
		if got := w.Fleet().Replicas("q"); got != 6 {
			t.Errorf("replicas after writes succeed again = %d, want 6", got)
		}
		if problems := w.Daemon.Health().Unevaluated; len(problems) != 0 {
			t.Errorf("unevaluated = %v, want none", problems)
		}
		w.Stop()
	})
}

func TestPanics(t *testing.T) {
	daemontest.Run(t, func(t *testing.T, w *daemontest.World) {
		receiver := notify.Config{URLFile: filepath.Join(t.TempDir(), "none"), Events: []string{"failed"}, Reasons: []string{"Panicked"}}
		receiver.SetDefaults()
		w.Config.Notifications = map[string]notify.Config{"waits": receiver}
		logs := w.Observed()
		registry := prometheus.NewRegistry()
		w.Metrics = metrics.New(registry)
		w.Add("q", 3)
		w.Add("other", 3)
		w.Source().Value("q", 6)
		w.Source().Value("other", 3)
		remove := w.Fleet().Inject(targettest.Fault{Call: targettest.WriteCall, Target: "q", Panic: "boom"})
		start := time.Now()
		w.Start()
		w.Advance(30*time.Second + time.Millisecond)
		got := w.View("q").Evaluation
		if got.QuarantinedUntil.IsZero() || !daemontest.Contains([]string{got.Error}, "boom") {
			t.Errorf("evaluation after three panics = %+v, want a quarantine", got)
		}
		remove()
		w.Advance(2 * time.Minute)
		if got := w.Writes("q", start); len(got) != 0 {
			t.Errorf("writes during the quarantine = %v", got)
		}
		if problems := w.Daemon.Health().Unevaluated; len(problems) != 1 || !daemontest.Contains([]string{problems[0].Message}, "boom") {
			t.Errorf("unevaluated = %v, want q with its panic", problems)
		}
		var text strings.Builder
		if err := w.Metrics.Exposition(registry).WriteText(&text); err != nil {
			t.Fatal(err)
		}
		if got := text.String(); !strings.Contains(got, `hpad_notifications_waiting{receiver="waits"} 1`) { // behind a notification that cannot be sent
			t.Errorf("metrics = %s, want notifications about the first panic and the quarantine", got)
		}
		var failures []string
		for _, entry := range w.HistoryOf("q") {
			if entry.Reason == reason.Panicked.String() {
				failures = append(failures, entry.Error)
				if sentence := explain.Sentence(entry.Decision, api.Evaluation{}); !strings.Contains(sentence, "panicked, which is a bug in hpad: ") {
					t.Errorf("message in the history = %q", sentence)
				}
			}
		}
		if len(failures) != 2 || !strings.HasSuffix(failures[0], "panic: boom") || !strings.HasPrefix(failures[1], "quarantined after ") {
			t.Errorf("history = %q, want the first panic and the quarantine", failures)
		}
		w.Advance(4 * time.Minute)
		if got := w.Fleet().Replicas("q"); got != 6 {
			t.Errorf("replicas = %d, want 6 after the quarantine", got)
		}
		if got := logs.FilterMessage("evaluation recovered").Len(); got != 1 {
			t.Errorf("%d log lines about the end of the panics, want 1", got)
		}
		if got := w.View("other").Evaluation; got.Error != "" || got.Late != 0 {
			t.Errorf("other's evaluation = %+v", got)
		}
		w.Stop()
	})
}

// TestPanickingReads checks that a panic of a fleet or a source fails its read and does not stop
// the daemon.
func TestPanickingReads(t *testing.T) {
	daemontest.Run(t, func(t *testing.T, w *daemontest.World) {
		w.Add("q", 8)
		w.AddWithValue("other", 3, 3)
		w.Source().Set("q", func(context.Context, time.Time) (sources.Vector, error) { panic("garbled") })
		w.Start()
		w.Advance(time.Hour)
		if got := w.Fleet().Replicas("q"); got != 8 {
			t.Errorf("replicas = %d, want an unchanged 8", got)
		}
		if got := w.View("q").Evaluation.Error; !daemontest.Contains([]string{got}, "garbled") {
			t.Errorf("error = %q, want the message of the panic", got)
		}
		remove := w.Fleet().Inject(targettest.Fault{Call: targettest.SnapshotCall, Panic: "torn"})
		w.Advance(time.Minute)
		if got := w.Condition("other", policy.AbleToScale); got != "False/FailedGetScale" {
			t.Errorf("AbleToScale = %s", got)
		}
		remove()
		w.Advance(time.Minute)
		if got := w.View("other").Evaluation.Error; got != "" {
			t.Errorf("error after the fleet recovered = %q", got)
		}
		w.Stop()
	})
}

// TestConflictIsRetried checks that after a version conflict, the target is read again and the
// write is retried if the count is the same (R71).
func TestConflictIsRetried(t *testing.T) {
	daemontest.Run(t, func(t *testing.T, w *daemontest.World) {
		w.AddWithValue("q", 3, 6)
		w.Fleet().Inject(targettest.Fault{Call: targettest.WriteCall, Times: 2, Err: targets.ErrConflict})
		w.Start()
		w.Advance(time.Second)
		if got := w.Fleet().Replicas("q"); got != 6 {
			t.Errorf("replicas = %d, want 6", got)
		}
		if got := w.Condition("q", policy.AbleToScale); got != "True/SucceededRescale" {
			t.Errorf("AbleToScale = %s", got)
		}
		const attempts = 5 // R71
		w.Fleet().Inject(targettest.Fault{Call: targettest.WriteCall, Times: attempts, Err: targets.ErrConflict})
		w.Source().Value("q", 9)
		before := len(w.Fleet().Writes())
		w.Advance(15 * time.Second)
		if got := len(w.Fleet().Writes()) - before; got != attempts {
			t.Errorf("%d attempts, want %d", got, attempts)
		}
		if got := w.Condition("q", policy.AbleToScale); got != "False/FailedUpdateScale" {
			t.Errorf("AbleToScale = %s", got)
		}
		w.Stop()
	})
}

// TestForeignChangeIsNotOverwritten checks that a pass does not overwrite a count that an external
// writer changed between its read and its write, and that the next pass starts from that count.
func TestForeignChangeIsNotOverwritten(t *testing.T) {
	daemontest.Run(t, func(t *testing.T, w *daemontest.World) {
		w.AddWithValue("q", 3, 3)
		start := time.Now()
		w.Start()
		w.Advance(time.Minute)
		changed := false
		w.Source().Set("q", func(_ context.Context, at time.Time) (sources.Vector, error) {
			if !changed { // after the read
				changed = true
				time.Sleep(time.Second)
				w.Fleet().Change("q", func(target *targettest.MemoryTarget) { target.Replicas = 5 })
			}
			return daemontest.Vector(10, at), nil
		})
		w.Advance(31 * time.Second)
		if !daemontest.Contains(w.Reasons("q"), daemontest.ForeignEvent) {
			t.Errorf("events = %v, want %s", w.Reasons("q"), daemontest.ForeignEvent)
		}
		// R57 limits a scale-up from 3 to 6, and a scale-up from 5 to 10.
		if diff := cmp.Diff([]string{"1m30s: 5>10"}, trimFractions(w.Writes("q", start))); diff != "" {
			t.Errorf("writes (-want +got):\n%s", diff)
		}
		w.Stop()
	})
}

// TestForeignChange checks that a change by an external writer between two passes adds an event,
// and is accepted or reverted.
func TestForeignChange(t *testing.T) {
	for _, test := range []struct {
		reaction config.OnForeignChange
		to       int32
		want     []string
	}{
		// The window still contains 5, and R57 limits a scale-up from 2 to 4.
		{config.AcceptForeignChange, 2, []string{"1m30s: 2>4", "1m45s: 4>5"}},
		{config.RestoreForeignChange, 2, []string{"1m30s: 2>5"}},
		{config.RestoreForeignChange, 50, []string{"1m30s: 50>5"}},
		{config.RestoreForeignChange, 0, nil}, // R51
	} {
		t.Run(fmt.Sprintf("%s %d", test.reaction, test.to), func(t *testing.T) {
			daemontest.Run(t, func(t *testing.T, w *daemontest.World) {
				w.Add("q", 5, func(a *config.Autoscaler) { a.OnForeignChange = test.reaction })
				w.Source().Value("q", 5)
				start := time.Now()
				w.Start()
				w.Advance(80 * time.Second)
				w.Fleet().Change("q", func(target *targettest.MemoryTarget) { target.Replicas = test.to })
				w.Advance(11 * time.Second)
				if got := w.Reasons("q"); !daemontest.Contains(got, daemontest.ForeignEvent+" x1") {
					t.Errorf("events = %v, want one %s", got, daemontest.ForeignEvent)
				}
				if test.want == nil {
					if got := w.Condition("q", policy.ForeignWriter); got != "True/CountChanged" {
						t.Errorf("ForeignWriter = %s", got)
					}
				}
				w.Advance(time.Minute)
				if diff := cmp.Diff(test.want, w.Writes("q", start)); diff != "" {
					t.Errorf("writes (-want +got):\n%s", diff)
				}
				if test.want != nil {
					if got := w.Condition("q", policy.ForeignWriter); got != "False/Rescaled" {
						t.Errorf("ForeignWriter = %s after a write", got)
					}
				}
				w.Stop()
			})
		})
	}
}

func trimFractions(all []string) []string {
	for i, s := range all {
		var d time.Duration
		var rest string
		if n, _ := fmt.Sscanf(s, "%s %s", &rest, &s); n == 2 {
			d, _ = time.ParseDuration(rest[:len(rest)-1])
			all[i] = d.Truncate(time.Second).String() + ": " + s
		}
	}
	return all
}

// TestLostResponse checks that the next reading settles a write without a response: its scale event
// is added once, with the time of the write.
func TestLostResponse(t *testing.T) {
	for _, test := range []struct {
		name   string
		after  func(w *daemontest.World)
		change int32
		says   string
	}{
		{"written", func(*daemontest.World) {}, 3, "SuccessfulRescale"},
		{"written in part", func(w *daemontest.World) {
			w.Fleet().Change("q", func(target *targettest.MemoryTarget) { target.Replicas = 5 })
		}, 2, "SuccessfulRescale"},
		{"written and then changed", func(w *daemontest.World) {
			w.Fleet().Change("q", func(target *targettest.MemoryTarget) { target.Replicas = 8 })
		}, 3, daemontest.ForeignEvent},
		{"not written", func(w *daemontest.World) {
			w.Fleet().Change("q", func(target *targettest.MemoryTarget) { target.Replicas = 3 })
		}, 0, "FailedRescale"},
	} {
		t.Run(test.name, func(t *testing.T) {
			daemontest.Run(t, func(t *testing.T, w *daemontest.World) {
				w.Add("q", 3, func(a *config.Autoscaler) { a.Spec.Behavior = &policy.Behavior{} })
				w.Source().Value("q", 3)
				w.Start()
				w.Advance(time.Minute)
				w.Source().Value("q", 6)
				w.Fleet().Inject(targettest.Fault{Call: targettest.WriteCall, Times: 1, Lost: true})
				w.Advance(15 * time.Second)
				wrote := time.Now().Truncate(15 * time.Second)
				if record, _ := w.Store.Record("q"); record.Intention == nil || record.Intention.To != 6 {
					t.Fatalf("intention = %+v, want a write to 6", record.Intention)
				}
				test.after(w)
				w.Source().Value("q", float64(w.Fleet().Replicas("q")))
				w.Advance(30 * time.Second)
				a := w.Record("q")
				if got := len(a.Memory.ScaleUpEvents); got != min(1, int(test.change)) {
					t.Errorf("scale-up events = %+v, want a change of %d", a.Memory.ScaleUpEvents, test.change)
				}
				if test.change > 0 && (a.Memory.ScaleUpEvents[0].Change != test.change || !a.Memory.ScaleUpEvents[0].Time.Equal(wrote) || !a.Status.LastScaleTime.Equal(wrote)) {
					t.Errorf("event = %+v, last scale %s, want a change of %d at %s", a.Memory.ScaleUpEvents[0], a.Status.LastScaleTime, test.change, wrote)
				}
				if got := w.Reasons("q"); !daemontest.Contains(got, test.says) || daemontest.Contains(got, daemontest.ForeignEvent) != (test.says == daemontest.ForeignEvent) {
					t.Errorf("events = %v, want %s", got, test.says)
				}
				if record, _ := w.Store.Record("q"); record.Intention != nil {
					t.Errorf("intention = %+v, want it settled", record.Intention)
				}
				w.Stop()
			})
		})
	}
}

// TestReloadOfThePeriodMissesNoTick checks that after a change of the period, an autoscaler is
// evaluated at every tick of the new period.
func TestReloadOfThePeriodMissesNoTick(t *testing.T) {
	daemontest.Run(t, func(t *testing.T, w *daemontest.World) {
		w.AddWithValue("q", 3, 3)
		w.Start()
		w.Advance(17500 * time.Millisecond)
		changed := w.Config.Autoscalers["q"]
		changed.SyncPeriod = time.Second
		before := w.Source().Count("q")
		w.Reload()
		w.Advance(time.Second)
		if got := w.Source().Count("q") - before; got != 2 {
			t.Errorf("evaluations of q in the second after the reload = %d, want one immediately and one at the tick", got)
		}
		w.Stop()
	})
}

// TestRateCountsFromTheWrite checks that the period of a rate limit starts at the write and not at
// the decision. A slow store delays the write.
func TestRateCountsFromTheWrite(t *testing.T) {
	daemontest.Run(t, func(t *testing.T, w *daemontest.World) {
		w.Add("q", 1, limited)
		w.Source().Value("q", 1)
		w.Start()
		w.Advance(time.Minute)
		w.Store.SlowDown(6 * time.Second)
		w.Source().Value("q", 6)
		w.Advance(9 * time.Second)
		w.Store.SlowDown(0)
		w.Advance(time.Minute)
		writes := w.Fleet().Writes()
		if len(writes) < 3 {
			t.Fatalf("writes = %v", writes)
		}
		for i := 1; i < len(writes); i++ {
			if gap := writes[i].At.Sub(writes[i-1].At); gap < 20*time.Second {
				t.Errorf("writes %d and %d are %s apart, want at least 20s", i, i+1, gap)
			}
		}
		w.Stop()
	})
}
