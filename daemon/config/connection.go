package config

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/hpad/hpad/daemon/kinds"
	"github.com/hpad/hpad/daemon/notify"
	"github.com/hpad/hpad/settings"
	"github.com/hpad/hpad/sources"
	"github.com/hpad/hpad/targets"
)

const kindKey = "kind"

// readFleets decodes and validates the fleets. It returns only valid fleets.
func (l *loader) readFleets() map[string]Fleet {
	fleets := make(map[string]Fleet, len(l.tables[fleetsKey]))
	for _, name := range slices.Sorted(maps.Keys(l.tables[fleetsKey])) {
		t := l.tables[fleetsKey][name]
		kind := readKind(t, "fleet", kinds.Fleets, kinds.Omitted())
		breaker := t.readBreaker()
		if kind == "" {
			continue
		}
		c := kinds.Fleets[kind].Config()
		if t.readOwn("", t.raw, fleetFields, c) {
			fleet := Fleet{Name: name, Kind: kind, Breaker: breaker, Config: c, Written: WrittenOf(t.raw)}
			if able, ok := c.(targets.LabelReader); ok {
				fleet.Discover, fleet.LabelLimits = able.Discovers(), able.LimitsLabels()
			}
			fleets[name] = fleet
		}
	}
	return fleets
}

// readSources decodes and validates the sources. It returns only valid sources.
func (l *loader) readSources() map[string]Source {
	read := make(map[string]Source, len(l.tables[sourcesKey]))
	for _, name := range slices.Sorted(maps.Keys(l.tables[sourcesKey])) {
		t := l.tables[sourcesKey][name]
		kind := readKind(t, "source", kinds.Sources, nil)
		if kind == "" {
			continue
		}
		c := kinds.Sources[kind].Config()
		if t.readOwn("", t.raw, sourceFields, c) {
			read[name] = Source{Name: name, Kind: kind, Config: c, Written: WrittenOf(t.raw)}
		}
	}
	return read
}

// readNotifications decodes and validates the receivers. It returns only valid receivers.
func (l *loader) readNotifications() map[string]notify.Config {
	read := make(map[string]notify.Config, len(l.tables[notifyKey]))
	for _, name := range slices.Sorted(maps.Keys(l.tables[notifyKey])) {
		t, c := l.tables[notifyKey][name], notify.Config{}
		if t.readOwn("", t.raw, settings.Fields{}, &c) {
			read[name] = c
		}
	}
	return read
}

// readKind returns the kind of a table, or records an error and returns "" if it is missing or
// unknown. The argument omitted maps the kinds that this build omits to their build tags.
func readKind[K any](t *table, what string, known map[string]K, omitted map[string]string) string {
	names := slices.Sorted(maps.Keys(known))
	names = slices.Sorted(slices.Values(slices.AppendSeq(names, maps.Keys(omitted))))
	allowed := "the kinds of " + what + "s are " + strings.Join(names, ", ")
	given, present := t.raw[kindKey]
	kind, ok := given.(string)
	switch {
	case !present:
		t.add(kindKey, "", "is required: "+allowed)
		return ""
	case !ok:
		t.addWritten(kindKey, "must be a string, not "+settings.KindOf(given))
		return ""
	}
	if _, ok := known[kind]; ok {
		return strings.Clone(kind) // a substring would keep the whole file in memory
	}
	if tag, ok := omitted[kind]; ok {
		t.addWritten(kindKey, fmt.Sprintf("is not part of this build of hpad (tag %s)", tag))
		return ""
	}
	if meant := Nearest(kind, names); meant != "" {
		allowed = fmt.Sprintf("did you mean %q? (%s)", meant, allowed)
	}
	t.addWritten(kindKey, "is not a kind of "+what+"; "+allowed)
	return ""
}

// sourceFields contains the key that all sources have in common. Messages do not suggest it.
var sourceFields = settings.Fields{ByKey: map[string]reflect.StructField{kindKey: {}}}

// checkScrapes checks that the targets that sources scrape exist.
func (l *loader) checkScrapes(c *Config) {
	for _, name := range slices.Sorted(maps.Keys(c.Sources)) {
		source := c.Sources[name]
		evaluator, ok := source.Config.(sources.Evaluator)
		if !ok {
			continue
		}
		for _, s := range evaluator.Scrapes() {
			if s.Fleet == "" || !l.tables[sourcesKey][name].known(under(s.Field, "fleet"), s.Fleet, fleetsKey) {
				continue
			}
			if detail := checkTarget(c.Fleets[s.Fleet], s.Target); detail != "" {
				l.tables[sourcesKey][name].addWritten(under(s.Field, "target"), detail)
			}
		}
	}
}

// kindOfFleet returns the kind of a fleet, or false if the kind is unknown.
func (l *loader) kindOfFleet(fleet string) (name string, kind targets.Kind, ok bool) {
	if t := l.tables[fleetsKey][fleet]; t != nil {
		name, _ = t.raw[kindKey].(string)
	}
	kind, ok = kinds.Fleets[name]
	return name, kind, ok
}

// known reports whether a fleet or source is defined, even if its table has errors. It records an
// error if it is not defined.
func (t *table) known(key, name, section string) bool {
	defined, what := t.loader.tables[section], strings.TrimSuffix(section, "s")
	if defined[name] != nil {
		return true
	}
	if t.loader.incomplete {
		return false
	}
	names := slices.Sorted(maps.Keys(defined))
	if len(names) == 0 {
		t.addWritten(key, fmt.Sprintf("does not exist, and there is no other %s; define [%s.%s]", what, section, name))
		return false
	}
	detail := "does not exist"
	if best := Nearest(name, names); best != "" {
		detail += fmt.Sprintf("; did you mean %q?", best)
	} else {
		detail += "; the configuration defines " + strings.Join(names, ", ")
	}
	t.addWritten(key, detail)
	return false
}

// checkTarget returns the reason why the fleet cannot have this target. It returns "" if the target
// exists or if only the platform can determine that.
func checkTarget(fleet Fleet, name string) string {
	if checker, ok := fleet.Config.(targets.TargetChecker); ok {
		return checker.CheckTarget(name)
	}
	return ""
}
