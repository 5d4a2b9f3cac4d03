package config

// OnForeignChange says what happens when somebody else changes the count of an
// autoscaler's target.
type OnForeignChange string

// The answers to a foreign change.
const (
	// AcceptForeignChange goes on from the new count, as the HPA does.
	AcceptForeignChange OnForeignChange = "accept"
	// RestoreForeignChange puts the old count back at once, within min and max; a
	// count of 0 is left, because it switches the autoscaler off (R51).
	RestoreForeignChange OnForeignChange = "restore"
)
