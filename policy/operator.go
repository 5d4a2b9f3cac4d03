package policy

import "time"

// noticeForeign reports a manual change. The condition remains True until the autoscaler writes the
// count.
func (p *pass) noticeForeign() {
	foreign := p.observation.Foreign
	if foreign == nil {
		return
	}
	noticed := *foreign
	p.decision.Foreign = &noticed
	if p.observation.SpecReplicas == 0 && p.decision.Memory.Stopped {
		p.keepZero("an external writer")
	}
	message := "an external writer changed the count from " + itoa(foreign.From) + " to " + itoa(p.observation.SpecReplicas)
	p.warn(string(ForeignWriter), message)
	p.set(ForeignWriter, ConditionTrue, "CountChanged", message)
}

// noticeRestored ends a restoration when the count is restored within the platform's bounds, or
// when an operator scales to 0 (R51).
func (p *pass) noticeRestored() {
	d := &p.decision
	if d.Restore != nil && (d.CurrentReplicas == 0 || p.platformAllows(p.restored()) == d.CurrentReplicas) {
		d.Restore = nil
	}
}

// restore reverts a manual change (deviation). It still stores recommendations, because a hold can
// last longer than the stabilization windows.
func (p *pass) restore() {
	p.remember()
	p.force(CaseRestored, ForeignChanged, p.restored())
}

// remember stores the recommendation of the metrics in a pass that does not use it.
func (p *pass) remember() {
	memory := &p.decision.Memory
	p.evaluateMetrics()
	if p.combineMetrics() {
		memory.Recommendations = Remember(RulesFor(p.settings, p.spec), memory.Recommendations, p.recommend())
	}
}

// restored returns the count to restore, within the current bounds.
func (p *pass) restored() int32 {
	return min(max(p.decision.Restore.Replicas, p.decision.MinReplicas), p.decision.MaxReplicas)
}

// overwritten ends the ForeignWriter condition after a write.
func (s *Settlement) overwritten(now time.Time) {
	if condition := findCondition(s.Status.Conditions, ForeignWriter); condition != nil && condition.Status == ConditionTrue {
		s.Status.Conditions = setCondition(s.Status.Conditions, now, ForeignWriter, ConditionFalse, "Rescaled",
			"the autoscaler has written the count again")
	}
}

// Command is a count that an operator sets.
type Command struct {
	Replicas int32 `json:"replicas"`
	// Force allows a count outside min and max.
	Force bool `json:"force,omitempty"`
	// Author is the name of the operator, or empty if unknown.
	Author string `json:"author,omitempty"`
}

// Refusal returns the reason to reject a command, or an empty string to accept it. Pauses and modes
// do not affect commands. A count of 0 disables the autoscaler (R51) and needs no force.
func (c *Command) Refusal(spec Spec, observation *Observation) string {
	low, o := minReplicasOf(&spec), observation
	switch {
	case c.Replicas < 0:
		return "the count must be at least 0"
	case o.ReadError != "":
		return "the target could not be read: " + o.ReadError
	case o.Hold != nil:
		return "the target is held: " + o.Hold.Message
	case !c.Force && c.Replicas != 0 && (c.Replicas < low || c.Replicas > spec.MaxReplicas):
		return itoa(c.Replicas) + " replicas are not within min_replicas = " + itoa(low) + " and max_replicas = " + itoa(spec.MaxReplicas)
	case o.PlatformMax != nil && c.Replicas > max(*o.PlatformMax, o.SpecReplicas):
		return itoa(c.Replicas) + " replicas are more than the platform's own maximum of " + itoa(*o.PlatformMax)
	case o.PlatformMin != nil && c.Replicas < min(*o.PlatformMin, o.SpecReplicas):
		return itoa(c.Replicas) + " replicas are less than the platform's own minimum of " + itoa(*o.PlatformMin)
	}
	return ""
}

