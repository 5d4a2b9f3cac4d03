package round_test

import (
	"slices"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/daemontest"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/process"
	"github.com/hpad/hpad/targets/targettest"
)

// TestInstancesThatFail checks that an instance failure and its recovery are each reported once. A
// changed platform message or a restart of hpad does not cause another report.
func TestInstancesThatFail(t *testing.T) {
	daemontest.Run(t, func(t *testing.T, w *daemontest.World) {
		core, logs := observer.New(zap.InfoLevel)
		w.Log, w.Kind = zap.New(core), process.Kind.Name
		w.AddWithValue("web", 2, 2)
		say := func(notices ...policy.Notice) {
			w.Fleet().Change("web", func(target *targettest.MemoryTarget) {
				target.Edit = func(reading *targets.Reading) { reading.Notices = notices }
			})
		}
		wantReported := func(message, event string, want int) {
			t.Helper()
			if got := logs.FilterMessage(message).Len(); got != want {
				t.Errorf("%q logged %d times, want %d", message, got, want)
			}
			entries := 0
			for _, entry := range w.HistoryOf("web") {
				for _, e := range entry.Events {
					if e.Reason == event && event != "" {
						entries++
					}
				}
			}
			if entries != want && event != "" {
				t.Errorf("%d history entries with the event %s, want %d", entries, event, want)
			}
		}
		w.Start()
		w.Advance(time.Minute)
		for _, message := range []string{"2 of 2 processes fail: worker-0, worker-1: exit status 3", "1 of 2 processes fails: worker-1: exit status 3"} {
			say(policy.Notice{Condition: process.ProcessesFailing, Reason: "ProcessRestarting", Message: message})
			w.Advance(time.Minute)
		}
		wantReported("instances fail", string(process.ProcessesFailing), 1)
		failing := api.Problem{Subject: "autoscaler web", Message: "ProcessesFailing: 1 of 2 processes fails: worker-1: exit status 3"}
		if got := w.Daemon.Health().FailingInstances; !slices.Equal(got, []api.Problem{failing}) {
			t.Errorf("failing instances in the health: %+v, want %+v", got, failing)
		}
		w.Stop()
		w.Start()
		w.Advance(time.Minute)
		wantReported("instances fail", string(process.ProcessesFailing), 1)
		wantReported("instances running again", "", 0)
		say()
		w.Advance(time.Minute)
		wantReported("instances running again", "", 1)
		w.Stop()
	})
}
