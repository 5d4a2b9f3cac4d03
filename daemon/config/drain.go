package config

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/hpad/hpad/settings"

	"github.com/hpad/hpad/daemon/kinds"
	"github.com/hpad/hpad/targets/drain"
)

// Drain is how the work of instances is taken away before they are removed.
type Drain struct {
	// Kind is "nomad", "webhook" or "command".
	Kind string
	// Deadline is how long it may take, OnDeadline what happens then.
	Deadline   time.Duration
	OnDeadline drain.Expiry
	// Interval is how often it is asked whether an instance is drained.
	Interval time.Duration
	// Config is the kind's own table, defaulted and valid.
	Config drain.Config
}

// drainTable is what every drain has, whatever its kind.
type drainTable struct {
	// Kind is "nomad", "webhook" or "command".
	Kind string `toml:"kind"`
	// Deadline is how long it may take; more than 0.
	Deadline *time.Duration `toml:"deadline"`
	// OnDeadline says what happens then: the instance is removed with what it has
	// left, or gets its work back.
	OnDeadline drain.Expiry `toml:"on_deadline"`
	// Interval is how often it is asked whether an instance is through; at least 1s.
	Interval *time.Duration `toml:"interval"`
}

// drainFields are the keys of every drain.
var drainFields = settings.FieldsOf(reflect.TypeFor[drainTable]())

// readDrain decodes and validates the drain of an autoscaler.
func (t *table) readDrain(raw map[string]any, a *Autoscaler) {
	if raw == nil {
		if a.Victims == drain.EmptyNomadNodes && !slices.Contains(t.misfits, "drain") {
			t.addWritten("victims", `needs drain = { kind = "nomad", … }, which names the nodes`)
		}
		return
	}
	t.checkRemoves("drain", a)
	var whole drainTable
	t.decodeKeys("drain", raw, reflect.ValueOf(&whole).Elem(), nil, func(name string) bool { return !drainFields.Has(name) })
	kind := t.readDrainKind(whole.Kind, raw)
	d := &Drain{Kind: whole.Kind, Deadline: drain.DefaultDeadline, OnDeadline: drain.Terminate, Interval: drain.DefaultInterval, Config: kind}
	t.readDrainTimes(whole, d)
	if a.Victims == drain.EmptyNomadNodes && !kinds.Drains[whole.Kind].Counts && !slices.Contains(t.misfits, "drain.kind") {
		t.addWritten("victims", `needs drain = { kind = "nomad", … }, which names the nodes`)
	}
	if kind != nil {
		a.Drain = d
	}
}

// readDrainTimes validates what every drain has.
func (t *table) readDrainTimes(given drainTable, d *Drain) {
	if given.Deadline != nil {
		if d.Deadline = *given.Deadline; d.Deadline <= 0 {
			t.addWritten("drain.deadline", `must be more than 0, as "15m"`)
		}
	}
	if given.Interval != nil {
		if d.Interval = *given.Interval; d.Interval < time.Second {
			t.addWritten("drain.interval", "must be at least 1s")
		}
	}
	if given.OnDeadline != "" {
		d.OnDeadline = given.OnDeadline
		if given.OnDeadline != drain.Terminate && given.OnDeadline != drain.Undo {
			t.addWritten("drain.on_deadline", fmt.Sprintf("must be %q or %q", drain.Terminate, drain.Undo))
		}
	}
}

// readDrainKind decodes and validates the part of a drain that is its kind's; nil
// means that it is mistaken.
func (t *table) readDrainKind(name string, raw map[string]any) drain.Config {
	found, ok := kinds.Drains[name]
	if !ok {
		detail := "must be one of " + strings.Join(slices.Sorted(maps.Keys(kinds.Drains)), ", ")
		if name == "" {
			t.add("drain.kind", "", "is required and "+detail)
		} else {
			t.addWritten("drain.kind", detail)
		}
		return nil
	}
	kind := found.Config()
	to := reflect.ValueOf(kind).Elem()
	t.decodeKeys("drain", raw, to, slices.Concat(drainFields.Keys, settings.FieldsOf(to.Type()).Keys), drainFields.Has)
	kind.SetDefaults()
	mistakes := kind.Validate()
	t.addFields("drain", mistakes)
	if len(mistakes) > 0 || !t.checkDrainFleet(kind) {
		return nil
	}
	return kind
}

// checkDrainFleet reports whether the fleet that a drain names, if any, is one of the
// kind it drains by.
func (t *table) checkDrainFleet(given drain.Config) bool {
	namer, ok := given.(drain.FleetNamer)
	if !ok {
		return true
	}
	name, kind := namer.DrainFleet()
	if !t.loader.knownFleet(t, "drain.fleet", name) {
		return false
	}
	if other := kindOfTable(t.loader.fleets[name]); other != kind {
		t.addWritten("drain.fleet", fmt.Sprintf("must be a fleet of kind %q, not %q", kind, other))
		return false
	}
	return true
}

// written answers the drain as it would be written.
func (d *Drain) written() map[string]any {
	table := writtenKind(d.Kind, d.Config)
	table["deadline"] = writtenSpan(d.Deadline)
	table["interval"] = writtenSpan(d.Interval)
	table["on_deadline"] = string(d.OnDeadline)
	return table
}
