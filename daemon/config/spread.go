package config

import (
	"maps"
	"slices"
)

// servicesKey is the table of a fleet that may be spread over files.
const servicesKey = "services"

// servicesOf returns the services of a fleet's table, and reports whether it has nothing
// else and so is a part of the fleet of another file.
func (t *table) servicesOf() (services map[string]any, alone bool) {
	services, ok := t.raw[servicesKey].(map[string]any)
	return services, ok && len(t.raw) == 1
}

// spread brings the tables together that two files have of one fleet, the earlier first,
// and returns the one that has the fleet's own keys. It is nil where both have some, or
// something else than services in their place. A service of both is recorded.
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

// docOf returns the document that a key below the table is in.
func (t *table) docOf(key string) *document {
	for part, doc := range t.parts {
		if isWithin(key, part) {
			return doc
		}
	}
	return t.doc
}
