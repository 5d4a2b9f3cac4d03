package status

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/problem"
	"github.com/hpad/hpad/daemon/reason"
	"github.com/hpad/hpad/daemon/records"
	"github.com/hpad/hpad/daemon/round"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
)

// Lateness returns the longest delay of any autoscaler's evaluation, in whole seconds.
func (s *Reader) Lateness() time.Duration {
	now, late := time.Now(), time.Duration(0)
	for _, a := range s.scheduler.Current().Autoscalers {
		late = max(late, a.SinceEvaluation(now)-a.Definition().SyncPeriod)
	}
	return late.Truncate(time.Second)
}

// schedulerSilence is the time without a wake-up of the scheduler after which the daemon is
// unhealthy. The scheduler normally wakes every second.
const schedulerSilence = 15 * time.Second

// Health reports whether the scheduler runs. It lists the autoscalers that are quarantined or have
// not been evaluated for three periods, and the pauses, modes and platforms that prevent changes.
func (s *Reader) Health() api.Health {
	now := time.Now()
	g := s.scheduler.Current()
	health := api.Health{
		Unevaluated: s.unevaluated(now), HeldBack: s.heldBack(g), Shortages: s.shortages(g), FailingInstances: s.failingInstances(g), AllFailing: s.allFailing(g), RefusedReload: s.reloadError.Text(),
		Unwritten: cmp.Or(s.env.Unwritten.Text(), s.env.Unstorable.Text()),
	}
	if health.AllFailing == "" {
		health.Failing = failing(g)
	}
	if last := s.scheduler.LastWake(); last != nil {
		health.LastTick = *last
		health.Healthy = now.Sub(*last) < schedulerSilence
	}
	return health
}

func (s *Reader) unevaluated(now time.Time) []api.Problem {
	var problems []api.Problem
	g := s.scheduler.Current()
	for _, name := range g.Names {
		a := g.Autoscalers[name]
		published := a.Last()
		if a.Overdue(now) <= 0 && !published.Quarantined(s.env.Clock.Now()) {
			continue
		}
		message := "not evaluated"
		if since := a.SinceEvaluation(now).Round(time.Second); since > 0 {
			message += " for " + since.String()
		}
		switch late := a.Late.Load(); {
		case published.Unevaluated != "":
			message += ": " + published.Unevaluated
		case late > 0:
			message += fmt.Sprintf(": a pass has not ended for %d ticks", late)
		}
		problems = append(problems, api.Problem{Subject: "autoscaler " + name, Message: message})
	}
	return problems
}

