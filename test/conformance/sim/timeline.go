package sim

import (
	"cmp"
	"slices"
	"sort"
)

// Step is an action on an autoscaler: "spec", "delete", "create" and "poke" as in Event,
// "settings" as in Act, "evaluate", or "evaluate edited", which evaluates only if the
// autoscaler changed since its last evaluation.
type Step struct {
	At         Dur    `json:"at"`
	Kind       string `json:"kind"`
	Autoscaler string `json:"autoscaler"`
	Spec       *Spec  `json:"spec,omitempty"`
	// Late is the time from the evaluation to the effect of its write.
	Late Dur `json:"late,omitempty"`
	// Config is set for the kind "settings".
	Config *Config `json:"config,omitempty"`
}

// Timeline returns the changes of autoscalers in order of time.
func (s *Scenario) Timeline() (steps []Step) {
	for i := range s.Autoscalers {
		a := &s.Autoscalers[i]
		for e := range a.Events {
			event := &a.Events[e]
			if s.Labels && event.Kind == "spec" { // Lead adds it when hpad has discovered it
				continue
			}
			switch event.Kind {
			case "spec", "delete", "create", "poke":
				steps = append(steps, Step{At: event.At, Kind: event.Kind, Autoscaler: a.Name, Spec: event.Spec})
			}
		}
	}
	for i := range s.Acts {
		if act := &s.Acts[i]; act.Kind == "settings" {
			steps = append(steps, Step{At: act.At, Kind: act.Kind, Config: act.Config})
		}
	}
	sort.SliceStable(steps, func(i, j int) bool { return steps[i].At < steps[j].At })
	return steps
}

// Stepwise reports whether upstream evaluates at the instants of Evaluations, instead of by its
// own queue.
func (s *Scenario) Stepwise() bool {
	if s.Led || len(s.Downtimes()) > 0 {
		return true
	}
	for i := range s.Autoscalers {
		if s.Autoscalers[i].Period > 0 {
			return true
		}
		for _, e := range s.Autoscalers[i].Events {
			if e.Kind == "interfere" { // upstream waits before it retries, which shifts its queue
				return true
			}
		}
	}
	return false
}

// Downtimes returns the acts during which hpad does not run.
func (s *Scenario) Downtimes() (down []Act) {
	for _, act := range s.Acts {
		if act.Kind == "down" || act.Kind == "dead" {
			down = append(down, act)
		}
	}
	return down
}

// Evaluations returns the evaluations of a stepwise scenario: at each tick outside of
// downtimes, after each edit, and at the end of a downtime with a missed tick or edit.
func (s *Scenario) Evaluations() (steps []Step) {
	if s.Led {
		return s.Evaluate
	}
	down := s.Downtimes()
	within := func(at Dur) bool {
		return slices.ContainsFunc(down, func(act Act) bool { return act.At <= at && at < act.Until })
	}
	for i := range s.Autoscalers {
		a := &s.Autoscalers[i]
		if a.Idle {
			continue
		}
		period := cmp.Or(a.Period, s.Config.Period)
		add := func(at Dur, kind string) { steps = append(steps, Step{At: at, Kind: kind, Autoscaler: a.Name}) }
		for tick := range int(s.End()/period) + 1 {
			if at := Dur(tick) * period; !within(at) {
				add(at, "evaluate")
			}
		}
		for e := range a.Events {
			switch at := a.Events[e].At; {
			case within(at):
			case a.Events[e].Kind == "poke":
				add(at, "evaluate")
			case slices.ContainsFunc(down, func(act Act) bool { return act.Until == at }): // the evaluation at the end follows the edit
			case a.Events[e].Kind == "spec", a.Events[e].Kind == "create":
				add(at, "evaluate edited")
			}
		}
		for _, act := range s.Acts {
			if act.Kind == "settings" && !within(act.At) {
				add(act.At, "evaluate edited")
			}
		}
		for _, act := range down {
			if act.Until/period*period >= act.At {
				add(act.Until, "evaluate")
			} else {
				add(act.Until, "evaluate edited")
			}
		}
	}
	sort.SliceStable(steps, func(i, j int) bool { return steps[i].At < steps[j].At })
	return steps
}

