package policy

// Command is a count that an operator sets.
type Command struct {
	Replicas int32 `json:"replicas"`
	// Force allows a count outside of min and max.
	Force bool `json:"force,omitempty"`
	// Author is the operator; empty if unknown.
	Author string `json:"author,omitempty"`
}

// Refusal returns the reason to reject a command; empty to accept it. Pauses and modes do not
// matter. A count of 0 is maintenance (R51) and needs no force.
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

// obey applies a command. The recommendation of the metrics is still stored.
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

func (c *Command) author() string {
	if c.Author == "" {
		return "a person"
	}
	return c.Author
}
