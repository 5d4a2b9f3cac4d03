package drain

import (
	"github.com/hpad/hpad/settings"
	"github.com/hpad/hpad/targets"
)

// Kind is a way to drain, declared by its package as the variable Kind and listed in
// package daemon/kinds.
type Kind struct {
	// Name is what the drain of an autoscaler has as its kind.
	Name string
	// Config returns the empty table of a drain, a pointer to a struct with toml tags.
	Config func() Config
	// Counts is set where Drainers are Counters.
	Counts bool
}

// Config is the table of one drain, of one kind.
type Config interface {
	// SetDefaults fills in what was not given.
	SetDefaults()
	// Validate returns every mistake of a defaulted table, with paths relative to it.
	Validate() []settings.FieldError
	// Build makes the Drainer of a valid table. By is the fleet that a FleetNamer
	// names; nil for others.
	Build(by targets.Fleet) (Drainer, error)
}

// FleetNamer is a Config of a kind that drains by the means of another fleet.
// DrainFleet returns the name of that and the kind it has to be of.
type FleetNamer interface {
	DrainFleet() (name, kind string)
}
