package records_test

import (
	"strings"
	"testing"
	"time"

	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/daemon/daemontest"
	"github.com/hpad/hpad/daemon/records"
	"github.com/hpad/hpad/daemon/state"
	"github.com/hpad/hpad/policy"
)

// memoryLoss returns a loss of the recommendation history at the current time.
func memoryLoss() state.Loss {
	return state.Loss{At: time.Now().UTC(), Part: state.MemoryPart, Message: `"/state.db" was lost`}
}

// TestLossIsShown checks that a loss is shown in all views for the longest window of any
// autoscaler, and is logged at each startup in that time.
func TestLossIsShown(t *testing.T) {
	daemontest.Run(t, func(t *testing.T, w *daemontest.World) {
		logs := w.Observed()
		window, period := int32(600), int32(1800)
		w.Add("windowed", 3, func(a *config.Autoscaler) {
			a.Spec.Behavior = &policy.Behavior{ScaleUp: &policy.ScalingRules{StabilizationWindowSeconds: &window}}
		})
		w.Add("plain", 3)
		w.Add("limited", 3, func(a *config.Autoscaler) {
			a.Spec.Behavior = &policy.Behavior{ScaleDown: &policy.ScalingRules{
				Policies: []policy.ScalingPolicy{{Type: policy.InstancesPolicy, Value: 1, PeriodSeconds: period}},
			}}
		})
		for name := range w.Config.Autoscalers {
			w.Source().Value(name, 3)
		}
		loss := memoryLoss()
		w.Store.Lose(loss)
		wantShown := func(shown bool) {
			t.Helper()
			text := w.View("plain").Evaluation.StateLost
			if strings.Contains(text, loss.Message) != shown || !shown && text != "" {
				t.Errorf("after %s StateLost = %q, want the loss shown: %t", time.Since(loss.At), text, shown)
			}
			if until := loss.At.Add(30 * time.Minute).Format(time.RFC3339); shown && !strings.Contains(text, until) {
				t.Errorf("StateLost = %q, want it shown until %s", text, until)
			}
			var problems []string
			for _, problem := range w.Daemon.Readiness().Problems {
				problems = append(problems, problem.Subject+" "+problem.Message)
			}
			if shown != (len(problems) == 1 && problems[0] == "state "+text) || !shown && len(problems) != 0 {
				t.Errorf("problems = %q, want the loss shown: %t", problems, shown)
			}
			if !w.Daemon.Readiness().Ready {
				t.Error("Ready = false, want true")
			}
			if parts := records.LostParts(w.Daemon.Losses()); parts["memory"] != shown || parts["history"] || parts["directory"] || len(parts) != len(state.Parts) {
				t.Errorf("lost parts = %v, want the memory included: %t", parts, shown)
			}
		}
		for starts := 1; starts <= 3; starts++ {
			w.Start()
			w.Advance(9 * time.Minute)
			wantShown(true)
			if logged := logs.FilterMessage("state lost or removed").Len(); logged != starts {
				t.Errorf("%d starts logged the loss %d times, want once per start", starts, logged)
			}
			w.Stop()
		}
		w.Start()
		w.Advance(2*time.Minute + 59*time.Second)
		wantShown(true)
		w.Advance(2 * time.Second)
		wantShown(false)
		w.Stop()
		w.Start()
		w.Advance(time.Minute)
		wantShown(false)
		w.Stop()
		if logged := logs.FilterMessage("state lost or removed").Len(); logged != 4 {
			t.Errorf("%d log lines about the loss, want one for each of the first 4 starts", logged)
		}
	})
}

// TestLossIsShownForAWhile checks the minimum time for which a loss is shown, including a loss that
// is detected long after startup.
func TestLossIsShownForAWhile(t *testing.T) {
	daemontest.Run(t, func(t *testing.T, w *daemontest.World) {
		w.Config.Daemon.DownscaleStabilization = time.Second
		w.AddWithValue("a", 3, 3)
		w.Store.Lose(memoryLoss())
		w.Start()
		for range 2 {
			w.Advance(records.ShownAtLeast - time.Second)
			if w.View("a").Evaluation.StateLost == "" {
				t.Error("the loss is shown for less than the minimum time")
			}
			w.Advance(2 * time.Second)
			if text := w.View("a").Evaluation.StateLost; text != "" {
				t.Errorf("the loss is still shown: %s", text)
			}
			w.Advance(time.Hour)
			w.Store.Lose(state.Loss{At: time.Now(), Part: state.DirectoryPart, Message: "it was removed"})
		}
		w.Stop()
	})
}
