package round_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/daemon/daemontest"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/targettest"
)

// withBehavior limits scale-ups to two instances per half hour, a limit that a scale event for a
// user's request would exhaust.
func withBehavior(a *config.Autoscaler) {
	a.Spec.Behavior = &policy.Behavior{ScaleUp: &policy.ScalingRules{
		Policies: []policy.ScalingPolicy{{Type: policy.InstancesPolicy, Value: 2, PeriodSeconds: 1800}},
	}}
}

// TestScaleTo checks that a count set by a user is written without a scale event, and that later
// passes continue from it.
func TestScaleTo(t *testing.T) {
	daemontest.Run(t, func(t *testing.T, w *daemontest.World) {
		w.AddWithValue("web", 5, 5, withBehavior, func(a *config.Autoscaler) { a.Spec.MaxReplicas = 20 })
		w.Start()
		w.Pause(policy.Scope{}, policy.BothDirections, 0) // requests of users ignore pauses
		if err := w.ScaleTo("web", 9, false); err != nil {
			t.Fatal(err)
		}
		w.WantCount("web", 9)
		record, _ := w.Store.Record("web")
		if len(record.Memory.ScaleUpEvents) > 0 || record.ExpectedReplicas == nil || *record.ExpectedReplicas != 9 || record.Intention != nil {
			t.Errorf("record = %+v", record)
		}
		if d := w.View("web").Decision; d.Case != policy.CaseCommanded || d.Message != "New size: 9; reason: alice set the count" {
			t.Errorf("decision = %s: %s", d.Case, d.Message)
		}
		if entries, _ := w.Store.History(t.Context(), "web", time.Time{}, time.Time{}, 1); entries[0].Decision.Command == nil || entries[0].Decision.Command.Author != "alice" {
			t.Errorf("history = %+v", entries)
		}
		w.Source().Value("web", 20)
		w.Advance(time.Minute)
		w.WantCount("web", 9)
		w.Resume(policy.Scope{})
		w.Advance(time.Minute)
		w.WantCount("web", 11) // 2 per half hour from 9, without a scale event
		if slices.Contains(w.Reasons("web"), "ForeignWriter x1") {
			t.Errorf("events = %v, want no foreign change", w.Reasons("web"))
		}
		w.Stop()
	})
}

// TestScaleToZero checks that a count of 0 set by a user disables the autoscaler, even if hpad
// itself may scale to zero.
func TestScaleToZero(t *testing.T) {
	daemontest.Run(t, func(t *testing.T, w *daemontest.World) {
		w.Config.Daemon.ScaleToZero = true
		none := int32(0)
		w.AddWithValue("web", 5, 5, func(a *config.Autoscaler) { a.Spec.MinReplicas = &none })
		w.Start()
		if err := w.ScaleTo("web", 0, false); err != nil {
			t.Fatal(err)
		}
		w.Advance(time.Minute)
		w.WantCount("web", 0)
		if status := w.View("web").Status; !status.Disabled() {
			t.Errorf("conditions = %+v, want the autoscaler disabled", status.Conditions)
		}
		if err := w.ScaleTo("web", 3, false); err != nil {
			t.Fatal(err)
		}
		w.Advance(time.Minute)
		w.WantCount("web", 5)
		w.Stop()
	})
}

// TestScaleToRejected checks requests that are rejected with a reason and have no effect.
func TestScaleToRejected(t *testing.T) {
	held := &policy.Hold{Reason: "Deploying", Message: "a deployment is under way"}
	for _, c := range []struct {
		name     string
		replicas int32
		force    bool
		change   func(w *daemontest.World)
		want     error
		text     string
		left     int32
	}{
		{name: "above max", replicas: 101, want: api.ErrRefused, text: "max_replicas = 100", left: 5},
		{name: "below min", replicas: 1, want: api.ErrRefused, text: "min_replicas = 2", left: 5},
		{name: "above max, forced", replicas: 101, force: true, left: 101},
		{name: "below min, forced", replicas: 1, force: true, left: 1},
		{name: "maintenance", replicas: 0, left: 0},
		{name: "no count", replicas: -1, force: true, want: api.ErrRefused, text: "at least 0", left: 5},
		{name: "unchanged count", replicas: 5, left: 5},
		{name: "held", replicas: 7, force: true, want: api.ErrRefused, text: "a deployment is under way", left: 5, change: func(w *daemontest.World) {
			w.Fleet().Change("web", func(target *targettest.MemoryTarget) { target.Hold = held })
		}},
		{name: "missing target", replicas: 7, want: api.ErrRefused, text: "could not be read", change: func(w *daemontest.World) { w.Fleet().Remove("web") }},
		{name: "rejected by the platform", replicas: 7, text: "quota", left: 5, change: func(w *daemontest.World) {
			w.Fleet().Inject(targettest.Fault{Call: targettest.WriteCall, Err: errors.New("quota exceeded")})
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			daemontest.Run(t, func(t *testing.T, w *daemontest.World) {
				low := int32(2)
				w.AddWithValue("web", 5, 5, func(a *config.Autoscaler) { a.Spec.MinReplicas = &low })
				w.Start()
				if c.change != nil {
					c.change(w)
				}
				err := w.Daemon.ScaleTo(t.Context(), "web", c.replicas, c.force, "")
				if c.text == "" && err != nil || c.text != "" && (err == nil || !strings.Contains(err.Error(), c.text)) || c.want != nil && !errors.Is(err, c.want) {
					t.Errorf("error = %v, want %v with %q", err, c.want, c.text)
				}
				if c.name != "missing target" {
					w.WantCount("web", c.left)
				}
				w.Stop()
			})
		})
	}
}

