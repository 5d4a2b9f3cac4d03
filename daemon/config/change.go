package config

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/hpad/hpad/daemon/notify"
	"github.com/hpad/hpad/settings"
)

// Change is something that two configurations do not have alike.
type Change struct {
	// Key is that of a table that only one of them has, as "autoscalers.web", or of a
	// value, as "autoscalers.web.max_replicas".
	Key string `json:"key"`
	// Before and After are the values as they would be written, without what may be
	// secret; empty where there is none, and for whole tables.
	Before string `json:"before,omitempty"`
	After  string `json:"after,omitempty"`
	// Kind is "added", "removed" or "changed".
	Kind ChangeKind `json:"kind"`
	// NextStart reports whether it takes effect at the next start only.
	NextStart bool `json:"next_start,omitempty"`
	// Note is what else that means, as a clause; empty for nothing.
	Note string `json:"note,omitempty"`
}

// ChangeKind is what became of a key.
type ChangeKind string

// The kinds of changes.
const (
	Added   ChangeKind = "added"
	Removed ChangeKind = "removed"
	Changed ChangeKind = "changed"
)

// String returns the change in one line, as "~ autoscalers.web.max_replicas: 5 -> 8".
func (c Change) String() string {
	text := map[ChangeKind]string{Added: "+ ", Removed: "- ", Changed: "~ "}[c.Kind] + c.Key
	switch {
	case c.Before != "" && c.After != "" && c.Before != c.After:
		text += ": " + c.Before + " -> " + c.After
	case c.Before != "" && c.After != "":
		text += ": another value"
	case c.Before+c.After != "":
		text += ": " + c.Before + c.After
	case c.Kind == Changed:
		text += ": a value that is not shown"
	}
	if c.NextStart {
		text += " (at the next start)"
	}
	if c.Note != "" {
		text += ": " + c.Note
	}
	return text
}

// TableKey returns the key of the table of a fleet, or of an autoscaler where that is not
// empty.
func TableKey(fleet, autoscaler string) string {
	if autoscaler != "" {
		return join(autoscalersKey, autoscaler)
	}
	return join(fleetsKey, fleet)
}

// Changes returns what another configuration has otherwise, in the order of keys: tables
// of fleets, sources, receivers and autoscalers that are added or removed as one each,
// and the keys of those that both have.
func (c *Config) Changes(next *Config) []Change {
	fields := settings.FieldsOf(reflect.TypeFor[Daemon]())
	changes := diffTables(daemonKey, tableOf(c.Daemon), tableOf(next.Daemon))
	for i := range changes {
		key, _, _ := strings.Cut(strings.TrimPrefix(changes[i].Key, daemonKey+"."), ".")
		changes[i].NextStart = fields.ByKey[key].Tag.Get("next_start") == "true"
	}
	for _, change := range diffTables(haKey, haTable(c.HA), haTable(next.HA)) {
		change.NextStart = true
		changes = append(changes, change)
	}
	changes = append(changes, diffSection(fleetsKey, c.Fleets, next.Fleets, Fleet.table)...)
	changes = append(changes, diffSection(sourcesKey, c.Sources, next.Sources, func(s Source) map[string]any { return writtenKind(s.Kind, s.Config) })...)
	changes = append(changes, diffSection(notifyKey, c.Notifications, next.Notifications, func(c notify.Config) map[string]any { return tableOf(c) })...)
	return append(changes, diffSection(autoscalersKey, c.Autoscalers, next.Autoscalers, func(a *Autoscaler) map[string]any { return tableOf(a.table()) })...)
}

// diffSection compares the tables of a section by their names. Only those that are not
// the same are written out.
func diffSection[T any](section string, before, after map[string]T, table func(T) map[string]any) []Change {
	names := maps.Clone(after)
	if names == nil {
		names = map[string]T{}
	}
	maps.Copy(names, before)
	var changes []Change
	for _, name := range slices.Sorted(maps.Keys(names)) {
		was, had := before[name]
		is, has := after[name]
		switch {
		case !had:
			changes = append(changes, Change{Key: join(section, name), Kind: Added})
		case !has:
			changes = append(changes, Change{Key: join(section, name), Kind: Removed})
		case !reflect.DeepEqual(was, is):
			found := diffTables(join(section, name), table(was), table(is))
			if len(found) == 0 { // it is in what is never shown
				found = []Change{{Key: join(section, name), Kind: Changed}}
			}
			changes = append(changes, found...)
		}
	}
	return changes
}

// diffTables compares tables key by key.
func diffTables(path string, before, after map[string]any) []Change {
	names := maps.Clone(after)
	if names == nil {
		names = map[string]any{}
	}
	maps.Copy(names, before)
	var changes []Change
	for _, name := range slices.Sorted(maps.Keys(names)) {
		was, is := before[name], after[name]
		if reflect.DeepEqual(was, is) {
			continue
		}
		wasTable, isTable := tableIn(was), tableIn(is)
		if wasTable != nil && isTable != nil {
			changes = append(changes, diffTables(join(path, name), wasTable, isTable)...)
			continue
		}
		change := Change{Key: join(path, name), Kind: Changed, Before: shownValue(name, was), After: shownValue(name, is)}
		switch {
		case was == nil:
			change.Kind = Added
		case is == nil:
			change.Kind = Removed
		}
		changes = append(changes, change)
	}
	return changes
}

func tableIn(value any) map[string]any {
	table, _ := value.(map[string]any)
	return table
}

// longestShown bounds a value that is shown, in bytes.
const longestShown = 200

// shownValue returns a value as it would be written, without what may be secret.
func shownValue(key string, value any) string {
	if value == nil || tableIn(value) != nil {
		return ""
	}
	text := textOf(withoutSecrets(key, value))
	if len(text) > longestShown {
		return strings.ToValidUTF8(text[:longestShown], "") + "…"
	}
	return text
}

// textOf writes a value in one line.
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
	case map[string]any: // in an array
		var parts []string
		for _, name := range slices.Sorted(maps.Keys(value)) {
			parts = append(parts, name+" = "+textOf(value[name]))
		}
		return "{ " + strings.Join(parts, ", ") + " }"
	}
	return fmt.Sprint(value)
}
