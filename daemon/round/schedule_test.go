package round_test

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/daemon/daemontest"
	"github.com/hpad/hpad/daemon/explain"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/schedule"
)

// scheduled adds schedules to an autoscaler.
func scheduled(w *daemontest.World, configs ...schedule.Config) func(*config.Autoscaler) {
	return func(a *config.Autoscaler) {
		for _, c := range configs {
			c.Zone = cmp.Or(c.Zone, "UTC")
			rule, errs := schedule.Compile(c)
			if len(errs) > 0 {
				w.T.Fatal(errs)
			}
			a.Schedules = append(a.Schedules, rule)
		}
	}
}

// advanceTo advances the clock to a time of the simulated Saturday, 2000-01-01, or of a later day.
func advanceTo(w *daemontest.World, at string) {
	w.T.Helper()
	t, err := time.Parse("2006-01-02 15:04:05", at)
	if err != nil {
		w.T.Fatal(err)
	}
	w.Advance(time.Until(t))
}

// TestSchedule tests a minimum from Monday to Friday: it raises the count at once, the end obeys
// the window, a stop at a boundary misses nothing, and the weekend has no minimum.
func TestSchedule(t *testing.T) {
	daemontest.Run(t, func(t *testing.T, w *daemontest.World) {
		w.AddWithValue("web", 2, 2, scheduled(w, schedule.Config{
			Name: "office", Zone: "Iceland", Days: []string{"mon-fri"}, From: "08:00", To: "18:00", Ramp: 10 * time.Minute, MinReplicas: new(int32(5)), Except: []string{"2000-01-06"},
		}))
		w.Start()
		advanceTo(w, "2000-01-03 07:49:59")
		w.WantCount("web", 2)
		advanceTo(w, "2000-01-03 07:50:16") // the ramp
		w.WantCount("web", 5)
		view := w.View("web")
		if view.Schedules.Min != "office" || !slices.Equal(view.Schedules.Ramps, []string{"office"}) {
			t.Errorf("schedules %+v", view.Schedules)
		}
		if *view.Spec.MinReplicas != 5 || !slices.Equal(view.Schedules.Active, []string{"office"}) || view.Decision.MinReplicas != 5 || view.Schedules.Next.Format("15:04 MST") != "18:00 GMT" {
			t.Errorf("spec %+v, schedules %+v", view.Spec, view.Schedules)
		}
		advanceTo(w, "2000-01-03 18:01:00")
		advanceTo(w, "2000-01-03 18:10:00")
		w.WantCount("web", 2)
		advanceTo(w, "2000-01-04 07:00:00")
		w.Stop()
		advanceTo(w, "2000-01-04 12:00:00")
		w.Start()
		w.Advance(time.Minute)
		w.WantCount("web", 5)
		advanceTo(w, "2000-01-06 12:00:00") // except
		w.WantCount("web", 2)
		advanceTo(w, "2000-01-07 17:59:00")
		w.WantCount("web", 5)
		advanceTo(w, "2000-01-08 12:00:00") // Saturday
		w.WantCount("web", 2)
		w.Stop()
	})
}

// TestScheduleEnd checks that scaling down after a schedule obeys the policies and the window.
func TestScheduleEnd(t *testing.T) {
	daemontest.Run(t, func(t *testing.T, w *daemontest.World) {
		w.AddWithValue("web", 8, 8, scheduled(w, schedule.Config{Name: "day", From: "08:00", To: "18:00", MinReplicas: new(int32(8))}), func(a *config.Autoscaler) {
			a.Spec.Behavior = &policy.Behavior{ScaleDown: &policy.ScalingRules{
				StabilizationWindowSeconds: new(int32(600)), Policies: []policy.ScalingPolicy{{Type: policy.InstancesPolicy, Value: 1, PeriodSeconds: 60}},
			}}
		})
		w.Start()
		advanceTo(w, "2000-01-01 17:55:00")
		w.Source().Value("web", 2)
		advanceTo(w, "2000-01-01 18:04:00")
		w.WantCount("web", 8) // the window still contains 8
		advanceTo(w, "2000-01-01 18:06:20")
		w.WantCount("web", 6) // one per minute
		w.Stop()
	})
}

