package daemon

import (
	"context"
	"errors"
	"fmt"
	"math"
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
	inWorld(t, func(t *testing.T, w *world) {
		for i := range 100 {
			w.queue(fmt.Sprintf("a%d", i), 3, func(a *config.Autoscaler) { a.Inputs[0].Query = fmt.Sprintf("q%d", i%3) })
		}
		for i := range 3 {
			w.source().value(fmt.Sprintf("q%d", i), 3)
		}
		w.start()
		before := w.fleet().Calls()
		queries := w.source().count("q1")
		w.advance(10 * 15 * time.Second)
		after := w.fleet().Calls()
		if got := after.Snapshots - before.Snapshots; got != 10 {
			t.Errorf("10 rounds read the fleet %d times, want 10", got)
		}
		if got := after.Refs - before.Refs; got != 10*100 {
			t.Errorf("10 rounds read %d targets, want 1000", got)
		}
		if got := w.source().count("q1") - queries; got != 10 {
			t.Errorf("10 rounds sent a shared query %d times, want 10", got)
		}
		w.stop()
	})
}

func TestTicksAreAligned(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.queue("default", 3)
		w.queue("slow", 3, func(a *config.Autoscaler) { a.SyncPeriod = time.Minute })
		w.queue("fast", 3, func(a *config.Autoscaler) { a.SyncPeriod = time.Second })
		w.advance(7300 * time.Millisecond)
		var mu sync.Mutex
		at := map[string][]time.Duration{}
		started := time.Now().Truncate(time.Minute)
		for name := range w.config.Autoscalers {
			w.source().set(name, func(_ context.Context, now time.Time) (sources.Vector, error) {
				mu.Lock()
				defer mu.Unlock()
				at[name] = append(at[name], now.Sub(started))
				return one(3, now), nil
			})
		}
		w.start()
		w.advance(61 * time.Second)
		w.stop()
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
	inWorld(t, func(t *testing.T, w *world) {
		w.fed("q", 3, 3)
		start := time.Now()
		w.start()
		w.advance(time.Minute)
		w.source().value("q", 9)
		w.advance(time.Minute)
		w.source().value("q", 2)
		w.advance(10 * time.Minute)
		// R57: at most twice the count. R55: the last 9 was at 120 s and is valid for five minutes.
		want := []string{"1m15s: 3>6", "1m30s: 6>9", "7m15s: 9>2"}
		if diff := cmp.Diff(want, w.writes("q", start)); diff != "" {
			t.Errorf("writes (-want +got):\n%s", diff)
		}
		view := w.view("q")
		if view.Status.DesiredReplicas != 2 || view.Evaluation.Error != "" || view.Decision == nil {
			t.Errorf("view = %+v", view)
		}
		if !contains(w.reasons("q"), "SuccessfulRescale") {
			t.Errorf("events = %v, want a SuccessfulRescale", w.reasons("q"))
		}
		w.stop()
	})
}

// TestFailedReadingsNeverScaleDown checks that the count does not change if readings of any kind
// fail.
func TestFailedReadingsNeverScaleDown(t *testing.T) {
	series := func(values ...float64) sources.Vector {
		var v sources.Vector
		for _, value := range values {
			v.Series = append(v.Series, sources.Series{Value: value})
		}
		return v
	}
	for _, test := range []struct {
		name   string
		metric policy.MetricType
		vector sources.Vector
		err    error
		says   string
	}{
		{"error", policy.ExternalMetric, sources.Vector{}, errors.New("connection refused"), "connection refused"},
		{"empty", policy.ExternalMetric, sources.Vector{}, nil, "no value"},
		{"NaN", policy.ExternalMetric, series(math.NaN()), nil, "NaN"},
		{"infinite", policy.ExternalMetric, series(math.Inf(1)), nil, "infinite"},
		{"negative", policy.ExternalMetric, series(-4), nil, "negative"},
		{"several for one object", policy.ObjectMetric, series(1, 2), nil, "2 series"},
	} {
		t.Run(test.name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.queue("q", 8, func(a *config.Autoscaler) {
					a.Spec.Metrics[0].Type = test.metric
					if test.metric == policy.ObjectMetric {
						a.Spec.Metrics[0].Object = "route/main"
					}
				})
				w.source().set("q", func(context.Context, time.Time) (sources.Vector, error) { return test.vector, test.err })
				w.start()
				w.advance(time.Hour)
				if got := w.fleet().Replicas("q"); got != 8 {
					t.Errorf("replicas = %d, want an unchanged 8", got)
				}
				view := w.view("q")
				if len(view.Decision.Metrics) != 1 || !contains([]string{view.Decision.Metrics[0].Error}, test.says) {
					t.Errorf("decision's metrics = %+v, want an error that contains %q", view.Decision.Metrics, test.says)
				}
				if got := w.condition("q", policy.ScalingActive); got != "False/FailedGet"+string(test.metric)+"Metric" {
					t.Errorf("ScalingActive = %s", got)
				}
				w.stop()
			})
		})
	}
}

