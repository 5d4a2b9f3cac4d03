package config

import (
	"maps"
	"slices"
)

// servicesKey is the only table of a fleet that may be in several files.
const servicesKey = "services"

// servicesOf returns the services of a fleet's table, and reports whether the table has no other
// keys, so that it is a part of a fleet in another file.
func (t *table) servicesOf() (services map[string]any, alone bool) {
	services, ok := t.raw[servicesKey].(map[string]any)
	return services, ok && len(t.raw) == 1
}

// spread merges the tables of one fleet from two files, the earlier first, into the one with the
// fleet's own keys. It returns nil if both have such keys, or if services is not a table. It
// records a service that both define.
func spread(earlier, later *table) *table {
	_, alone := later.servicesOf()
	_, first := earlier.servicesOf()
	whole, part := earlier, later
	switch {
	case alone:
	case first:
		whole, part = later, earlier
	default:
		return nil
	}
	if given, present := whole.raw[servicesKey]; !present {
		whole.raw[servicesKey] = map[string]any{}
	} else if _, ok := given.(map[string]any); !ok {
		return nil
	}
	if whole.parts == nil {
		whole.parts = map[string]*document{}
	}
	services, _ := whole.servicesOf()
	added, _ := part.servicesOf()
	for _, name := range slices.Sorted(maps.Keys(added)) {
		key := join(servicesKey, name)
		if _, twice := services[name]; twice {
			later.add(key, "", "is already defined in "+earlier.where(key)+"; a name may occur once")
			continue
		}
		services[name] = added[name]
		whole.parts[key] = part.docOf(key)
	}
	return whole
}

// docOf returns the document with a key of the table.
func (t *table) docOf(key string) *document {
	for part, doc := range t.parts {
		if isWithin(key, part) {
			return doc
		}
	}
	return t.doc
}