// TestScheduleMode checks overlaps, and a mode that starts and ends with its schedule.
func TestScheduleMode(t *testing.T) {
	daemontest.Run(t, func(t *testing.T, w *daemontest.World) {
		w.AddWithValue("web", 4, 4, scheduled(w,
			schedule.Config{Name: "works", From: "01:00", To: "02:00", Mode: policy.ModeOff},
			schedule.Config{Name: "batch", Cron: "30 0 * * *", Duration: time.Hour, MinReplicas: new(int32(6)), MaxReplicas: new(int32(7))},
			schedule.Config{Name: "low", From: "00:40", To: "00:50", MaxReplicas: new(int32(5))},
		))
		w.Start()
		w.Source().Value("web", 20)
		advanceTo(w, "2000-01-01 00:31:00")
		w.WantCount("web", 7)
		advanceTo(w, "2000-01-01 00:41:00")
		w.WantCount("web", 6) // the minimum wins
		advanceTo(w, "2000-01-01 00:55:00")
		w.WantCount("web", 7)
		advanceTo(w, "2000-01-01 01:45:00")
		w.WantCount("web", 7)
		if health := fmt.Sprintf("%+v", w.Daemon.Health()); !strings.Contains(health, "(set by schedule works)") {
			t.Errorf("health %s", health)
		}
		if problem := explain.Problem(w.View("web"), time.Now()); !strings.Contains(problem, "(set by schedule works)") {
			t.Errorf("problem %q", problem)
		}
		if d := w.View("web").Decision; d.Case != policy.CaseOff {
			t.Errorf("case %s", d.Case)
		}
		advanceTo(w, "2000-01-01 02:01:00")
		if w.View("web").Decision.Case == policy.CaseOff || w.View("web").Status.DesiredReplicas <= 7 {
			t.Errorf("decision %+v", w.View("web").Decision)
		}
		w.Stop()
	})
}

// night is a schedule that stops a target.
var night = schedule.Config{Name: "night", From: "22:00", To: "06:00", MinReplicas: new(int32(0)), MaxReplicas: new(int32(0))}

func wantZero(w *daemontest.World, status policy.ConditionStatus) {
	w.T.Helper()
	w.WantCount("web", 0)
	for _, c := range w.View("web").Status.Conditions {
		if c.Type == policy.ScaledToZero && c.Status != status {
			w.T.Errorf("ScaledToZero is %s (%s), want %s", c.Status, c.Message, status)
		}
	}
}

// TestScheduleStop tests a schedule that stops a target although its metric is above 0. The end of
// the window starts it, also after a restart, and if the metric fails without instances.
func TestScheduleStop(t *testing.T) {
	daemontest.Run(t, func(t *testing.T, w *daemontest.World) {
		w.AddWithValue("web", 5, 5, scheduled(w, night))
		w.Start()
		advanceTo(w, "2000-01-01 21:59:59")
		w.WantCount("web", 5)
		advanceTo(w, "2000-01-01 22:00:16")
		wantZero(w, policy.ConditionTrue)
		advanceTo(w, "2000-01-02 01:00:00")
		wantZero(w, policy.ConditionTrue)
		if d := w.View("web").Decision; d.Case != policy.CaseStopped || d.Error != "" {
			t.Errorf("case %s, error %s", d.Case, d.Error)
		}
		w.Stop()
		advanceTo(w, "2000-01-02 02:00:00")
		w.Start()
		advanceTo(w, "2000-01-02 05:59:59")
		wantZero(w, policy.ConditionTrue)
		failing(w.Source(), "web", errors.New("no series"))
		advanceTo(w, "2000-01-02 06:00:16")
		w.WantCount("web", 1)
		w.Source().Value("web", 5)
		advanceTo(w, "2000-01-02 06:10:00")
		w.WantCount("web", 5)
		w.Stop()
	})
}

// TestScheduleStopByHand checks that a count of 0 that an operator or an external writer sets, before
// or in the window, stays after it, and that another count in the window is stopped again.
func TestScheduleStopByHand(t *testing.T) {
	for name, act := range map[string]func(w *daemontest.World){
		"before": func(w *daemontest.World) {
			advanceTo(w, "2000-01-01 21:00:00")
			w.ChangeReplicas(0)
		},
		"command": func(w *daemontest.World) {
			advanceTo(w, "2000-01-01 23:00:00")
			wantZero(w, policy.ConditionTrue)
			if err := w.ScaleTo("web", 0, false); err != nil {
				w.T.Fatal(err)
			}
		},
		"external": func(w *daemontest.World) {
			advanceTo(w, "2000-01-01 23:00:00")
			w.ChangeReplicas(3)
			w.Advance(time.Minute)
			wantZero(w, policy.ConditionTrue) // stopped again
			w.Pause(policy.Scope{Autoscaler: "web"}, "", 0)
			w.ChangeReplicas(3)
			w.Advance(time.Minute)
			w.ChangeReplicas(0)
			w.Advance(time.Minute)
			w.Resume(policy.Scope{Autoscaler: "web"})
		},
	} {
		t.Run(name, func(t *testing.T) {
			daemontest.Run(t, func(t *testing.T, w *daemontest.World) {
				w.AddWithValue("web", 5, 5, scheduled(w, night))
				w.Start()
				act(w)
				advanceTo(w, "2000-01-02 09:00:00")
				wantZero(w, policy.ConditionFalse)
				w.Stop()
			})
		})
	}
}

