package config

import (
	"reflect"
	"slices"
	"strings"

	"github.com/hpad/hpad/settings"
)

var daemonFields = settings.FieldsOf(reflect.TypeFor[Daemon]())

// Affected returns the changes that can change decisions, by autoscaler. Keys in the table of an
// autoscaler are relative to it.
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
			if change.Key == join(daemonKey, periodKey) && !inherited { // the autoscaler has its own period
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
		for _, tables := range []string{join(fleet, "services"), join(fleet, "templates")} { // tables with an entry for each target
			if key != tables && isWithin(key, tables) {
				return isWithin(key, join(tables, a.Target.Name))
			}
		}
		return true
	}
	return slices.ContainsFunc(a.Inputs, func(in Input) bool { return in.Source != "" && isWithin(key, join(sourcesKey, in.Source)) })
}
