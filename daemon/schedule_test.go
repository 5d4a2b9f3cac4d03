package daemon

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
	"github.com/hpad/hpad/daemon/explain"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/schedule"
)

// scheduled adds schedules to an autoscaler.
func (w *world) scheduled(configs ...schedule.Config) func(*config.Autoscaler) {
	return func(a *config.Autoscaler) {
		for _, c := range configs {
			c.Zone = cmp.Or(c.Zone, "UTC")
			rule, errs := schedule.Compile(c)
			if len(errs) > 0 {
				w.t.Fatal(errs)
			}
			a.Schedules = append(a.Schedules, rule)
		}
	}
}

// advanceTo advances the clock to a time of the simulated Saturday, 2000-01-01, or of a later day.
func (w *world) advanceTo(at string) {
	w.t.Helper()
	t, err := time.Parse("2006-01-02 15:04:05", at)
	if err != nil {
		w.t.Fatal(err)
	}
	w.advance(time.Until(t))
}

// TestSchedule tests a minimum from Monday to Friday: it raises the count at once, the end obeys
// the window, a stop at a boundary misses nothing, and the weekend has no minimum.
func TestSchedule(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.fed("web", 2, 2, w.scheduled(schedule.Config{
			Name: "office", Zone: "Iceland", Days: []string{"mon-fri"}, From: "08:00", To: "18:00", Ramp: 10 * time.Minute, MinReplicas: new(int32(5)), Except: []string{"2000-01-06"},
		}))
		w.start()
		w.advanceTo("2000-01-03 07:49:59")
		w.wantCount("web", 2)
		w.advanceTo("2000-01-03 07:50:16") // the ramp
		w.wantCount("web", 5)
		view := w.view("web")
		if view.Schedules.Min != "office" || !slices.Equal(view.Schedules.Ramps, []string{"office"}) {
			t.Errorf("schedules %+v", view.Schedules)
		}
		if *view.Spec.MinReplicas != 5 || !slices.Equal(view.Schedules.Active, []string{"office"}) || view.Decision.MinReplicas != 5 || view.Schedules.Next.Format("15:04 MST") != "18:00 GMT" {
			t.Errorf("spec %+v, schedules %+v", view.Spec, view.Schedules)
		}
		w.advanceTo("2000-01-03 18:01:00")
		w.advanceTo("2000-01-03 18:10:00")
		w.wantCount("web", 2)
		w.advanceTo("2000-01-04 07:00:00")
		w.stop()
		w.advanceTo("2000-01-04 12:00:00")
		w.start()
		w.advance(time.Minute)
		w.wantCount("web", 5)
		w.advanceTo("2000-01-06 12:00:00") // except
		w.wantCount("web", 2)
		w.advanceTo("2000-01-07 17:59:00")
		w.wantCount("web", 5)
		w.advanceTo("2000-01-08 12:00:00") // Saturday
		w.wantCount("web", 2)
		w.stop()
	})
}

// TestScheduleEnd checks that scaling down after a schedule obeys the policies and the window.
func TestScheduleEnd(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.fed("web", 8, 8, w.scheduled(schedule.Config{Name: "day", From: "08:00", To: "18:00", MinReplicas: new(int32(8))}), func(a *config.Autoscaler) {
			a.Spec.Behavior = &policy.Behavior{ScaleDown: &policy.ScalingRules{
				StabilizationWindowSeconds: new(int32(600)), Policies: []policy.ScalingPolicy{{Type: policy.InstancesPolicy, Value: 1, PeriodSeconds: 60}},
			}}
		})
		w.start()
		w.advanceTo("2000-01-01 17:55:00")
		w.source().value("web", 2)
		w.advanceTo("2000-01-01 18:04:00")
		w.wantCount("web", 8) // the window still contains 8
		w.advanceTo("2000-01-01 18:06:20")
		w.wantCount("web", 6) // one per minute
		w.stop()
	})
}

// TestScheduleMode checks overlaps, and a mode that starts and ends with its schedule.
func TestScheduleMode(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.fed("web", 4, 4, w.scheduled(
			schedule.Config{Name: "works", From: "01:00", To: "02:00", Mode: policy.ModeOff},
			schedule.Config{Name: "batch", Cron: "30 0 * * *", Duration: time.Hour, MinReplicas: new(int32(6)), MaxReplicas: new(int32(7))},
			schedule.Config{Name: "low", From: "00:40", To: "00:50", MaxReplicas: new(int32(5))},
		))
		w.start()
		w.source().value("web", 20)
		w.advanceTo("2000-01-01 00:31:00")
		w.wantCount("web", 7)
		w.advanceTo("2000-01-01 00:41:00")
		w.wantCount("web", 6) // the minimum wins
		w.advanceTo("2000-01-01 00:55:00")
		w.wantCount("web", 7)
		w.advanceTo("2000-01-01 01:45:00")
		w.wantCount("web", 7)
		if health := fmt.Sprintf("%+v", w.daemon.Health()); !strings.Contains(health, "(set by schedule works)") {
			t.Errorf("health %s", health)
		}
		if problem := explain.Problem(w.view("web"), time.Now()); !strings.Contains(problem, "(set by schedule works)") {
			t.Errorf("problem %q", problem)
		}
		if d := w.view("web").Decision; d.Case != policy.CaseOff {
			t.Errorf("case %s", d.Case)
		}
		w.advanceTo("2000-01-01 02:01:00")
		if w.view("web").Decision.Case == policy.CaseOff || w.view("web").Status.DesiredReplicas <= 7 {
			t.Errorf("decision %+v", w.view("web").Decision)
		}
		w.stop()
	})
}