// TestScheduleCause checks that the event for changed bounds names the schedules that started or
// ended, and no other active schedule.
func TestScheduleCause(t *testing.T) {
	daemontest.Run(t, func(t *testing.T, w *daemontest.World) {
		w.AddWithValue("q", 4, 4, scheduled(w,
			schedule.Config{Name: "office", From: "00:10", To: "03:00", MinReplicas: new(int32(3))},
			schedule.Config{Name: "soon", From: "01:00", To: "02:00", MinReplicas: new(int32(5))},
			schedule.Config{Name: "late", From: "02:00", To: "02:30", MinReplicas: new(int32(6))},
			schedule.Config{Name: "works", From: "02:32", To: "03:00", Mode: policy.ModeOff},
		))
		w.Start()
		advanceTo(w, "2000-01-01 03:02:00")
		for _, message := range []string{
			"the start of schedule office changed min from 1 to 3", "the start of schedule soon changed min from 3 to 5",
			"the start of schedule late and the end of schedule soon changed min from 5 to 6", "the end of schedule late changed min from 6 to 3",
			"the end of schedule office changed min from 3 to 1",
		} {
			wantBoundsEvent(w, message)
		}
		var modes []string
		for _, entry := range w.HistoryOf("q") {
			for _, event := range entry.Events {
				if event.Reason == api.ModeChanged {
					modes = append(modes, event.Message)
				}
			}
		}
		slices.Sort(modes)
		if want := []string{"the end of schedule works changed mode from off to on", "the start of schedule works changed mode from on to off"}; !slices.Equal(modes, want) {
			t.Errorf("modes: %q", modes)
		}
		w.Stop()
	})
}

// TestScheduleExamples runs the examples of docs/schedules.md, in the order of the page, before,
// during and after a window.
func TestScheduleExamples(t *testing.T) {
	page, err := os.ReadFile("../../docs/schedules.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```toml\n(.*?)```").FindAllSubmatch(page, -1)
	base, _, _ := strings.Cut(string(blocks[0][1]), "[[")
	type step struct {
		at               string // UTC
		value            float64
		low, high, count int32
		mode             policy.Mode
	}
	for i, steps := range [...][]step{
		{ // office hours
			{"2000-01-03 06:49:59", 2, 1, 20, 2, ""}, {"2000-01-03 06:50:16", 2, 5, 20, 5, ""}, {"2000-01-03 16:59:59", 2, 5, 20, 5, ""}, {"2000-01-03 17:10:00", 2, 1, 20, 2, ""},
		},
		{ // a nightly batch
			{"2000-01-01 01:29:59", 2, 1, 20, 2, ""}, {"2000-01-01 01:30:16", 2, 10, 20, 10, ""}, {"2000-01-01 03:29:59", 2, 10, 20, 10, ""}, {"2000-01-01 03:40:00", 2, 1, 20, 2, ""},
		},
		{ // a sales day
			{"2027-11-26 04:59:59", 2, 1, 20, 2, ""}, {"2027-11-26 05:02:00", 70, 15, 60, 60, ""}, {"2027-11-27 04:59:59", 2, 15, 60, 15, ""}, {"2027-11-27 05:10:00", 70, 1, 20, 20, ""},
		},
		{ // a maintenance window
			{"2000-01-02 02:59:59", 2, 1, 20, 2, ""}, {"2000-01-02 03:00:16", 9, 1, 20, 2, "off"}, {"2000-01-02 04:59:59", 9, 1, 20, 2, "off"}, {"2000-01-02 05:02:00", 9, 1, 20, 9, ""},
		},
		{ // stop at night
			{"2000-01-03 20:59:59", 2, 1, 20, 2, ""}, {"2000-01-03 21:00:16", 9, 0, 0, 0, ""}, {"2000-01-04 04:59:59", 9, 0, 0, 0, ""}, {"2000-01-04 05:02:00", 9, 1, 20, 9, ""},
		},
	} {
		text := base + strings.ReplaceAll(string(blocks[i][1][strings.Index(string(blocks[i][1]), "[["):]), "staging", "web")
		c, err := config.Parse("docs/schedules.md", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		daemontest.Run(t, func(t *testing.T, w *daemontest.World) {
			advanceTo(w, steps[0].at[:10]+" 00:00:00")
			w.AddWithValue("web", 2, 2, func(a *config.Autoscaler) {
				a.Schedules, a.Spec.MaxReplicas = c.Autoscalers["web"].Schedules, c.Autoscalers["web"].Spec.MaxReplicas
			})
			w.Start()
			for _, want := range steps {
				w.Source().Value("web", want.value)
				advanceTo(w, want.at)
				view := w.View("web")
				if *view.Spec.MinReplicas != want.low || view.Spec.MaxReplicas != want.high || view.Mode != want.mode || w.Fleet().Replicas("web") != want.count {
					t.Errorf("%s: min %d, max %d, mode %s, count %d; want %+v", want.at, *view.Spec.MinReplicas, view.Spec.MaxReplicas, view.Mode, w.Fleet().Replicas("web"), want)
				}
			}
			w.Stop()
		})
	}
	if len(blocks) != 5 {
		t.Errorf("the page has %d examples, and the test has 5", len(blocks))
	}
}
