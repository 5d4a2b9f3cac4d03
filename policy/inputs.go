package policy

import "time"

// Engine is the version of the rules. It must be increased when the same inputs can lead to
// another decision or another record of it.
const Engine = 2

// Inputs are all inputs of a decision. With the same [Engine], [Inputs.Decide] always returns
// the same decision.
type Inputs struct {
	Settings    Settings    `json:"settings"`
	Spec        Spec        `json:"spec"`
	Memory      Memory      `json:"memory,omitzero"`
	Status      Status      `json:"status,omitzero"`
	Observation Observation `json:"observation"`
	// Now is the instant of the pass.
	Now time.Time `json:"now"`
	// Meanwhile are pauses that began after the decision and prevented it.
	Meanwhile []Pause `json:"meanwhile,omitempty"`
}

// Decide calls [Decide] and then [Decision.HoldBy].
func (in *Inputs) Decide() Decision {
	d := Decide(in.Settings, in.Spec, in.Memory, in.Status, in.Observation, in.Now)
	d.HoldBy(in.Meanwhile, in.Now)
	return d
}