// Lead makes upstream evaluate at the same times as hpad. If hpad was killed before a write, the
// same write of upstream fails.
func Lead(s *Scenario, hpad *Played) {
	s.Evaluate = nil
	for _, g := range hpad.Ghosts {
		s.Evaluate = append(s.Evaluate, Step{At: g.T, Kind: "evaluate", Autoscaler: g.A})
		if !g.Unmade {
			continue
		}
		for i := range s.Autoscalers {
			if a := &s.Autoscalers[i]; a.Name == g.A {
				a.Events = append(a.Events, Event{At: g.T, Kind: "refuse"})
			}
		}
	}
	seen := map[string]bool{}
	for _, l := range s.lasting(hpad.Lines) {
		key := l.A + "@" + l.T.String()
		// At a tick hpad evaluates with the previous labels, and then with the labels that it
		// discovers. At its start it evaluates with the discovered labels.
		if s.Labels && (seen[key] || l.T%s.Config.Period != 0) {
			s.Evaluate = append(s.Evaluate, Step{At: l.T, Kind: "spec", Autoscaler: l.A, Spec: s.labels(l.A, l.T)})
		}
		seen[key] = true
		s.Evaluate = append(s.Evaluate, Step{At: l.T, Kind: "evaluate", Autoscaler: l.A, Late: l.Late})
	}
	sort.SliceStable(s.Evaluate, func(i, j int) bool { return s.Evaluate[i].At < s.Evaluate[j].At })
}

// labels returns the spec that the labels of a target define at an instant.
func (s *Scenario) labels(name string, at Dur) (spec *Spec) {
	for i := range s.Autoscalers {
		a := &s.Autoscalers[i]
		if a.Name != name {
			continue
		}
		spec = &a.Spec
		for e := range a.Events {
			if event := &a.Events[e]; event.Kind == "spec" && event.At <= at {
				spec = event.Spec
			}
		}
	}
	return spec
}

// Offset is the difference of the wall clock from its start, which applies from an instant.
type Offset struct {
	From  Dur `json:"from"`
	Ahead Dur `json:"ahead"`
	// Lost is the restart at which hpad forgot the offset; 0 if it stored the offset before.
	Lost Dur `json:"lost,omitempty"`
}

// Notice sets the steps of the wall clock to those that hpad notices, which reads the clock at each
// second, when it starts, and when a client reads its API. Without a step back, Notice has no
// effect.
func Notice(s *Scenario, hpad *Played) {
	if !slices.ContainsFunc(s.Acts, func(a Act) bool { return a.Kind == "step" && a.By < 0 }) {
		return
	}
	looks := slices.Clone(s.Acts)
	for i := range looks {
		if looks[i].Kind == "step" {
			looks[i].At = (looks[i].At + Sec(1) - 1) / Sec(1) * Sec(1)
		}
	}
	slices.SortStableFunc(looks, func(a, b Act) int { return cmp.Compare(a.At, b.At) })
	s.Steps = nil
	known := Dur(0) // the offset that hpad assumes
	for _, look := range looks {
		if look.Kind == "restart" || look.Kind == "kill" {
			known = s.forget(look.At, hpad.stored(look.At))
		}
		if ahead := s.ahead(look.At); ahead != known {
			s.Steps, known = append(s.Steps, Offset{From: look.At, Ahead: ahead}), ahead
		}
	}
}

// forget marks the steps that hpad did not store before a restart, and returns the offset that it
// assumes after it.
func (s *Scenario) forget(at, stored Dur) (ahead Dur) {
	for i := range s.Steps {
		switch step := &s.Steps[i]; {
		case step.Lost > 0:
		case step.From > stored:
			step.Lost = at
		default:
			ahead = step.Ahead
		}
	}
	return ahead
}

// stored returns the time of the last commit until an instant.
func (p *Played) stored(at Dur) (last Dur) {
	for _, commit := range p.Commits {
		if commit <= at {
			last = commit
		}
	}
	return last
}

// ahead returns the difference of the wall clock from its start.
func (s *Scenario) ahead(at Dur) (ahead Dur) {
	for _, act := range s.Acts {
		if act.Kind == "step" && act.At <= at {
			ahead += act.By
		}
	}
	return ahead
}

// Run returns the number of restarts of hpad until an instant.
func (s *Scenario) Run(at Dur) (n int) {
	for _, act := range s.Acts {
		if (act.Kind == "restart" || act.Kind == "kill") && act.At <= at {
			n++
		}
	}
	return n
}

// Apparent returns the instant that hpad derives from the wall clock's time at an instant. If the
// clock showed that time twice, it is the later instant.
func (s *Scenario) Apparent(at, now Dur) Dur {
	if len(s.Steps) == 0 {
		return at
	}
	wall, until := at+s.ahead(at), now
	nearest := Dur(-1)
	for i := len(s.Steps) - 1; i >= -1; i-- {
		var since Offset
		if i >= 0 {
			since = s.Steps[i]
			if since.From > now || since.Lost > 0 && since.Lost <= now {
				continue
			}
		}
		then := wall - since.Ahead
		if i >= 0 && then < since.From {
			until = since.From
			continue
		}
		if then <= until {
			return then
		}
		if nearest < 0 {
			nearest = until
		}
		until = since.From
	}
	return nearest
}