// TestHungSourceDelaysNoOther checks that a hanging source does not delay autoscalers that do not
// use it, and that its metric fails at the deadline.
func TestHungSourceDelaysNoOther(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.sources["slow"] = newMemorySource()
		w.queue("good", 3)
		w.queue("stuck", 8, func(a *config.Autoscaler) { a.Inputs[0].Source = "slow" })
		w.source().value("good", 3)
		w.sources["slow"].hangs("stuck")
		w.start()
		w.advance(30*time.Second + time.Millisecond)
		tick := time.Now().Truncate(15 * time.Second).UTC()
		if got := w.view("good").Evaluation; !got.Last.Equal(tick) || got.Error != "" {
			t.Errorf("good's evaluation = %+v, want the last at %s", got, tick)
		}
		if got := w.view("stuck").Evaluation.Last; got.Equal(tick) {
			t.Errorf("stuck was evaluated at %s without a response", got)
		}
		w.advance(11 * time.Second)
		stuck := w.view("stuck")
		if !stuck.Evaluation.Last.Equal(tick) || stuck.Evaluation.Late != 0 || stuck.Evaluation.Error == "" {
			t.Errorf("stuck's evaluation = %+v, want a failed one at %s", stuck.Evaluation, tick)
		}
		if got := w.fleet().Replicas("stuck"); got != 8 {
			t.Errorf("replicas = %d, want an unchanged 8", got)
		}
		readiness := w.daemon.Readiness()
		if !readiness.Ready || !slices.ContainsFunc(readiness.Problems, func(p api.Problem) bool { return p.Subject == "source slow" }) {
			t.Errorf("readiness = %+v, want ready with a problem of source slow", readiness)
		}
		w.stop()
	})
}

// TestAdapterThatIgnoresItsContext checks that an adapter that ignores its context affects only its
// own autoscalers and a limited number of goroutines.
func TestAdapterThatIgnoresItsContext(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.fleets["other"] = targettest.NewMemory("other")
		w.queue("q", 3)
		w.queue("blocked", 3, func(a *config.Autoscaler) {
			a.Target = w.fleets["other"].Add("blocked", targettest.MemoryTarget{Replicas: 3})
		})
		w.source().value("q", 3)
		w.source().value("blocked", 30)
		w.start()
		release := make(chan struct{})
		remove := w.fleets["other"].Inject(targettest.Fault{Call: targettest.SnapshotCall, Block: release})
		w.advance(10 * time.Minute)
		if got := w.fleets["other"].Calls().Snapshots; got > 1+adapters.ReadsAtOnce {
			t.Errorf("the blocked fleet was called %d times, want at most %d", got, 1+adapters.ReadsAtOnce)
		}
		if got := w.condition("blocked", policy.AbleToScale); got != "False/FailedGetScale" {
			t.Errorf("AbleToScale = %s", got)
		}
		if got := w.view("q").Evaluation; got.Error != "" || time.Since(got.Last) > 16*time.Second {
			t.Errorf("q's evaluation = %+v", got)
		}
		remove()
		close(release)
		w.advance(time.Minute)
		if got := w.condition("blocked", policy.AbleToScale); got == "False/FailedGetScale" {
			t.Errorf("AbleToScale after the fleet recovered = %s", got)
		}
		w.stop()
	})
}

