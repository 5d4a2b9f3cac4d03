package config

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
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
	changes := compare(c.tables(), next.tables())
	for i := range changes {
		section, key, _ := strings.Cut(changes[i].Key, ".")
		key, _, _ = strings.Cut(key, ".")
		changes[i].NextStart = section == haKey || section == daemonKey && daemonFields.ByKey[key].Tag.Get("next_start") == "true"
	}
	return changes
}

// comparedTable is one table of a configuration.
type comparedTable struct {
	// value equals the value of an equal table.
	value any
	tree  func() any
}

// sections are in the order of changes.
var sections = []string{daemonKey, haKey, fleetsKey, sourcesKey, notifyKey, autoscalersKey}

// tables returns the tables of the configuration by key.
func (c *Config) tables() map[string]comparedTable {
	all := make(map[string]comparedTable, len(c.Autoscalers)+len(c.Fleets)+len(c.Sources))
	add := func(key string, value any, written func() map[string]any) {
		all[key] = comparedTable{value, func() any { return treeOf("", written()) }}
	}
	add(daemonKey, c.Daemon, func() map[string]any { return tableOf(c.Daemon) })
	add(haKey, c.HA, func() map[string]any { return haTable(c.HA) })
	for name, fleet := range c.Fleets {
		add(join(fleetsKey, name), fleet, fleet.table)
	}
	for name, source := range c.Sources {
		add(join(sourcesKey, name), source, func() map[string]any { return writtenKind(source.Kind, source.Config) })
	}
	for name, receiver := range c.Notifications {
		add(join(notifyKey, name), receiver, func() map[string]any { return tableOf(receiver) })
	}
	for name, a := range c.Autoscalers {
		add(join(autoscalersKey, name), a, func() map[string]any { return tableOf(a.table()) })
	}
	return all
}

// compare compares tables. Only tables that are not alike are written out.
func compare(before, after map[string]comparedTable) []Change {
	var keys []string
	for key, is := range after {
		if was, had := before[key]; !had || !reflect.DeepEqual(was.value, is.value) {
			keys = append(keys, key)
		}
	}
	for key := range before {
		if _, stays := after[key]; !stays {
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, func(a, b string) int {
		return cmp.Or(slices.Index(sections, sectionOf(a))-slices.Index(sections, sectionOf(b)), strings.Compare(a, b))
	})
	var changes []Change
	for _, key := range keys {
		was, had := before[key]
		is, has := after[key]
		switch {
		case !had:
			changes = append(changes, Change{Key: key, Kind: Added})
		case !has:
			changes = append(changes, Change{Key: key, Kind: Removed})
		default:
			found := diff(key, was.tree(), is.tree())
			if len(found) == 0 && was.value != nil { // in values that are not shown
				found = []Change{{Key: key, Kind: Changed}}
			}
			changes = append(changes, found...)
		}
	}
	return changes
}

func sectionOf(key string) string {
	section, _, _ := strings.Cut(key, ".")
	return section
}

// diff compares two trees. A table or an array that only one of them has is one change.
func diff(path string, before, after any) []Change {
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
		return []Change{{Key: path, Kind: kind, Before: shownLeaf(before), After: shownLeaf(after)}}
	}
	names := maps.Clone(are)
	maps.Copy(names, were)
	var changes []Change
	for _, name := range slices.Sorted(maps.Keys(names)) {
		changes = append(changes, diff(name, were[name], are[name])...)
	}
	return changes
}

// branches returns the values of a table or an array by their paths; nil for a leaf.
func branches(path string, tree any) map[string]any {
	var found map[string]any
	switch tree := tree.(type) {
	case map[string]any:
		found = make(map[string]any, len(tree))
		for name := range tree {
			found[join(path, name)] = tree[name]
		}
	case []any:
		found = make(map[string]any, len(tree))
		for i := range tree {
			found[element(path, i)] = tree[i]
		}
	}
	return found
}

// treeOf returns a written value as tables and arrays of tables. Its leaves are texts
// without secrets.
func treeOf(key string, value any) any {
	switch value := value.(type) {
	case nil:
		return nil
	case map[string]any:
		tree := make(map[string]any, len(value))
		for name := range value {
			tree[name] = treeOf(name, value[name])
		}
		return tree
	case []any:
		if len(value) > 0 && tableIn(value[0]) != nil {
			tree := make([]any, len(value))
			for i := range value {
				tree[i] = treeOf(key, value[i])
			}
			return tree
		}
	}
	shown, whole := textOf(withoutSecrets(key, value)), textOf(value)
	if shown == whole {
		return shown
	}
	// The sum reveals that a secret changed. It is too short to find the secret by trial.
	sum := sha256.Sum256([]byte(whole))
	return shown + sumMark + hex.EncodeToString(sum[:2])
}

// sumMark separates the text of a leaf from the sum of its secrets.
const sumMark = "\x00"

func tableIn(value any) map[string]any {
	table, _ := value.(map[string]any)
	return table
}

// longestShown bounds a value that is shown, in bytes.
const longestShown = 200

// shownLeaf returns the text of a leaf, shortened; empty for a table.
func shownLeaf(tree any) string {
	text, _ := tree.(string)
	text, _, _ = strings.Cut(text, sumMark)
	return Shortened(text)
}

// Shortened returns at most longestShown bytes of a text.
func Shortened(text string) string {
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
	case secretText:
		return fmt.Sprintf("%q", string(value))
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