// Readiness reports whether the state can be written and every autoscaler has been evaluated. It
// lists all problems.
func (s *Reader) Readiness() api.Readiness {
	g := s.scheduler.Current()
	readiness := api.Readiness{Ready: s.scheduler.LastWake() != nil}
	if text := s.env.Unwritten.Text(); text != "" {
		readiness.Ready, readiness.Unwritten = false, true
		readiness.Problems = append(readiness.Problems, api.Problem{Subject: "state", Message: text})
	}
	if text := records.LossText(s.Losses()); text != "" {
		readiness.Problems = append(readiness.Problems, api.Problem{Subject: "state", Message: text})
	}
	if text := s.reloadError.Text(); text != "" {
		readiness.Problems = append(readiness.Problems, api.Problem{Subject: "configuration", Message: text})
	}
	for _, name := range slices.Sorted(maps.Keys(g.Fleets)) {
		h := g.Fleets[name]
		readiness.Problems = append(readiness.Problems, adapterProblems("fleet "+name, &h.Problem, h.Inner)...)
		if text := h.Undiscovered.Text(); text != "" {
			readiness.Problems = append(readiness.Problems, api.Problem{Subject: "fleet " + name, Message: text})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(g.Sources)) {
		h := g.Sources[name]
		readiness.Problems = append(readiness.Problems, adapterProblems("source "+name, &h.Problem, h.Source)...)
	}
	readiness.Problems = append(readiness.Problems, s.offProblems(g)...)
	for _, view := range s.Discovered() {
		if view.Problem != "" {
			readiness.Problems = append(readiness.Problems, api.Problem{Subject: "target " + view.Reference, Message: view.Problem})
		}
	}
	for _, name := range g.Names {
		published := g.Autoscalers[name].Last()
		if published.Evaluated.IsZero() && published.Unevaluated == "" {
			readiness.Ready = false
		}
	}
	readiness.Problems = append(readiness.Problems, failing(g)...)
	readiness.Problems = append(readiness.Problems, s.failingInstances(g)...)
	readiness.Problems = append(readiness.Problems, s.shortages(g)...)
	return readiness
}

// failingInstances returns the conditions which report that instances cannot start or end
// unexpectedly, with the platform's messages.
func (s *Reader) failingInstances(g *round.Generation) []api.Problem {
	var problems []api.Problem
	for _, name := range g.Names {
		a := g.Autoscalers[name]
		for _, condition := range round.FailingConditions(a.Definition().Kind, a.Last().Record.Status.Conditions) {
			problems = append(problems, api.Problem{Subject: "autoscaler " + name, Message: string(condition.Type) + ": " + condition.Message})
		}
	}
	return problems
}

// adapterProblems returns the problems of a fleet or a source.
func adapterProblems(subject string, p *problem.Problem, adapter any) []api.Problem {
	var problems []api.Problem
	if text := p.Text(); text != "" {
		problems = append(problems, api.Problem{Subject: subject, Message: text})
	}
	if troubled, ok := adapter.(targets.ProblemReporter); ok {
		for _, text := range troubled.Problems() {
			problems = append(problems, api.Problem{Subject: subject, Message: text})
		}
	}
	return problems
}

// offProblems returns the reasons, other than failures, why autoscalers do not scale.
func (s *Reader) offProblems(g *round.Generation) []api.Problem {
	var problems []api.Problem
	if s.env.DryRun {
		problems = append(problems, api.Problem{Subject: "daemon", Message: api.DryRun})
	}
	for _, name := range g.Names {
		if g.Autoscalers[name].Last().Record.Status.Disabled() {
			problems = append(problems, api.Problem{Subject: "autoscaler " + name, Message: api.Disabled})
		}
	}
	return append(problems, s.heldBack(g)...)
}

// heldBack returns the active pauses, and the autoscalers if their mode is not on or their platform
// accepts no change.
func (s *Reader) heldBack(g *round.Generation) []api.Problem {
	var held []api.Problem
	for _, pause := range s.Pauses() {
		subject := "daemon"
		switch {
		case pause.Autoscaler != "":
			subject = "autoscaler " + pause.Autoscaler
		case pause.Fleet != "":
			subject = "fleet " + pause.Fleet
		}
		held = append(held, api.Problem{Subject: subject, Message: pause.Message})
	}
	for _, name := range g.Names {
		if text := s.modeText(g.Autoscalers[name]); text != "" {
			held = append(held, api.Problem{Subject: "autoscaler " + name, Message: text})
		}
		if text := holdText(g.Autoscalers[name].Last()); text != "" {
			held = append(held, api.Problem{Subject: "autoscaler " + name, Message: text})
		}
	}
	return held
}

// holdText returns the reason why the platform accepted no change in the last pass, or "".
func holdText(published *round.Result) string {
	if published.Decision.Hold == nil && published.Outcome.Hold == nil {
		return ""
	}
	for _, condition := range published.Record.Status.Conditions {
		if condition.Type == policy.AbleToScale && condition.Status == policy.ConditionFalse {
			return condition.Reason + ": " + condition.Message
		}
	}
	return ""
}

// mode returns the current mode of an autoscaler.
func (s *Reader) mode(a *round.Autoscaler) policy.Mode {
	return a.Definition().At(s.wall()).Settings.Mode
}

// modeText describes a mode other than "on", and names the schedule that sets it.
func (s *Reader) modeText(a *round.Autoscaler) string {
	scheduled, state := a.Definition().Autoscaler.At(s.wall())
	return api.ModeText(scheduled.Mode, state.ModeSchedule)
}

// shortages returns the autoscalers with metrics that request more replicas than the maximum.
func (s *Reader) shortages(g *round.Generation) []api.Problem {
	var problems []api.Problem
	for _, name := range g.Names {
		if shortage := g.Autoscalers[name].Last().Shortage; shortage != nil {
			problems = append(problems, api.Problem{Subject: "autoscaler " + name, Message: shortage.String()})
		}
	}
	return problems
}

// failing returns the autoscalers whose last pass failed.
func failing(g *round.Generation) []api.Problem {
	var problems []api.Problem
	for _, name := range g.Names {
		if text := g.Autoscalers[name].Last().Err; text != "" {
			problems = append(problems, api.Problem{Subject: "autoscaler " + name, Message: text})
		}
	}
	return problems
}

// allFailing returns the error of the first autoscaler if the last pass of every autoscaler ended
// with an error; otherwise it returns an empty string. It ignores autoscalers with mode off and
// those before their first pass.
func (s *Reader) allFailing(g *round.Generation) string {
	first := ""
	for _, name := range g.Names {
		a := g.Autoscalers[name]
		switch published := a.Last(); {
		case s.mode(a) == policy.ModeOff, published.Reason == reason.None:
		case published.Err == "":
			return ""
		case first == "":
			first = "autoscaler " + name + ": " + published.Err
		}
	}
	return first
}

// Line returns the status that "systemctl status" shows.
func (s *Reader) Line() string {
	g := s.scheduler.Current()
	failing, off := 0, 0
	for _, a := range g.Autoscalers {
		published := a.Last()
		if published.Err != "" {
			failing++
		}
		if published.Record.Status.Disabled() || s.mode(a) == policy.ModeOff {
			off++
		}
	}
	line := fmt.Sprintf("%d autoscalers, %d failing", len(g.Names), failing)
	if len(g.Names) == 1 {
		line = fmt.Sprintf("1 autoscaler, %d failing", failing)
	}
	if off > 0 {
		line += fmt.Sprintf(", %d off", off)
	}
	switch pauses := len(s.Pauses()); pauses {
	case 0:
	case 1:
		line += ", 1 pause"
	default:
		line += fmt.Sprintf(", %d pauses", pauses)
	}
	if s.env.DryRun {
		line += ", dry run"
	}
	return line
}