// TestHungWrite checks that a hanging write delays only its own autoscaler, then fails, and is
// settled by the next reading.
func TestHungWrite(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		second := func(a *config.Autoscaler) { a.SyncPeriod = time.Second }
		w.queue("q", 3, second)
		w.queue("other", 3, second)
		w.source().value("q", 6)
		w.source().value("other", 3)
		remove := w.fleet().Inject(targettest.Fault{Call: targettest.WriteCall, Target: "q", Hang: true})
		w.start()
		w.advance(4500 * time.Millisecond)
		if got := w.view("q").Evaluation.Late; got < 3 {
			t.Errorf("late ticks = %d, want at least 3", got)
		}
		if problems := w.daemon.Health().Unevaluated; len(problems) != 1 || problems[0].Subject != "autoscaler q" {
			t.Errorf("unevaluated = %v, want only q", problems)
		}
		if !w.view("q").Evaluation.Unevaluated || w.view("other").Evaluation.Unevaluated {
			t.Errorf("want q as the only unevaluated autoscaler in the views")
		}
		if got := w.view("other").Evaluation; got.Late != 0 || time.Since(got.Last) > time.Second {
			t.Errorf("other's evaluation = %+v", got)
		}
		remove()
		w.advance(3 * time.Second)
		if got := w.fleet().Replicas("q"); got != 6 {
			t.Errorf("replicas after writes succeed again = %d, want 6", got)
		}
		if problems := w.daemon.Health().Unevaluated; len(problems) != 0 {
			t.Errorf("unevaluated = %v, want none", problems)
		}
		w.stop()
	})
}

func TestPanics(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		receiver := notify.Config{URLFile: filepath.Join(t.TempDir(), "none"), Events: []string{"failed"}, Reasons: []string{"Panicked"}}
		receiver.SetDefaults()
		w.config.Notifications = map[string]notify.Config{"waits": receiver}
		registry := prometheus.NewRegistry()
		w.metrics = metrics.New(registry)
		w.queue("q", 3)
		w.queue("other", 3)
		w.source().value("q", 6)
		w.source().value("other", 3)
		remove := w.fleet().Inject(targettest.Fault{Call: targettest.WriteCall, Target: "q", Panic: "boom"})
		start := time.Now()
		w.start()
		w.advance(30*time.Second + time.Millisecond)
		got := w.view("q").Evaluation
		if got.QuarantinedUntil.IsZero() || !contains([]string{got.Error}, "boom") {
			t.Errorf("evaluation after three panics = %+v, want a quarantine", got)
		}
		remove()
		w.advance(2 * time.Minute)
		if got := w.writes("q", start); len(got) != 0 {
			t.Errorf("writes during the quarantine = %v", got)
		}
		if problems := w.daemon.Health().Unevaluated; len(problems) != 1 || !contains([]string{problems[0].Message}, "boom") {
			t.Errorf("unevaluated = %v, want q with its panic", problems)
		}
		var text strings.Builder
		if err := w.metrics.Exposition(registry).WriteText(&text); err != nil {
			t.Fatal(err)
		}
		if got := text.String(); !strings.Contains(got, `hpad_notifications_waiting{receiver="waits"} 1`) { // behind a notification that cannot be sent
			t.Errorf("metrics = %s, want notifications about the first panic and the quarantine", got)
		}
		var failures []string
		for _, entry := range w.historyOf("q") {
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
		w.advance(4 * time.Minute)
		if got := w.fleet().Replicas("q"); got != 6 {
			t.Errorf("replicas = %d, want 6 after the quarantine", got)
		}
		if got := w.view("other").Evaluation; got.Error != "" || got.Late != 0 {
			t.Errorf("other's evaluation = %+v", got)
		}
		w.stop()
	})
}

