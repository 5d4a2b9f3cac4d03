// Package config loads the TOML configuration. It decodes and validates the files, sets defaults,
// and compares, redacts and documents configurations. All errors are reported together, each with
// file, line, key, value and the allowed values.
package config

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hpad/hpad/daemon/endpoints"
	"github.com/hpad/hpad/daemon/notify"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/schedule"
	"github.com/hpad/hpad/settings"
	"github.com/hpad/hpad/sources"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/drain"
)

// Config is a validated configuration with defaults applied.
type Config struct {
	Daemon Daemon
	// HA is nil if hpad does not run in a cluster.
	HA          *HA
	Fleets      map[string]Fleet
	Sources     map[string]Source
	Autoscalers map[string]*Autoscaler
	// Notifications maps names to receivers of notifications.
	Notifications map[string]notify.Config
	// Written contains [daemon], [ha] and each [notifications.NAME] as written, by path.
	Written map[string]Written
	// Files lists the configuration files, in reading order.
	Files []string
	// warnings concern the [daemon] and [ha] tables.
	warnings []Error
}

// Adopt replaces autoscalers with equal autoscalers from an earlier configuration. This saves
// memory, because the daemon still references the earlier autoscalers. The configuration must not
// be in use yet.
func (c *Config) Adopt(earlier *Config) {
	for name, a := range c.Autoscalers {
		if before, ok := earlier.Autoscalers[name]; ok && reflect.DeepEqual(before, a) {
			c.Autoscalers[name] = before
		}
	}
}

// Warnings returns all warnings in the order of the files.
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
	// Discover enables autoscalers that are defined by labels of targets, within LabelLimits.
	Discover    bool
	LabelLimits targets.LabelLimits
	// Breaker is nil if the fleet has no breaker.
	Breaker *Breaker
	// Config is the validated configuration of the fleet's kind, with defaults applied.
	// Configurations are compared with reflect.DeepEqual.
	Config  targets.Config
	Written Written
}

// Source is one [sources.NAME] table.
type Source struct {
	Name string
	Kind string
	// Config is the validated configuration of the source's kind, with defaults applied.
	Config  sources.Config
	Written Written
}

// DefaultUnreadyAfter is the default time after which an unready instance is reported.
const DefaultUnreadyAfter = time.Minute

// Autoscaler is one [autoscalers.NAME] table.
type Autoscaler struct {
	Name   string
	Target targets.Ref
	// Requests lists the resource requests of each instance that the fleet does not report (R29).
	Requests []policy.Amount
	// Endpoints is nil if the target has no endpoints. It does not affect decisions.
	Endpoints *endpoints.Config `json:"-"`
	// SyncPeriod is the autoscaler's own period, or the daemon's period by default: 1 s to 1 h in
	// whole seconds.
	SyncPeriod time.Duration
	Mode       policy.Mode `json:",omitempty"`
	// Schedules replace the bounds of Spec and Mode in time windows; see At.
	Schedules       schedule.Rules `json:",omitempty"`
	OnForeignChange OnForeignChange
	// Initialization overrides the daemon's CPU initialization period for this target (R27). If it
	// is nil, the daemon's period applies.
	Initialization *time.Duration
	// OutageHold is nil for the default.
	OutageHold *time.Duration `json:",omitempty"`
	// UnreadyAfter is nil for DefaultUnreadyAfter, and 0 if unready instances are not reported.
	UnreadyAfter *time.Duration `json:"-"`
	Guard        Guard
	// Victims determines which instances a scale-down removes first. If it is empty, the platform
	// chooses.
	Victims drain.Order
	// Drain is nil if instances are not drained.
	Drain *Drain
	// Spec is validated and has defaults applied.
	Spec policy.Spec
	// Inputs lists the inputs of Spec.Metrics in the same order.
	Inputs []Input
	// Labels contains the target's labels that define the autoscaler, or nil if the autoscaler is
	// defined in a file.
	Labels   map[string]string
	Warnings []Error `json:"-"`
	// Written is the table as written. For labels it contains all values as strings.
	Written Written `json:"-"`
}

// PortLabel returns the port label that the target's endpoints use, or "".
func (a *Autoscaler) PortLabel() string {
	if a.Endpoints == nil {
		return ""
	}
	return a.Endpoints.Port
}

// Input describes where the value of one metric comes from.
type Input struct {
	// Source is the name of a source, or empty if the fleet provides the samples.
	Source string
	// Query is sent to the source, or it is the formula of a metric that is computed from the
	// others.
	Query string
	// Select selects the series with these label values, sorted by name. If it is empty, all series
	// are selected.
	Select sources.Labels
	// InstanceLabel is the label that identifies the instance of a series.
	InstanceLabel string
	// Match specifies what InstanceLabel contains.
	Match Match
	// Window is the period that each value covers (R27).
	Window time.Duration
	// Valid is the range of valid values. If it is nil, all values are valid.
	Valid *Range `json:",omitempty"`
	// MinSeries is the minimum number of series, or 0 if there is no minimum.
	MinSeries int `json:",omitempty"`
	// MaxAge is the maximum age of a reading in whole seconds, or 0 to use the default of the
	// source or fleet.
	MaxAge time.Duration `json:",omitempty"`
	// EmptyZero treats a result without series as zero instead of a failure.
	EmptyZero bool `json:",omitempty"`
}

