package policy

import "time"

// Engine is the version of the rules. Another one may decide otherwise on the same
// inputs, or record its decisions in other words: a change that does either raises it.
const Engine = 2

// Inputs are everything that one decision depends on: [Inputs.Decide] makes the same
// of the same inputs for as long as [Engine] is the same.
type Inputs struct {
	Settings    Settings    `json:"settings"`
	Spec        Spec        `json:"spec"`
	Memory      Memory      `json:"memory,omitzero"`
	Status      Status      `json:"status,omitzero"`
	Observation Observation `json:"observation"`
	// Now is the pass's one instant.
	Now time.Time `json:"now"`
	// Meanwhile are pauses that held the decision and began after it was made; empty
	// where none did.
	Meanwhile []Pause `json:"meanwhile,omitempty"`
}

// Decide returns the decision, as [Decide] and then [Decision.HoldBy] do.
func (in *Inputs) Decide() Decision {
	d := Decide(in.Settings, in.Spec, in.Memory, in.Status, in.Observation, in.Now)
	d.HoldBy(in.Meanwhile, in.Now)
	return d
}