// night is a schedule that stops a target.
var night = schedule.Config{Name: "night", From: "22:00", To: "06:00", MinReplicas: new(int32(0)), MaxReplicas: new(int32(0))}

func (w *world) wantZero(status policy.ConditionStatus) {
	w.t.Helper()
	w.wantCount("web", 0)
	for _, c := range w.view("web").Status.Conditions {
		if c.Type == policy.ScaledToZero && c.Status != status {
			w.t.Errorf("ScaledToZero is %s (%s), want %s", c.Status, c.Message, status)
		}
	}
}

// TestScheduleStop tests a schedule that stops a target although its metric is above 0. The end of
// the window starts it, also after a restart, and if the metric fails without instances.
func TestScheduleStop(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.fed("web", 5, 5, w.scheduled(night))
		w.start()
		w.advanceTo("2000-01-01 21:59:59")
		w.wantCount("web", 5)
		w.advanceTo("2000-01-01 22:00:16")
		w.wantZero(policy.ConditionTrue)
		w.advanceTo("2000-01-02 01:00:00")
		w.wantZero(policy.ConditionTrue)
		if d := w.view("web").Decision; d.Case != policy.CaseStopped || d.Error != "" {
			t.Errorf("case %s, error %s", d.Case, d.Error)
		}
		w.stop()
		w.advanceTo("2000-01-02 02:00:00")
		w.start()
		w.advanceTo("2000-01-02 05:59:59")
		w.wantZero(policy.ConditionTrue)
		w.source().failing("web", errors.New("no series"))
		w.advanceTo("2000-01-02 06:00:16")
		w.wantCount("web", 1)
		w.source().value("web", 5)
		w.advanceTo("2000-01-02 06:10:00")
		w.wantCount("web", 5)
		w.stop()
	})
}

// TestScheduleStopByHand checks that a count of 0 that an operator or an external writer sets, before
// or in the window, stays after it, and that another count in the window is stopped again.
func TestScheduleStopByHand(t *testing.T) {
	for name, act := range map[string]func(w *world){
		"before": func(w *world) {
			w.advanceTo("2000-01-01 21:00:00")
			w.scale(0)
		},
		"command": func(w *world) {
			w.advanceTo("2000-01-01 23:00:00")
			w.wantZero(policy.ConditionTrue)
			if err := w.scaleTo("web", 0, false); err != nil {
				w.t.Fatal(err)
			}
		},
		"external": func(w *world) {
			w.advanceTo("2000-01-01 23:00:00")
			w.scale(3)
			w.advance(time.Minute)
			w.wantZero(policy.ConditionTrue) // stopped again
			w.pause(policy.Scope{Autoscaler: "web"}, "", 0)
			w.scale(3)
			w.advance(time.Minute)
			w.scale(0)
			w.advance(time.Minute)
			w.resume(policy.Scope{Autoscaler: "web"})
		},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.fed("web", 5, 5, w.scheduled(night))
				w.start()
				act(w)
				w.advanceTo("2000-01-02 09:00:00")
				w.wantZero(policy.ConditionFalse)
				w.stop()
			})
		})
	}
}

// TestScheduleCause checks that the event for changed bounds names the schedules that started or
// ended, and no other active schedule.
func TestScheduleCause(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.fed("q", 4, 4, w.scheduled(
			schedule.Config{Name: "office", From: "00:10", To: "03:00", MinReplicas: new(int32(3))},
			schedule.Config{Name: "soon", From: "01:00", To: "02:00", MinReplicas: new(int32(5))},
			schedule.Config{Name: "late", From: "02:00", To: "02:30", MinReplicas: new(int32(6))},
			schedule.Config{Name: "works", From: "02:32", To: "03:00", Mode: policy.ModeOff},
		))
		w.start()
		w.advanceTo("2000-01-01 03:02:00")
		for _, message := range []string{
			"the start of schedule office changed min from 1 to 3", "the start of schedule soon changed min from 3 to 5",
			"the start of schedule late and the end of schedule soon changed min from 5 to 6", "the end of schedule late changed min from 6 to 3",
			"the end of schedule office changed min from 3 to 1",
		} {
			w.wantBoundsEvent(message)
		}
		var modes []string
		for _, entry := range w.historyOf("q") {
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
		w.stop()
	})
}

// TestScheduleExamples runs the examples of docs/schedules.md, in the order of the page, before,
// during and after a window.
func TestScheduleExamples(t *testing.T) {
	page, err := os.ReadFile("../docs/schedules.md")
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
		inWorld(t, func(t *testing.T, w *world) {
			w.advanceTo(steps[0].at[:10] + " 00:00:00")
			w.fed("web", 2, 2, func(a *config.Autoscaler) {
				a.Schedules, a.Spec.MaxReplicas = c.Autoscalers["web"].Schedules, c.Autoscalers["web"].Spec.MaxReplicas
			})
			w.start()
			for _, want := range steps {
				w.source().value("web", want.value)
				w.advanceTo(want.at)
				view := w.view("web")
				if *view.Spec.MinReplicas != want.low || view.Spec.MaxReplicas != want.high || view.Mode != want.mode || w.fleet().Replicas("web") != want.count {
					t.Errorf("%s: min %d, max %d, mode %s, count %d; want %+v", want.at, *view.Spec.MinReplicas, view.Spec.MaxReplicas, view.Mode, w.fleet().Replicas("web"), want)
				}
			}
			w.stop()
		})
	}
	if len(blocks) != 5 {
		t.Errorf("the page has %d examples, and the test has 5", len(blocks))
	}
}