// TestPanickingReads checks that a panic of a fleet or a source fails its read and does not stop
// the daemon.
func TestPanickingReads(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.queue("q", 8)
		w.fed("other", 3, 3)
		w.source().set("q", func(context.Context, time.Time) (sources.Vector, error) { panic("garbled") })
		w.start()
		w.advance(time.Hour)
		if got := w.fleet().Replicas("q"); got != 8 {
			t.Errorf("replicas = %d, want an unchanged 8", got)
		}
		if got := w.view("q").Evaluation.Error; !contains([]string{got}, "garbled") {
			t.Errorf("error = %q, want the message of the panic", got)
		}
		remove := w.fleet().Inject(targettest.Fault{Call: targettest.SnapshotCall, Panic: "torn"})
		w.advance(time.Minute)
		if got := w.condition("other", policy.AbleToScale); got != "False/FailedGetScale" {
			t.Errorf("AbleToScale = %s", got)
		}
		remove()
		w.advance(time.Minute)
		if got := w.view("other").Evaluation.Error; got != "" {
			t.Errorf("error after the fleet recovered = %q", got)
		}
		w.stop()
	})
}

// TestConflictIsRetried checks that after a version conflict, the target is read again and the
// write is retried if the count is the same (R71).
func TestConflictIsRetried(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.fed("q", 3, 6)
		w.fleet().Inject(targettest.Fault{Call: targettest.WriteCall, Times: 2, Err: targets.ErrConflict})
		w.start()
		w.advance(time.Second)
		if got := w.fleet().Replicas("q"); got != 6 {
			t.Errorf("replicas = %d, want 6", got)
		}
		if got := w.condition("q", policy.AbleToScale); got != "True/SucceededRescale" {
			t.Errorf("AbleToScale = %s", got)
		}
		const attempts = 5 // R71
		w.fleet().Inject(targettest.Fault{Call: targettest.WriteCall, Times: attempts, Err: targets.ErrConflict})
		w.source().value("q", 9)
		before := len(w.fleet().Writes())
		w.advance(15 * time.Second)
		if got := len(w.fleet().Writes()) - before; got != attempts {
			t.Errorf("%d attempts, want %d", got, attempts)
		}
		if got := w.condition("q", policy.AbleToScale); got != "False/FailedUpdateScale" {
			t.Errorf("AbleToScale = %s", got)
		}
		w.stop()
	})
}

