package config

import (
	"maps"
	"slices"
	"time"

	"github.com/hpad/hpad/daemon/notify"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/sources"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/drain"
)

// Config is a whole configuration, defaulted and valid.
type Config struct {
	Daemon Daemon
	// HA is nil where this hpad shares its fleets with nobody.
	HA          *HA
	Fleets      map[string]Fleet
	Sources     map[string]Source
	Autoscalers map[string]*Autoscaler
	// Notifications are their receivers.
	Notifications map[string]notify.Config
	// Files are the files it was read from, in order.
	Files []string
	// warnings are those of the [daemon] table.
	warnings []Error
}

// Warnings returns what is no mistake of the file and hardly meant, or cannot work, in
// the order of the files.
func (c *Config) Warnings() []Error {
	warnings := Errors(slices.Clone(c.warnings))
	for _, name := range slices.Sorted(maps.Keys(c.Autoscalers)) {
		warnings = append(warnings, c.Autoscalers[name].Warnings...)
	}
	return warnings.sorted(c.Files)
}

// Fleet is one [fleets.NAME] table.
type Fleet struct {
	Name string
	Kind string
	// Discover makes targets become autoscalers by their labels.
	Discover bool
	// LabelLimits bound what those labels may ask for.
	LabelLimits targets.LabelLimits
	// Breaker is nil where the fleet has none.
	Breaker *Breaker
	// Config is the kind's own table, defaulted and valid. Two of them are the same iff
	// reflect.DeepEqual says so.
	Config targets.Config
}

// Source is one [sources.NAME] table.
type Source struct {
	Name string
	Kind string
	// Config is the kind's own table, defaulted and valid.
	Config sources.Config
}

// Autoscaler is one [autoscalers.NAME] table.
type Autoscaler struct {
	Name   string
	Target targets.Ref
	// Requests are stated for each instance as a whole where the fleet cannot
	// tell (R29); empty leaves what the fleet says.
	Requests []policy.Amount
	// SyncPeriod is the autoscaler's own period or the daemon's: whole seconds,
	// 1 s to 1 h.
	SyncPeriod time.Duration
	// Mode is how much it does by itself.
	Mode policy.Mode `json:",omitempty"`
	// OnForeignChange says what happens when somebody else changes the count.
	OnForeignChange OnForeignChange
	// Initialization is the target's own CPU initialization period (R27); nil means
	// the daemon's.
	Initialization *time.Duration
	// Guard says which readings are not believed at once.
	Guard Guard
	// Victims is the order in which instances are taken when the count goes down;
	// empty where the platform chooses.
	Victims drain.Order
	// Drain takes the work of instances away before they are removed; nil means that
	// they are removed at once.
	Drain *Drain
	// Spec is defaulted and valid.
	Spec policy.Spec
	// Inputs are where the readings of Spec.Metrics come from, in the same order.
	Inputs []Input
	// Labels are those by which the target itself asked for the autoscaler; nil for
	// one of a file.
	Labels map[string]string
	// Warnings are of what is no mistake of the file and hardly meant, or cannot work.
	Warnings []Error `json:"-"`

	// target is the kind's part of the target's table, for Redacted.
	target targets.Target
}

// Input is where one metric's reading comes from.
type Input struct {
	// Source is the source to ask; empty means the fleet's own samples.
	Source string
	// Query is the text to ask it.
	Query string
	// Select picks the series whose labels have these values; empty picks all.
	Select Selection
	// InstanceLabel is the label by which a series finds its instance, for
	// Instances and for Resource and ContainerResource metrics with a Source.
	InstanceLabel string
	// Match says what InstanceLabel holds.
	Match Match
	// Window is the span each value covers (R27).
	Window time.Duration
	// Valid are the values of a series that are believed; nil means all.
	Valid *Range `json:",omitempty"`
	// MinSeries is how many series there have to be; 0 means as many as there are.
	MinSeries int `json:",omitempty"`
	// MaxAge is how old a reading may be: whole seconds, 0 leaves it to the source or the
	// fleet.
	MaxAge time.Duration `json:",omitempty"`
	// EmptyZero reports whether an answer without series counts as zero, and not as a
	// failure.
	EmptyZero bool `json:",omitempty"`
}

// Range is the lowest and the highest of some values, both included, in thousandths.
type Range struct{ Min, Max int64 }
