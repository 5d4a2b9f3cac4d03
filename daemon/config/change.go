package config

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/hpad/hpad/settings"
)

// Change is a difference between two configurations.
type Change = settings.Change

// The kinds of changes.
const (
	Added   = settings.Added
	Removed = settings.Removed
	Changed = settings.Changed
)

// TableKey returns the key of the autoscaler's table, or of the fleet's table if autoscaler is
// empty.
func TableKey(fleet, autoscaler string) string {
	if autoscaler != "" {
		return join(autoscalersKey, autoscaler)
	}
	return join(fleetsKey, fleet)
}

// Changes returns the changes from c to next, sorted by key. If a whole fleet, source, receiver or
// autoscaler was added or removed, its table is one change.
func (c *Config) Changes(next *Config) []Change {
	changes := compare(c.tables(), next.tables())
	for i := range changes {
		section, key, _ := strings.Cut(changes[i].Key, ".")
		key, _, _ = strings.Cut(key, ".")
		changes[i].NextStart = section == haKey || section == daemonKey && daemonFields.ByKey[key].Tag.Get("next_start") == "true"
	}
	return changes
}

// comparedTable is a table of a configuration in a form that can be compared.
type comparedTable struct {
	// value compares equal for equal tables.
	value any
	// written returns the table as TOML values.
	written func() map[string]any
}

// sections lists the sections in the order in which changes are reported.
var sections = []string{daemonKey, haKey, fleetsKey, sourcesKey, notifyKey, autoscalersKey}

func (c *Config) tables() map[string]comparedTable {
	all := make(map[string]comparedTable, len(c.Autoscalers)+len(c.Fleets)+len(c.Sources))
	all[daemonKey] = comparedTable{c.Daemon, func() map[string]any { return tableOf(c.Daemon) }}
	all[haKey] = comparedTable{c.HA, func() map[string]any { return haTable(c.HA) }}
	for name, fleet := range c.Fleets {
		all[join(fleetsKey, name)] = comparedTable{fleet, fleet.table}
	}
	for name, source := range c.Sources {
		all[join(sourcesKey, name)] = comparedTable{source, func() map[string]any { return writtenKind(source.Kind, source.Config) }}
	}
	for name, receiver := range c.Notifications {
		all[join(notifyKey, name)] = comparedTable{receiver, func() map[string]any { return tableOf(receiver) }}
	}
	for name, a := range c.Autoscalers {
		all[join(autoscalersKey, name)] = comparedTable{a, func() map[string]any { return tableOf(a.table()) }}
	}
	return all
}

// compare returns the changes between two sets of tables. It converts only tables that differ to
// TOML values.
func compare(before, after map[string]comparedTable) []Change {
	var changes []Change
	for key, is := range after {
		was, had := before[key]
		switch {
		case !had:
			changes = append(changes, Change{Key: key, Kind: Added})
		case !reflect.DeepEqual(was.value, is.value):
			changes = append(changes, diff(key, "", was.written(), is.written())...)
		}
	}
	for key := range before {
		if _, stays := after[key]; !stays {
			changes = append(changes, Change{Key: key, Kind: Removed})
		}
	}
	slices.SortFunc(changes, func(a, b Change) int {
		return cmp.Or(slices.Index(sections, sectionOf(a.Key))-slices.Index(sections, sectionOf(b.Key)), strings.Compare(a.Key, b.Key))
	})
	return changes
}

func sectionOf(key string) string {
	section, _, _ := strings.Cut(key, ".")
	return section
}

// diff compares two values of a key. A table or an array of tables that exists on only one side is
// reported as one change.
func diff(path, key string, before, after any) []Change {
	if reflect.DeepEqual(before, after) {
		return nil
	}
	were, are := branches(path, before), branches(path, after)
	if were == nil || are == nil {
		kind := Changed
		switch {
		case before == nil:
			kind = Added
		case after == nil:
			kind = Removed
		}
		return []Change{{Key: path, Kind: kind, Before: shownValue(key, before), After: shownValue(key, after)}}
	}
	names := maps.Clone(are)
	maps.Copy(names, were)
	var changes []Change
	for _, name := range slices.Sorted(maps.Keys(names)) {
		_, last := cutLast(name)
		if strings.HasPrefix(last, "[") {
			last = key
		}
		changes = append(changes, diff(name, last, were[name], are[name])...)
	}
	return changes
}

