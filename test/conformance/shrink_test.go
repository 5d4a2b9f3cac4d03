package conformance

import (
	"encoding/json"
	"fmt"

	"github.com/hpad/hpad/test/conformance/sim"
)

// maxShrinks is the maximum number of rounds of shrink.
const maxShrinks = 60

// shrink finds the smallest scenario that has the first difference of a list, and writes it to
// -shrink.
func (r *runner) shrink(all []*sim.Scenario) {
	differences, _ := r.compare(all)
	if len(differences) == 0 {
		r.Fatal("both controllers agree")
	}
	class, at := differences[0].Class, differences[0].At
	s := different(all, differences[:1])[0]
	name := s.Name
	r.Logf("shrinking %s: %s", name, class)
	for round := range maxShrinks {
		candidates := smaller(s, at)
		for i, c := range candidates {
			c.Name = fmt.Sprint(i)
		}
		best := s
		found, _ := r.compare(candidates)
		for i := range found {
			if found[i].Class != class {
				continue
			}
			if c := different(candidates, found[i:i+1])[0]; size(c) < size(best) {
				best, at = c, found[i].At
			}
		}
		if best == s {
			break
		}
		s = best
		r.Logf("round %d: %d bytes", round, size(s))
	}
	s.Name = name
	if err := write(*shrinkTo, []*sim.Scenario{s}); err != nil {
		r.Fatal(err)
	}
	text, _ := json.MarshalIndent(s, "", " ")
	r.Logf("%s", text)
}

func clone(s *sim.Scenario) *sim.Scenario {
	text, _ := json.Marshal(s)
	next := new(sim.Scenario)
	_ = json.Unmarshal(text, next)
	return next
}

func size(s *sim.Scenario) int {
	text, _ := json.Marshal(s)
	return len(text)
}

// smaller returns smaller variants of a scenario with a difference at an instant.
func smaller(s *sim.Scenario, at sim.Dur) (all []*sim.Scenario) {
	try := func(change func(c *sim.Scenario)) {
		c := clone(s)
		defer func() { _ = recover() }() // the scenario lacks the part to change
		change(c)
		if size(c) < size(s) {
			all = append(all, c)
		}
	}
	try(func(c *sim.Scenario) {
		c.Ticks = int(at/c.Config.Period) + 1
		for i := range c.Autoscalers {
			a := &c.Autoscalers[i]
			a.Events = keep(a.Events, func(e sim.Event) bool { return e.At <= at })
			a.Load = keep(a.Load, func(p sim.Point) bool { return p.At <= at })
		}
		c.Acts = keep(c.Acts, func(act sim.Act) bool { return act.At <= at })
	})
	for i := range s.Autoscalers {
		try(func(c *sim.Scenario) {
			if len(c.Autoscalers) > 1 {
				c.Autoscalers = without(c.Autoscalers, i)
			}
		})
	}
	for i := range s.Acts {
		try(func(c *sim.Scenario) { c.Acts = without(c.Acts, i) })
	}
	try(func(c *sim.Scenario) { c.Prometheus = false })
	try(func(c *sim.Scenario) { c.Strict = false })
	try(func(c *sim.Scenario) { c.Fleets = 0 })
	for n := range s.Autoscalers {
		for i := range s.Autoscalers[n].Events {
			try(func(c *sim.Scenario) { c.Autoscalers[n].Events = without(c.Autoscalers[n].Events, i) })
		}
		for i := range s.Autoscalers[n].Load {
			try(func(c *sim.Scenario) { c.Autoscalers[n].Load = without(c.Autoscalers[n].Load, i) })
		}
		try(func(c *sim.Scenario) {
			c.Autoscalers[n].Load = c.Autoscalers[n].Load[:(len(c.Autoscalers[n].Load)+1)/2]
		})
		try(func(c *sim.Scenario) { c.Autoscalers[n].Load = c.Autoscalers[n].Load[len(c.Autoscalers[n].Load)/2:] })
		specs := func(c *sim.Scenario) (all []*sim.Spec) {
			all = append(all, &c.Autoscalers[n].Spec)
			for e := range c.Autoscalers[n].Events {
				if spec := c.Autoscalers[n].Events[e].Spec; spec != nil {
					all = append(all, spec)
				}
			}
			return all
		}
		for which := range specs(s) {
			spec := func(c *sim.Scenario) *sim.Spec { return specs(c)[which] }
			try(func(c *sim.Scenario) { spec(c).Behavior = nil })
			try(func(c *sim.Scenario) { spec(c).Behavior.Up = nil })
			try(func(c *sim.Scenario) { spec(c).Behavior.Down = nil })
			for i := range spec(s).Metrics {
				try(func(c *sim.Scenario) {
					if len(spec(c).Metrics) > 1 {
						spec(c).Metrics = without(spec(c).Metrics, i)
					}
				})
				try(func(c *sim.Scenario) { spec(c).Metrics[i].Series = 0 })
				try(func(c *sim.Scenario) { spec(c).Metrics[i].Shared = false })
				try(func(c *sim.Scenario) { spec(c).Metrics[i].Query, spec(c).Metrics[i].Window = false, 0 })
			}
			for _, up := range []bool{true, false} {
				rules := func(c *sim.Scenario) *sim.Rules {
					if b := spec(c).Behavior; b != nil && up {
						return b.Up
					} else if b != nil {
						return b.Down
					}
					return nil
				}
				if rules(s) == nil {
					continue
				}
				try(func(c *sim.Scenario) { rules(c).Window = nil })
				try(func(c *sim.Scenario) { rules(c).Select = "" })
				try(func(c *sim.Scenario) { rules(c).Tolerance = "" })
				for i := range rules(s).Policies {
					try(func(c *sim.Scenario) { rules(c).Policies = without(rules(c).Policies, i) })
				}
			}
		}
		fleet := func(c *sim.Scenario) *sim.Fleet { return &c.Autoscalers[n].Fleet }
		try(func(c *sim.Scenario) { fleet(c).Jitter = 0 })
		try(func(c *sim.Scenario) { fleet(c).Snap = 0 })
		try(func(c *sim.Scenario) { fleet(c).Ghosts = false })
		try(func(c *sim.Scenario) { fleet(c).Fresh = false })
		try(func(c *sim.Scenario) { fleet(c).Silent = false })
		try(func(c *sim.Scenario) { fleet(c).Whole, fleet(c).ByConfig = nil, false })
		try(func(c *sim.Scenario) { fleet(c).Tasks = fleet(c).Tasks[:1] })
		try(func(c *sim.Scenario) { fleet(c).Pending = [2]sim.Dur{} })
		try(func(c *sim.Scenario) { fleet(c).Startup = [2]sim.Dur{} })
		try(func(c *sim.Scenario) { fleet(c).Stop = [2]sim.Dur{} })
		try(func(c *sim.Scenario) { fleet(c).Age = 0 })
		try(func(c *sim.Scenario) { fleet(c).Offset = 0 })
	}
	return all
}

func keep[T any](all []T, wanted func(T) bool) (kept []T) {
	for _, v := range all {
		if wanted(v) {
			kept = append(kept, v)
		}
	}
	return kept
}

func without[T any](all []T, i int) []T {
	return append(append([]T{}, all[:i]...), all[i+1:]...)
}