// Range is an inclusive range in thousandths.
type Range struct{ Min, Max int64 }

// OnForeignChange is the reaction to a change of the count by another writer.
type OnForeignChange string

// The reactions to a foreign change.
const (
	// AcceptForeignChange continues from the new count, like the HPA.
	AcceptForeignChange OnForeignChange = "accept"
	// RestoreForeignChange immediately restores the previous count within min and max. A count of 0
	// is not changed, because it turns the autoscaler off (R51).
	RestoreForeignChange OnForeignChange = "restore"
)

// Guard defines suspect readings of a target: counts that collapse between two readings although
// hpad wrote nothing. The zero Guard accepts every reading.
type Guard struct {
	// Drop is the share by which a count must fall to be suspect: "1%" to "99%".
	Drop percent `toml:"drop" default:"50%" min:"1%" max:"99%" must:"from \"1%\" to \"99%\""`
	// Confirm is the number of further readings that must confirm a suspect reading: 0 to 100; 0
	// accepts every reading.
	Confirm int32 `toml:"confirm" default:"3" min:"0" max:"100" must:"from 0, which accepts every reading, to 100"`
}

// percent is a share, written as "50%".
type percent int32

// String returns, for example, "50%".
func (p percent) String() string { return strconv.Itoa(int(p)) + "%" }

// TextOf formats a share as a percentage: "30%" for 0.3.
func (percent) TextOf(share float64) string { return percent(math.Round(share * 100)).String() }

// UnmarshalText reads, for example, "50%".
func (p *percent) UnmarshalText(text []byte) error {
	number, ok := strings.CutSuffix(string(text), "%")
	value, err := strconv.ParseInt(number, 10, 32)
	if !ok || err != nil {
		return errors.New(`must be a percentage, such as "50%"`)
	}
	*p = percent(value)
	return nil
}

// guardOf returns the given guard, or the default for the fleet's kind. Only kinds whose platforms
// are known to return incomplete counts have a guard by default.
func guardOf(given *Guard, guarded bool) Guard {
	var g Guard
	switch {
	case given != nil:
		g = *given
	case guarded:
		settings.SetDefaults(&g)
	}
	return g
}

// fleetTable holds the keys that all fleets share, except kind.
type fleetTable struct {
	// Breaker holds all scale-downs of the fleet for its window if the autoscalers together would
	// remove more of the fleet's instances within the window than it allows; by default, there is
	// no breaker. Not with compat = "strict".
	Breaker *Breaker `toml:"breaker" strict:"an HPA ignores other autoscalers"`
}

// fleetFields contains the keys that all fleets share. Keys omits kind, so that messages do not
// suggest it.
var fleetFields = func() settings.Fields {
	fields := settings.FieldsOf(reflect.TypeFor[fleetTable]())
	byKey := map[string]reflect.StructField{kindKey: {}}
	maps.Copy(byKey, fields.ByKey)
	return settings.Fields{Keys: fields.Keys, ByKey: byKey}
}()

// Breaker limits the instances that the autoscalers of a fleet remove together.
type Breaker struct {
	// MaxRemoved is the share of the fleet's instances, "1%" to "100%", rounded up.
	MaxRemoved percent `toml:"max_removed" min:"1%" max:"100%" must:"from \"1%\" to \"100%\""`
	// Window is the period in which removed instances are counted, and for which scale-downs are
	// held: 1m to 24h.
	Window time.Duration `toml:"window" default:"10m" min:"1m" max:"24h" must:"from \"1m\" to \"24h\""`
}

// String returns, for example, "30% in 10m0s".
func (b Breaker) String() string { return fmt.Sprintf("%s in %s", b.MaxRemoved, b.Window) }

// Allows returns the number of instances that may be removed within the window from a fleet with
// the given number of instances.
func (b Breaker) Allows(instances int64) int64 {
	return (instances*int64(b.MaxRemoved) + 99) / 100
}

// readBreaker returns the fleet's breaker, or nil if it is missing or invalid.
func (t *table) readBreaker() *Breaker {
	var given fleetTable
	if raw, ok := t.raw["breaker"]; ok && t.decode("breaker", reflect.ValueOf(&given.Breaker).Elem(), raw) {
		t.checkTags("", &given)
		t.checkStrict(&given)
	}
	return given.Breaker
}