// TestScaleToInParts checks a request whose writes reach only a part of the count in time. The next
// passes continue it while they make progress, even in mode "recommend" and after the user stopped
// waiting.
func TestScaleToInParts(t *testing.T) {
	for name, c := range map[string]struct {
		reached []int32 // counts after the first writes
		waits   bool
		text    string
		left    int32
	}{
		"progress":    {reached: []int32{6, 8}, waits: true, left: 9},
		"no progress": {reached: []int32{7, 7, 8}, waits: true, text: "7 replicas reached: time limit for one write exceeded", left: 7},
		"timeout":     {reached: []int32{6, 7, 8}, text: context.DeadlineExceeded.Error(), left: 9},
	} {
		t.Run(name, func(t *testing.T) {
			daemontest.Run(t, func(t *testing.T, w *daemontest.World) {
				w.AddWithValue("web", 5, 5, func(a *config.Autoscaler) { a.Mode = policy.ModeRecommend })
				w.Start()
				for _, n := range c.reached {
					w.Fleet().Inject(targettest.Fault{
						Call: targettest.WriteCall, Times: 1, Delay: time.Second, Rival: func() { w.ChangeReplicas(n) },
						Err: &targets.PartialError{Reached: n, Err: targets.ErrWriteTime},
					})
				}
				ctx, cancel := t.Context(), context.CancelFunc(func() {})
				if !c.waits {
					ctx, cancel = context.WithTimeout(ctx, 2500*time.Millisecond)
				}
				defer cancel()
				err := w.Daemon.ScaleTo(ctx, "web", 9, false, "alice")
				if c.text == "" && err != nil || c.text != "" && (err == nil || !strings.Contains(err.Error(), c.text)) {
					t.Errorf("ScaleTo() = %v, want an error with %q", err, c.text)
				}
				w.Advance(time.Minute)
				w.WantCount("web", c.left)
				w.Stop()
			})
		})
	}
}

// TestScaleToKilled checks the state after the daemon is killed between the commit of the intention
// and the end of the write. A write that was made is settled as a user's request. A write that was
// not made is not repeated.
func TestScaleToKilled(t *testing.T) {
	for _, done := range []bool{false, true} {
		daemontest.Run(t, func(t *testing.T, w *daemontest.World) {
			w.AddWithValue("web", 5, 5, withBehavior, func(a *config.Autoscaler) { a.OnForeignChange = config.RestoreForeignChange })
			w.Start()
			w.Pause(policy.Scope{}, policy.BothDirections, 0)
			w.Fleet().Change("web", func(target *targettest.MemoryTarget) { target.Replicas = 4 }) // hpad restores the count
			w.Advance(time.Minute)
			w.Fleet().Inject(targettest.Fault{Call: targettest.WriteCall, Times: 1, Delay: time.Second})
			scaled := make(chan error, 1)
			go func() { scaled <- w.Daemon.ScaleTo(t.Context(), "web", 8, false, "alice") }()
			w.Advance(500 * time.Millisecond) // the write is in progress
			killed := w.Store.Copied()
			if err := <-scaled; err != nil {
				t.Fatal(err)
			}
			if record, _ := killed.Record("web"); record.Intention == nil || record.Intention.To != 8 || record.Intention.Reason != policy.Commanded {
				t.Fatalf("intention = %+v", record.Intention)
			}
			w.Stop()
			w.Store = killed
			want := int32(4)
			if done {
				want = 8
			} else {
				w.Fleet().Change("web", func(target *targettest.MemoryTarget) { target.Replicas = 4 })
			}
			w.Start()
			w.Advance(time.Minute)
			w.WantCount("web", want)
			record, _ := w.Store.Record("web")
			if record.Intention != nil || len(record.Memory.ScaleUpEvents) > 0 || done != (record.Restore == nil) {
				t.Errorf("write made: %t, record = %+v", done, record)
			}
			if done && !slices.Contains(w.Reasons("web"), "SuccessfulRescale x1") {
				t.Errorf("events = %v", w.Reasons("web"))
			}
			w.Stop()
		})
	}
}
