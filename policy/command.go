package policy

// Command is a count that a person sets.
type Command struct {
	Replicas int32 `json:"replicas"`
	// Force reports whether the count may be outside of min and max.
	Force bool `json:"force,omitempty"`
	// Author is who set it; empty when that is not known.
	Author string `json:"author,omitempty"`
}

// Refusal returns why a command is not to be obeyed, given what was observed; empty where
// it is. Pauses and modes are no reasons: they are people's words too. A count of 0 is
// maintenance (R51) and needs no force.
func (c *Command) Refusal(spec Spec, observation *Observation) string {
	low, o := minReplicasOf(&spec), observation
	switch {
	case c.Replicas < 0:
		return "a count is at least 0"
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

// obey sets the count that a person asked for. What the metrics ask for is remembered all
// the same.
func (p *pass) obey() {
	d, command := &p.decision, p.observation.Command
	if p.settings.Mode != ModeOff && (d.CurrentReplicas != 0 || p.computesAtZero()) {
		p.remember()
	}
	ordered := *command
	d.Case, d.Command = CaseCommanded, &ordered
	d.DesiredReplicas = command.Replicas
	d.Write = d.DesiredReplicas != d.CurrentReplicas && d.Hold == nil
	d.Reason, d.Message = NoReason, "no change: the count is the one that "+command.author()+" set"
	if d.DesiredReplicas != d.CurrentReplicas {
		d.Reason, d.Message = Commanded, newSize(d.DesiredReplicas, command.author()+" set the count")
	}
}

// author is who gave the command, in words.
func (c *Command) author() string {
	if c.Author == "" {
		return "a person"
	}
	return c.Author
}
