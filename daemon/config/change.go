package config

import (
	"cmp"
	"encoding/json"
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

// Changes returns the changes from c to next, sorted by section and key. Keys that take effect only
// at startup are compared with started, the configuration with which the daemon started. If a whole
// fleet, source, receiver or autoscaler was added or removed, its table is one change.
func (c *Config) Changes(started, next *Config) []Change {
	changes := compare(c.tables(), next.tables())
	changes = slices.DeleteFunc(changes, func(change Change) bool { return change.NextStart })
	for _, change := range compare(started.Written, next.Written) {
		if change.NextStart {
			changes = append(changes, change)
		}
	}
	slices.SortFunc(changes, func(a, b Change) int {
		return cmp.Or(slices.Index(sections, sectionOf(a.Key))-slices.Index(sections, sectionOf(b.Key)), strings.Compare(a.Key, b.Key))
	})
	return changes
}

// sections lists the sections in the order in which changes are reported.
var sections = []string{daemonKey, haKey, fleetsKey, sourcesKey, notifyKey, autoscalersKey}

func sectionOf(key string) string {
	section, _, _ := strings.Cut(key, ".")
	return section
}

// Written is a table as written in the files, without defaults, in JSON with sorted keys.
type Written string

// WrittenOf returns the Written form of a decoded table.
func WrittenOf(table map[string]any) Written {
	text, _ := json.Marshal(table) // fails only for values that the decoder rejects
	return Written(text)
}

// table returns the values of the table. Each value is a string, a bool, a json.Number, a []any or
// a map[string]any.
func (w Written) table() map[string]any {
	table := map[string]any{}
	decoder := json.NewDecoder(strings.NewReader(string(w)))
	decoder.UseNumber()
	_ = decoder.Decode(&table) // empty for a configuration that was not read from files
	return table
}

// tables returns all tables by path.
func (c *Config) tables() map[string]Written {
	all := make(map[string]Written, len(c.Written)+len(c.Autoscalers)+len(c.Fleets)+len(c.Sources))
	maps.Copy(all, c.Written)
	for name := range c.Fleets {
		all[join(fleetsKey, name)] = c.Fleets[name].Written
	}
	for name := range c.Sources {
		all[join(sourcesKey, name)] = c.Sources[name].Written
	}
	for name, a := range c.Autoscalers {
		all[join(autoscalersKey, name)] = a.Written
	}
	return all
}

// compare returns the changes between two sets of tables.
func compare(before, after map[string]Written) []Change {
	var changes []Change
	all := make(map[string]Written, len(after))
	maps.Copy(all, before)
	maps.Copy(all, after)
	for key := range all {
		was, had := before[key]
		is, has := after[key]
		switch {
		case had == has || key == daemonKey || key == haKey:
			if was != is {
				changes = append(changes, diff(key, display(key, was), display(key, is))...)
			}
		case has:
			changes = append(changes, Change{Key: key, Kind: Added})
		default:
			changes = append(changes, Change{Key: key, Kind: Removed})
		}
	}
	for i := range changes {
		section, key, _ := strings.Cut(changes[i].Key, ".")
		key, _, _ = strings.Cut(key, ".")
		changes[i].NextStart = section == haKey || section == daemonKey && daemonFields.ByKey[key].Tag.Get("next_start") == "true"
	}
	return changes
}

// displayed is a value together with its form without secrets.
type displayed struct{ value, shown any }

func display(path string, written Written) displayed {
	_, name := cutLast(path)
	table := written.table()
	return displayed{table, withoutSecrets(name, table)}
}

// diff compares two values. A table or an array of tables that exists on only one side is reported
// as one change.
func diff(path string, before, after displayed) []Change {
	if reflect.DeepEqual(before.value, after.value) {
		return nil
	}
	were, are := before.branches(path), after.branches(path)
	if were == nil || are == nil {
		kind := Changed
		switch {
		case before.value == nil:
			kind = Added
		case after.value == nil:
			kind = Removed
		}
		return []Change{{Key: path, Kind: kind, Before: before.text(), After: after.text()}}
	}
	names := maps.Clone(are)
	maps.Copy(names, were)
	var changes []Change
	for name := range names {
		changes = append(changes, diff(name, were[name], are[name])...)
	}
	return changes
}

// branches returns the elements of a table or an array of tables by path, or nil for other values.
func (d displayed) branches(path string) map[string]displayed {
	var found map[string]displayed
	switch value := d.value.(type) {
	case map[string]any:
		shown, _ := d.shown.(map[string]any)
		found = make(map[string]displayed, len(value))
		for name := range value {
			found[join(path, name)] = displayed{value[name], shown[name]}
		}
	case []any:
		shown, _ := d.shown.([]any)
		for i := range value {
			if _, ofTables := value[i].(map[string]any); !ofTables {
				return nil
			}
			if found == nil {
				found = make(map[string]displayed, len(value))
			}
			found[element(path, i)] = displayed{value[i], shown[i]}
		}
	}
	return found
}

// text returns the value as shortened text without secrets, or "" for a table.
func (d displayed) text() string {
	if d.value == nil || d.branches("") != nil {
		return ""
	}
	return shortened(textOf(d.shown))
}

// longestShown is the maximum length of a shown value in bytes.
const longestShown = 200

// shortened truncates a text to at most longestShown bytes.
func shortened(text string) string {
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
// autoscaler's own table are relative to the table.
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
		change.Key = shortened(strings.TrimPrefix(change.Key, table+"."))
		affected[name] = append(affected[name], change)
	}
	for name, a := range autoscalers {
		for _, change := range shared {
			if a.dependsOn(change.Key) {
				change.Key = shortened(change.Key)
				affected[name] = append(affected[name], change)
			}
		}
	}
	return affected
}

// targetTables lists the tables of a fleet that have one entry per target.
var targetTables = []string{"services", "templates"}

// dependsOn reports whether a key outside the autoscaler's table can change its decisions.
func (a *Autoscaler) dependsOn(key string) bool {
	fleet := join(fleetsKey, a.Target.Fleet)
	switch name, ofDaemon := strings.CutPrefix(key, daemonKey+"."); {
	case ofDaemon && name == periodKey:
		_, own := a.Written.table()[periodKey]
		return !own
	case ofDaemon:
		return daemonFields.ByKey[name].Tag.Get("decides") == "true"
	case isWithin(key, fleet):
		for _, name := range targetTables {
			tables := join(fleet, name)
			if key != tables && isWithin(key, tables) {
				return isWithin(key, join(tables, a.Target.Name))
			}
		}
		return true
	}
	return slices.ContainsFunc(a.Inputs, func(in Input) bool { return in.Source != "" && isWithin(key, join(sourcesKey, in.Source)) })
}
