package config

import (
	"bytes"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"

	"github.com/hpad/hpad/daemon/redact"
	"github.com/hpad/hpad/settings"
	"github.com/hpad/hpad/settings/quantity"
)

// Redacted returns the configuration in force as TOML, its defaults filled in.
// What may be secret is replaced: values of headers and environment variables, of
// keys named like a password, token or secret (their files are named), and whatever
// package redact hides in commands, queries and URLs.
func (c *Config) Redacted() string {
	daemon, fleets, sources, autoscalers := tableOf(c.Daemon), map[string]any{}, map[string]any{}, map[string]any{}
	put(daemon, "allowed_hosts", slices.Concat([]string{}, c.Daemon.AllowedHosts)) // which says something where it is empty
	for name, fleet := range c.Fleets {
		fleets[name] = writtenKind(fleet.Kind, fleet.Config)
	}
	for name, source := range c.Sources {
		sources[name] = writtenKind(source.Kind, source.Config)
	}
	for name, a := range c.Autoscalers {
		autoscalers[name] = tableOf(a.table())
	}
	whole := map[string]any{daemonKey: daemon, fleetsKey: fleets, sourcesKey: sources, autoscalersKey: autoscalers}
	var text bytes.Buffer
	encoder := toml.NewEncoder(&text)
	encoder.Indent = ""
	if err := encoder.Encode(withoutSecrets("", whole)); err != nil {
		return fmt.Sprintf("# the configuration cannot be written as TOML: %v\n", err)
	}
	return text.String()
}

// writtenKind returns a fleet's, source's or drain's table as it would be written.
func writtenKind(kind string, config any) map[string]any {
	table := tableOf(config)
	table[kindKey] = kind
	return table
}

// tableOf returns a struct as the table of its keys, as they would be written.
func tableOf(config any) map[string]any {
	table, ok := written(reflect.ValueOf(config)).(map[string]any)
	if !ok {
		table = map[string]any{}
	}
	return table
}

// written returns a decoded value as it would be written, and nil for what can
// be left out: nil and empty tables and arrays.
func written(value reflect.Value) any {
	value = reflect.Indirect(value)
	switch {
	case !value.IsValid():
		return nil
	case settings.IsValue(value.Type()):
		return settings.Written(value)
	}
	table := map[string]any{}
	switch value.Kind() {
	case reflect.Interface:
		return written(value.Elem())
	case reflect.Slice:
		var array []any
		for i := range value.Len() {
			if element := written(value.Index(i)); element != nil {
				array = append(array, element)
			}
		}
		if array == nil {
			return nil
		}
		return array
	case reflect.Map:
		for _, key := range value.MapKeys() {
			put(table, key.String(), written(value.MapIndex(key)))
		}
	case reflect.Struct:
		for key, field := range settings.FieldsOf(value.Type()).ByKey {
			inner, err := value.FieldByIndexErr(field.Index)
			if err != nil || inner.IsZero() && strings.HasSuffix(field.Tag.Get("toml"), ",omitempty") {
				continue
			}
			put(table, key, written(inner))
		}
	}
	if len(table) == 0 {
		return nil
	}
	return table
}

// put adds a key unless its value can be left out.
func put(table map[string]any, key string, value any) {
	if value != nil {
		table[key] = value
	}
}

// table returns the autoscaler as [autoscalers.NAME] would say it.
func (a Autoscaler) table() autoscalerTable {
	target := map[string]any{"name": a.Target.Name}
	if a.target != nil {
		target = tableOf(a.target)
	}
	requests := map[string]quantity.OrNumber{}
	for _, request := range a.Requests {
		requests[request.Resource] = quantity.OfMilli(request.Milli)
	}
	maps.Copy(target, tableOf(targetTable{Fleet: a.Target.Fleet, Requests: requests}))
	t := autoscalerTable{Target: target, Victims: a.Victims, scalingTable: scalingTable{
		MinReplicas: a.Spec.MinReplicas, MaxReplicas: a.Spec.MaxReplicas, SyncPeriod: &a.SyncPeriod,
		OnForeignChange: a.OnForeignChange, Initialization: a.Initialization,
	}}
	if a.Guard.Drop != 0 { // as in a configuration that was read
		t.Guard = &a.Guard
	}
	if a.Drain != nil {
		t.Drain = writtenKind(a.Drain.Kind, a.Drain.Config)
		maps.Copy(t.Drain, tableOf(a.Drain))
	}
	for i, metric := range a.Spec.Metrics {
		var in Input
		if i < len(a.Inputs) {
			in = a.Inputs[i]
		}
		t.Metrics = append(t.Metrics, metricTableOf(metric, in))
	}
	if b := a.Spec.Behavior; b != nil {
		t.Behavior = &behaviorTable{ScaleUp: rulesTableOf(b.ScaleUp), ScaleDown: rulesTableOf(b.ScaleDown)}
	}
	return t
}

// hidden are the tables whose values are never shown, whatever their keys.
var hidden = []string{"headers", "env", "environment"}

// isSecret reports whether the value at a path may be secret. Names of files are
// not.
func isSecret(path string) bool {
	parent, last := cutLast(path)
	for {
		outer, key := cutLast(parent)
		if parentOf(outer) == "" { // a name that people chose, or a top-level table
			break
		}
		if slices.Contains(hidden, key) {
			return true
		}
		parent = outer
	}
	return redact.Named(last)
}

// withoutSecrets returns a written value with what may be secret replaced.
func withoutSecrets(path string, value any) any {
	switch value := value.(type) {
	case map[string]any:
		table := make(map[string]any, len(value))
		for _, key := range slices.Sorted(maps.Keys(value)) {
			table[key] = withoutSecrets(join(path, key), value[key])
		}
		return table
	case []any:
		return withoutSecretElements(path, value)
	case string:
		if value != "" && isSecret(path) {
			return redact.Mark
		}
		return redact.Text(value)
	}
	return value
}

// withoutSecretElements returns an array with what may be secret replaced. One of
// texts may be a command.
func withoutSecretElements(path string, elements []any) []any {
	array := make([]any, len(elements))
	texts := make([]string, len(elements))
	for i := range elements {
		texts[i], _ = elements[i].(string)
	}
	arguments := redact.Arguments(texts)
	for i := range elements {
		_, isText := elements[i].(string)
		switch {
		case isText && texts[i] != "" && isSecret(path):
			array[i] = redact.Mark
		case isText:
			array[i] = arguments[i]
		default:
			array[i] = withoutSecrets(path, elements[i])
		}
	}
	return array
}
