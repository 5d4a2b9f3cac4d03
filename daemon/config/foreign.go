package config

// OnForeignChange is the reaction to a change of the count by another writer.
type OnForeignChange string

// The reactions to a foreign change.
const (
	// AcceptForeignChange continues from the new count, like the HPA.
	AcceptForeignChange OnForeignChange = "accept"
	// RestoreForeignChange immediately restores the old count within min and max. A count of 0
	// stays, because it turns the autoscaler off (R51).
	RestoreForeignChange OnForeignChange = "restore"
)
