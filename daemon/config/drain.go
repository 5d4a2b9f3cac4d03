package config

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/hpad/hpad/daemon/kinds"
	"github.com/hpad/hpad/settings"
	"github.com/hpad/hpad/targets/drain"
)

// Drain moves work away from instances before they are removed.
type Drain struct {
	// Kind is "nomad", "webhook" or "command".
	Kind string `toml:"kind"`
	// Deadline is the time limit of a drain; more than 0.
	Deadline time.Duration `toml:"deadline" default:"15m" above:"0s" must:"more than 0, such as \"15m\""`
	// OnDeadline is the action at the deadline: "terminate" removes the instance with its remaining
	// work, "undo" undoes the drain.
	OnDeadline drain.Expiry `toml:"on_deadline" default:"terminate" values:"terminate undo"`
	// Interval is the time between two checks whether an instance is drained; at least 1s.
	Interval time.Duration `toml:"interval" default:"5s" min:"1s"`
	// Config is the validated configuration of the drain's kind, with defaults applied.
	Config drain.Config `toml:"-"`
}

var drainFields = settings.FieldsOf(reflect.TypeFor[Drain]())

// readDrain decodes and validates the drain of an autoscaler.
func (t *table) readDrain(raw map[string]any, a *Autoscaler) {
	var d Drain
	settings.SetDefaults(&d)
	if raw != nil {
		t.checkRemoves("drain", a)
		t.decodeKeys("drain", raw, reflect.ValueOf(&d).Elem(), nil, func(name string) bool { return !drainFields.Has(name) })
		kind := t.readDrainKind(d.Kind, raw)
		t.checkTags("drain", &d)
		settings.SetDefaults(&d)
		if kind != nil {
			d.Config = kind
			a.Drain = &d
		}
	}
	if a.Victims == drain.EmptyNomadNodes && !kinds.Drains[d.Kind].Counts && !slices.Contains(t.misfits, "drain") && !slices.Contains(t.misfits, "drain.kind") {
		t.addWritten("victims", `requires drain = { kind = "nomad", … }, which identifies the nodes`)
	}
}

// readDrainKind decodes and validates the keys of the drain's kind. It returns nil if they are
// invalid.
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
	if !t.readOwn("drain", raw, drainFields, kind) || !t.checkDrainFleet(kind) {
		return nil
	}
	return kind
}

// checkDrainFleet reports whether a drain uses no fleet, or an existing fleet of the required
// kind. Otherwise it records an error.
func (t *table) checkDrainFleet(given drain.Config) bool {
	namer, ok := given.(drain.FleetNamer)
	if !ok {
		return true
	}
	name, kind := namer.DrainFleet()
	if !t.known("drain.fleet", name, fleetsKey) {
		return false
	}
	if other, _, _ := t.loader.kindOfFleet(name); other != kind {
		t.addWritten("drain.fleet", fmt.Sprintf("must be a fleet of kind %q, not %q", kind, other))
		return false
	}
	return true
}

// readVictims validates the order in which a scale-down removes instances.
func (t *table) readVictims(given drain.Order, a *Autoscaler) {
	a.Victims = given
	if given == "" {
		return
	}
	if !slices.Contains(drain.Orders(), given) {
		var names []string
		for _, order := range drain.Orders() {
			names = append(names, fmt.Sprintf("%q", order))
		}
		t.addWritten("victims", "must be one of "+strings.Join(names, ", "))
		return
	}
	t.checkRemoves("victims", a)
}

// checkRemoves records an error for a key that requires a fleet that can remove instances by name.
func (t *table) checkRemoves(key string, a *Autoscaler) {
	if name, kind, ok := t.loader.kindOfFleet(a.Target.Fleet); ok && !kind.Removes {
		t.add(key, "", fmt.Sprintf("is not allowed for a fleet of kind %q: its platform chooses the instances to remove", name))
	}
}
