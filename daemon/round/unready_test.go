package round_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/daemon/daemontest"
	"github.com/hpad/hpad/daemon/round"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/targettest"
)

// TestUnreadyInstances checks that the reason why an instance is not ready is shown at once without
// secrets, that it becomes a problem after unready_after, and that the problem ends.
func TestUnreadyInstances(t *testing.T) {
	daemontest.Run(t, func(t *testing.T, w *daemontest.World) {
		w.AddWithValue("web", 2, 2)
		w.AddWithValue("slow", 1, 1, func(a *config.Autoscaler) { a.UnreadyAfter = new(time.Hour) })
		w.AddWithValue("off", 1, 1, func(a *config.Autoscaler) { a.UnreadyAfter = new(time.Duration(0)) })
		w.Start()
		w.Advance(time.Minute)
		said := "unhealthy: password=hunter2 \x1b[2Jdatabase\n" + strings.Repeat("is down ", 100)
		ids := map[string]string{}
		for _, name := range []string{"web", "slow", "off"} {
			id := instanceIDs(w, t, name)[0]
			ids[name] = id
			w.Fleet().SetReady(name, id, false)
			w.Fleet().Change(name, func(target *targettest.MemoryTarget) {
				target.Edit = func(reading *targets.Reading) {
					list := slices.Clone(reading.Locations.(targets.LocationList))
					list[0].UnreadyReason = said
					reading.Locations = list
				}
			})
		}
		since := w.Wall().Format(time.TimeOnly)
		w.Advance(30 * time.Second)
		list, err := w.Daemon.InstancesOf(t.Context(), "web")
		if err != nil || len(list.Instances) != 2 {
			t.Fatalf("InstancesOf() = %+v, %v, want 2 instances", list, err)
		}
		got := list.Instances[0].UnreadyReason
		if !strings.HasPrefix(got, "unhealthy: password=<redacted> [2Jdatabase is down") || len([]rune(got)) != 200 || list.Instances[1].UnreadyReason != "" {
			t.Errorf("reasons = %q, %q, want 200 characters without secrets and control characters, and none", got, list.Instances[1].UnreadyReason)
		}
		if problems := w.Daemon.Readiness().Problems; len(problems) != 0 {
			t.Errorf("problems before unready_after = %+v, want none", problems)
		}
		w.Advance(time.Minute)
		want := "1 of 2 instances not ready for 1m0s or longer (unready_after): " + ids["web"] + ": " + got + " (since " + since + ")"
		message := ""
		for _, condition := range w.View("web").Status.Conditions {
			if condition.Type == round.InstancesUnready && condition.Status == policy.ConditionTrue {
				message = condition.Message
			}
		}
		if message != want {
			t.Errorf("message = %q, want %q", message, want)
		}
		problem := api.Problem{Subject: "autoscaler web", Message: "InstancesUnready: " + want}
		if problems := w.Daemon.Readiness().Problems; !slices.Equal(problems, []api.Problem{problem}) {
			t.Errorf("problems = %+v, want only %+v", problems, problem)
		}
		wantEvent := func(reason string) {
			t.Helper()
			if !slices.ContainsFunc(w.View("web").Events, func(e api.Event) bool { return e.Reason == reason }) {
				t.Errorf("events = %+v, want %s", w.View("web").Events, reason)
			}
		}
		wantEvent(string(round.InstancesUnready))
		w.Fleet().SetReady("web", ids["web"], true)
		w.Fleet().Change("web", func(target *targettest.MemoryTarget) { target.Edit = nil })
		w.Advance(time.Minute)
		if problems := w.Daemon.Readiness().Problems; len(problems) != 0 {
			t.Errorf("problems of ready instances = %+v, want none", problems)
		}
		w.Stop()
	})
}
