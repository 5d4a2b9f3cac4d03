package config

import (
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/hpad/hpad/daemon/notify"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/sources"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/drain"
)

// Config is a complete, defaulted and valid configuration.
type Config struct {
	Daemon Daemon
	// HA is nil outside of a cluster.
	HA          *HA
	Fleets      map[string]Fleet
	Sources     map[string]Source
	Autoscalers map[string]*Autoscaler
	// Notifications are the receivers of notifications.
	Notifications map[string]notify.Config
	// Files are the files of the configuration, in order.
	Files []string
	// warnings are the warnings about the [daemon] and [ha] tables.
	warnings []Error
}

// Adopt replaces autoscalers by equal ones of an earlier configuration, which definitions in the
// daemon still reference, so that each is in memory once. The configuration must not be in use.
func (c *Config) Adopt(earlier *Config) {
	for name, a := range c.Autoscalers {
		if before, ok := earlier.Autoscalers[name]; ok && reflect.DeepEqual(before, a) {
			c.Autoscalers[name] = before
		}
	}
}

// Warnings returns all warnings, in the order of the files.
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
	// Discover makes autoscalers of targets with labels, within LabelLimits.
	Discover    bool
	LabelLimits targets.LabelLimits
	// Breaker may be nil.
	Breaker *Breaker
	// Config is the kind's own table, defaulted and valid. Equality is reflect.DeepEqual.
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
	// Requests are the requests of each instance that the fleet does not report (R29).
	Requests []policy.Amount
	// SyncPeriod is the autoscaler's own period or the daemon's: whole seconds, 1 s to 1 h.
	SyncPeriod      time.Duration
	Mode            policy.Mode `json:",omitempty"`
	OnForeignChange OnForeignChange
	// Initialization is the target's own CPU initialization period (R27); nil means the daemon's.
	Initialization *time.Duration
	Guard          Guard
	// Victims is the order in which a scale-down removes instances; empty leaves it to the
	// platform.
	Victims drain.Order
	// Drain may be nil.
	Drain *Drain
	// Spec is defaulted and valid.
	Spec policy.Spec
	// Inputs are the inputs of Spec.Metrics, in the same order.
	Inputs []Input
	// Labels are the labels of the target that define the autoscaler; nil for an autoscaler of a
	// file.
	Labels   map[string]string
	Warnings []Error `json:"-"`

	// target is the kind's part of the target's table, for Redacted.
	target targets.Target
}

// Input is the input of one metric.
type Input struct {
	// Source is the name of a source; empty for the samples of the fleet.
	Source string
	Query  string
	// Select selects the series with these labels; empty selects all.
	Select Selection
	// InstanceLabel is the label that identifies the instance of a series.
	InstanceLabel string
	// Match is the content of InstanceLabel.
	Match Match
	// Window is the period that each value covers (R27).
	Window time.Duration
	// Valid is the range of valid values; nil accepts all.
	Valid *Range `json:",omitempty"`
	// MinSeries is the minimum number of series; 0 for no minimum.
	MinSeries int `json:",omitempty"`
	// MaxAge is the maximum age of a reading in whole seconds; 0 for the default of the source or
	// fleet.
	MaxAge time.Duration `json:",omitempty"`
	// EmptyZero makes a result without series count as zero instead of a failure.
	EmptyZero bool `json:",omitempty"`
}

// Range is an inclusive range in thousandths.
type Range struct{ Min, Max int64 }