// applyCommand applies a command. The recommendation of the metrics is still stored.
func (p *pass) applyCommand() {
	d, command := &p.decision, p.observation.Command
	if p.settings.Mode != ModeOff && (d.CurrentReplicas != 0 || p.computesAtZero()) {
		p.remember()
	}
	if command.Replicas == 0 && d.CurrentReplicas == 0 {
		p.keepZero(command.author())
	}
	ordered := *command
	d.Case, d.Command = CaseCommanded, &ordered
	d.DesiredReplicas = command.Replicas
	d.Write = d.DesiredReplicas != d.CurrentReplicas && d.Hold == nil
	d.Reason, d.Message = NoReason, "no change: the count was already set by "+command.author()
	if d.DesiredReplicas != d.CurrentReplicas {
		d.Reason, d.Message = Commanded, newSize(d.DesiredReplicas, command.author()+" set the count")
	}
}

func (c *Command) author() string {
	if c.Author == "" {
		return "an operator"
	}
	return c.Author
}

// fromZero reports whether it was the autoscaler that scaled the target to zero (R50). The zero of a
// finite target means that all instances have ended.
func (p *pass) fromZero() bool {
	if p.observation.Finite {
		return true
	}
	if !p.settings.ScaleToZero {
		return false
	}
	condition := findCondition(p.status.Conditions, ScaledToZero)
	return condition != nil && condition.Status == ConditionTrue
}

// stopped reports whether a schedule with max_replicas = 0 scaled the target to zero.
func (p *pass) stopped() bool { return p.decision.Memory.Stopped && p.fromZero() }

// startsFirst reports whether the target has never been started and initial_replicas starts it.
func (p *pass) startsFirst() bool { return p.spec.InitialReplicas != nil && p.observation.NeverStarted }

// leaveZero keeps a target at 0 while a schedule stops it. Otherwise it scales to the count low
// without the metrics, because some sources have no values without instances. If low is 0, the
// metrics determine the count.
func (p *pass) leaveZero(which Case, reason RescaleReason, low int32) {
	d := &p.decision
	switch {
	case p.spec.MaxReplicas == 0:
		p.forgetMissing()
		d.Case, d.Message = CaseStopped, "no change: a schedule stops the target with max_replicas = 0"
	case low > 0:
		p.forgetMissing()
		p.force(which, reason, low)
	default:
		p.followMetrics()
	}
}

// keepZero makes a count of 0 manual (R51), although the autoscaler itself scaled to 0.
func (p *pass) keepZero(author string) {
	p.decision.Memory.Stopped = false
	if p.fromZero() {
		p.set(ScaledToZero, ConditionFalse, "NotScaledToZero", author+" set the count to 0")
		p.status.Conditions = p.decision.Status.Conditions
	}
}

// computesAtZero reports whether metrics are evaluated with zero replicas (R51).
func (p *pass) computesAtZero() bool {
	return p.fromZero() && (p.decision.MinReplicas != 0 || hasWholeMetric(&p.spec))
}

const scalingDisabled = "ScalingDisabled"

// Disabled reports whether an operator has scaled the target to zero (R51). The autoscaler
// continues after a manual scale-up.
func (s *Status) Disabled() bool {
	active := findCondition(s.Conditions, ScalingActive)
	return active != nil && active.Status == ConditionFalse && active.Reason == scalingDisabled
}

// disable ends the pass, because an operator scaled the target to zero (R51).
func (p *pass) disable() {
	d := &p.decision
	d.Case = CaseDisabled
	p.forgetMissing()
	d.Message = "no change: the target has 0 replicas, which were not set by this autoscaler; scale it up by hand to resume"
	p.set(ScalingActive, ConditionFalse, scalingDisabled, "scaling is disabled since the replica count of the target is zero")
	if !p.settings.ScaleToZero {
		d.Status.Conditions = removeCondition(d.Status.Conditions, ScaledToZero)
	}
}

// raiseFromZero raises a count to the lower bound if the autoscaler itself scaled to zero (R53).
func (p *pass) raiseFromZero(desired int32) int32 {
	d := &p.decision
	if d.CurrentReplicas != 0 || d.MinReplicas == 0 || desired >= d.MinReplicas || !p.fromZero() {
		return desired
	}
	d.RaisedToMin = true
	if d.Reason == NoReason {
		d.Reason = BelowMin
	}
	return d.MinReplicas
}