// TestForeignChangeIsNotOverwritten checks that a pass does not overwrite a count that an external
// writer changed between its read and its write, and that the next pass starts from that count.
func TestForeignChangeIsNotOverwritten(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.fed("q", 3, 3)
		start := time.Now()
		w.start()
		w.advance(time.Minute)
		changed := false
		w.source().set("q", func(_ context.Context, at time.Time) (sources.Vector, error) {
			if !changed { // after the read
				changed = true
				time.Sleep(time.Second)
				w.fleet().Change("q", func(target *targettest.MemoryTarget) { target.Replicas = 5 })
			}
			return one(10, at), nil
		})
		w.advance(31 * time.Second)
		if !contains(w.reasons("q"), foreignEvent) {
			t.Errorf("events = %v, want %s", w.reasons("q"), foreignEvent)
		}
		// R57 limits a scale-up from 3 to 6, and a scale-up from 5 to 10.
		if diff := cmp.Diff([]string{"1m30s: 5>10"}, trimFractions(w.writes("q", start))); diff != "" {
			t.Errorf("writes (-want +got):\n%s", diff)
		}
		w.stop()
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
			inWorld(t, func(t *testing.T, w *world) {
				w.queue("q", 5, func(a *config.Autoscaler) { a.OnForeignChange = test.reaction })
				w.source().value("q", 5)
				start := time.Now()
				w.start()
				w.advance(80 * time.Second)
				w.fleet().Change("q", func(target *targettest.MemoryTarget) { target.Replicas = test.to })
				w.advance(11 * time.Second)
				if got := w.reasons("q"); !contains(got, foreignEvent+" x1") {
					t.Errorf("events = %v, want one %s", got, foreignEvent)
				}
				if test.want == nil {
					if got := w.condition("q", policy.ForeignWriter); got != "True/CountChanged" {
						t.Errorf("ForeignWriter = %s", got)
					}
				}
				w.advance(time.Minute)
				if diff := cmp.Diff(test.want, w.writes("q", start)); diff != "" {
					t.Errorf("writes (-want +got):\n%s", diff)
				}
				if test.want != nil {
					if got := w.condition("q", policy.ForeignWriter); got != "False/Rescaled" {
						t.Errorf("ForeignWriter = %s after a write", got)
					}
				}
				w.stop()
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
		after  func(w *world)
		events int
		says   string
	}{
		{"written", func(*world) {}, 1, "SuccessfulRescale"},
		{"written and then changed", func(w *world) {
			w.fleet().Change("q", func(target *targettest.MemoryTarget) { target.Replicas = 5 })
		}, 1, foreignEvent},
		{"not written", func(w *world) {
			w.fleet().Change("q", func(target *targettest.MemoryTarget) { target.Replicas = 3 })
		}, 0, "FailedRescale"},
	} {
		t.Run(test.name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.queue("q", 3, func(a *config.Autoscaler) { a.Spec.Behavior = &policy.Behavior{} })
				w.source().value("q", 3)
				w.start()
				w.advance(time.Minute)
				w.source().value("q", 6)
				w.fleet().Inject(targettest.Fault{Call: targettest.WriteCall, Times: 1, Lost: true})
				w.advance(15 * time.Second)
				wrote := time.Now().Truncate(15 * time.Second)
				if record, _ := w.store.record("q"); record.Intention == nil || record.Intention.To != 6 {
					t.Fatalf("intention = %+v, want a write to 6", record.Intention)
				}
				test.after(w)
				w.source().value("q", float64(w.fleet().Replicas("q")))
				w.advance(30 * time.Second)
				a := w.record("q")
				if got := len(a.Memory.ScaleUpEvents); got != test.events {
					t.Errorf("scale-up events = %+v, want %d", a.Memory.ScaleUpEvents, test.events)
				}
				if test.events > 0 && (a.Memory.ScaleUpEvents[0].Change != 3 || !a.Memory.ScaleUpEvents[0].Time.Equal(wrote) || !a.Status.LastScaleTime.Equal(wrote)) {
					t.Errorf("event = %+v, last scale %s, want a change of 3 at %s", a.Memory.ScaleUpEvents[0], a.Status.LastScaleTime, wrote)
				}
				if !contains(w.reasons("q"), test.says) {
					t.Errorf("events = %v, want %s", w.reasons("q"), test.says)
				}
				if record, _ := w.store.record("q"); record.Intention != nil {
					t.Errorf("intention = %+v, want it settled", record.Intention)
				}
				w.stop()
			})
		})
	}
}

// TestReloadOfThePeriodMissesNoTick checks that after a change of the period, an autoscaler is
// evaluated at every tick of the new period.
func TestReloadOfThePeriodMissesNoTick(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.fed("q", 3, 3)
		w.start()
		w.advance(17500 * time.Millisecond)
		changed := w.config.Autoscalers["q"]
		changed.SyncPeriod = time.Second
		w.config.Autoscalers["q"] = changed
		before := w.source().count("q")
		if _, err := w.daemon.Reload(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.advance(time.Second)
		if got := w.source().count("q") - before; got != 2 {
			t.Errorf("evaluations of q in the second after the reload = %d, want one immediately and one at the tick", got)
		}
		w.stop()
	})
}

// TestRateCountsFromTheWrite checks that the period of a rate limit starts at the write and not at
// the decision. A slow store delays the write.
func TestRateCountsFromTheWrite(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.queue("q", 1, limited)
		w.source().value("q", 1)
		w.start()
		w.advance(time.Minute)
		w.store.slowDown(6 * time.Second)
		w.source().value("q", 6)
		w.advance(9 * time.Second)
		w.store.slowDown(0)
		w.advance(time.Minute)
		writes := w.fleet().Writes()
		if len(writes) < 3 {
			t.Fatalf("writes = %v", writes)
		}
		for i := 1; i < len(writes); i++ {
			if gap := writes[i].At.Sub(writes[i-1].At); gap < 20*time.Second {
				t.Errorf("writes %d and %d are %s apart, want at least 20s", i, i+1, gap)
			}
		}
		w.stop()
	})
}
