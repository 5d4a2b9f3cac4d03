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

// Redacted returns the active configuration as TOML, with defaults and without secrets. It removes
// the values of headers, environment variables and keys with secret names, except file names. It
// also removes secrets from commands, queries and URLs.
func (c *Config) Redacted() string {
	daemon, fleets, sources, autoscalers, notifications := tableOf(c.Daemon), map[string]any{}, map[string]any{}, map[string]any{}, map[string]any{}
	put(daemon, "allowed_hosts", slices.Concat([]string{}, c.Daemon.AllowedHosts)) // an empty list differs from an omitted one
	put(daemon, "writers", slices.Concat([]string{}, c.Daemon.Writers))
	for name, fleet := range c.Fleets {
		fleets[name] = fleet.table()
	}
	for name, source := range c.Sources {
		sources[name] = writtenKind(source.Kind, source.Config)
	}
	for name, a := range c.Autoscalers {
		autoscalers[name] = tableOf(a.table())
	}
	for name, receiver := range c.Notifications {
		notifications[name] = tableOf(receiver)
	}
	whole := map[string]any{daemonKey: daemon, fleetsKey: fleets, sourcesKey: sources, autoscalersKey: autoscalers, notifyKey: notifications}
	put(whole, haKey, written(reflect.ValueOf(c.HA)))
	return encoded(whole)
}

func haTable(ha *HA) map[string]any {
	if ha == nil {
		return map[string]any{}
	}
	return tableOf(ha)
}

// Redacted returns the autoscaler's table in the same form as Config.Redacted.
func (a *Autoscaler) Redacted(name string) string {
	return encoded(map[string]any{autoscalersKey: map[string]any{name: tableOf(a.table())}})
}

func encoded(whole map[string]any) string {
	var text bytes.Buffer
	encoder := toml.NewEncoder(&text)
	encoder.Indent = ""
	if err := encoder.Encode(withoutSecrets("", whole)); err != nil {
		return fmt.Sprintf("# the configuration cannot be written as TOML: %v\n", err)
	}
	return text.String()
}

// table returns [fleets.NAME] as TOML values.
func (f Fleet) table() map[string]any {
	table := writtenKind(f.Kind, f.Config)
	maps.Copy(table, tableOf(fleetTable{f.Breaker}))
	return table
}

func writtenKind(kind string, config any) map[string]any {
	table := tableOf(config)
	table[kindKey] = kind
	return table
}

// tableOf converts a struct to a table of TOML values.
func tableOf(config any) map[string]any {
	table, ok := written(reflect.ValueOf(config)).(map[string]any)
	if !ok {
		table = map[string]any{}
	}
	return table
}

// written converts a decoded value to a TOML value. It returns nil for nil and for empty tables and
// arrays.
func written(value reflect.Value) any {
	value = reflect.Indirect(value)
	switch {
	case !value.IsValid():
		return nil
	case value.Type() == reflect.TypeFor[secretText](): // part of a table that was already converted
		return value.Interface()
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
			shown := written(inner)
			if texts, ok := shown.(map[string]any); ok && field.Tag.Get("secret") == "true" {
				for name, text := range texts {
					texts[name] = secretText(fmt.Sprint(text))
				}
			}
			put(table, key, shown)
		}
	}
	if len(table) == 0 {
		return nil
	}
	return table
}

// secretText is the value of a key with the tag secret. withoutSecrets replaces it.
type secretText string

func put(table map[string]any, key string, value any) {
	if value != nil {
		table[key] = value
	}
}

// table returns [autoscalers.NAME] as TOML values.
func (a *Autoscaler) table() autoscalerTable {
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
		MinReplicas: a.Spec.MinReplicas, MaxReplicas: a.Spec.MaxReplicas, SyncPeriod: &a.SyncPeriod, Mode: a.Mode,
		OnForeignChange: a.OnForeignChange, Initialization: a.Initialization,
	}}
	if a.Guard.Drop != 0 { // zero if the guard was neither given nor defaulted
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

// withoutSecrets returns a TOML value without secrets.
func withoutSecrets(key string, value any) any {
	switch value := value.(type) {
	case map[string]any:
		table := make(map[string]any, len(value))
		for name := range value {
			table[name] = withoutSecrets(name, value[name])
		}
		return table
	case []any:
		return withoutSecretElements(key, value)
	case string:
		return redact.Value(key, value)
	case secretText:
		return redact.Value("secret", string(value))
	}
	return value
}

// withoutSecretElements returns an array without secrets. An array of strings may be a command.
func withoutSecretElements(key string, elements []any) []any {
	array := make([]any, len(elements))
	texts := make([]string, len(elements))
	for i := range elements {
		texts[i], _ = elements[i].(string)
	}
	arguments := redact.Arguments(texts)
	for i := range elements {
		array[i] = withoutSecrets(key, elements[i])
		if _, isText := elements[i].(string); isText && !redact.Named(key) {
			array[i] = arguments[i]
		}
	}
	return array
}