// branches returns the elements of a table or an array of tables by path, or nil for other values.
func branches(path string, value any) map[string]any {
	var found map[string]any
	switch value := value.(type) {
	case map[string]any:
		found = make(map[string]any, len(value))
		for name := range value {
			found[join(path, name)] = value[name]
		}
	case []any:
		if _, ofTables := value[0].(map[string]any); !ofTables {
			return nil
		}
		found = make(map[string]any, len(value))
		for i := range value {
			found[element(path, i)] = value[i]
		}
	}
	return found
}

// shownValue returns the value as shortened text without secrets, or "" for a table.
func shownValue(key string, value any) string {
	if value == nil || branches("", value) != nil {
		return ""
	}
	return Shortened(textOf(withoutSecrets(key, value)))
}

// longestShown is the maximum length of a shown value in bytes.
const longestShown = 200

// Shortened cuts a text to at most longestShown bytes.
func Shortened(text string) string {
	if len(text) > longestShown {
		return strings.ToValidUTF8(text[:longestShown], "") + "…"
	}
	return text
}

// textOf formats a value on one line.
func textOf(value any) string {
	switch value := value.(type) {
	case string:
		return fmt.Sprintf("%q", value)
	case []any:
		parts := make([]string, len(value))
		for i := range value {
			parts[i] = textOf(value[i])
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case map[string]any: // an element of an array
		var parts []string
		for _, name := range slices.Sorted(maps.Keys(value)) {
			parts = append(parts, name+" = "+textOf(value[name]))
		}
		return "{ " + strings.Join(parts, ", ") + " }"
	}
	return fmt.Sprint(value)
}

var daemonFields = settings.FieldsOf(reflect.TypeFor[Daemon]())

// Affected returns the changes that can affect decisions, grouped by autoscaler. Keys in the
// autoscaler's own table are relative to that table.
func Affected(changes []Change, autoscalers map[string]*Autoscaler) map[string][]Change {
	affected := map[string][]Change{}
	var shared []Change
	for _, change := range changes {
		table := change.Key
		for parentOf(parentOf(table)) != "" {
			table = parentOf(table)
		}
		section, name := cutLast(table)
		if section != autoscalersKey {
			shared = append(shared, change)
			continue
		}
		change.Key = Shortened(strings.TrimPrefix(change.Key, table+"."))
		affected[name] = append(affected[name], change)
	}
	for name, a := range autoscalers {
		for _, change := range shared {
			inherited := slices.ContainsFunc(affected[name], func(own Change) bool { return own.Key == periodKey })
			if change.Key == join(daemonKey, periodKey) && !inherited { // the autoscaler sets its own period
				continue
			}
			if a.dependsOn(change.Key) {
				change.Key = Shortened(change.Key)
				affected[name] = append(affected[name], change)
			}
		}
	}
	return affected
}

// dependsOn reports whether a key outside the autoscaler's table can change its decisions.
func (a *Autoscaler) dependsOn(key string) bool {
	fleet := join(fleetsKey, a.Target.Fleet)
	switch name, ofDaemon := strings.CutPrefix(key, daemonKey+"."); {
	case ofDaemon:
		return daemonFields.ByKey[name].Tag.Get("decides") == "true"
	case isWithin(key, fleet):
		for _, tables := range []string{join(fleet, "services"), join(fleet, "templates")} { // tables with one entry per target
			if key != tables && isWithin(key, tables) {
				return isWithin(key, join(tables, a.Target.Name))
			}
		}
		return true
	}
	return slices.ContainsFunc(a.Inputs, func(in Input) bool { return in.Source != "" && isWithin(key, join(sourcesKey, in.Source)) })
}
