package policy

import "time"

// WindowRules are what the upkeep of the recommendation list needs of settings
// and spec (R55, R61, R63), small enough to be kept beside the list.
type WindowRules struct {
	// Behavior selects R63 when true and R55 when false.
	Behavior bool `json:"behavior"`
	// Up is the scale-up window; it plays no part without Behavior.
	Up time.Duration `json:"up"`
	// Down is the scale-down window.
	Down time.Duration `json:"down"`
}
