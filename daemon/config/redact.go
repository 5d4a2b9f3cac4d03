package config

import (
	"bytes"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/BurntSushi/toml"

	"github.com/hpad/hpad/daemon/redact"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/settings"
	"github.com/hpad/hpad/settings/quantity"
)

// Redacted answers the configuration in force as TOML, its defaults filled in.
// What may be secret is replaced: values of headers and environment variables, of
// keys named like a password, token or secret (their files are named), and whatever
// package redact hides in commands, queries and URLs.
func (c *Config) Redacted() string {
	whole := map[string]any{
		daemonKey:      c.Daemon.written(),
		fleetsKey:      map[string]any{},
		sourcesKey:     map[string]any{},
		autoscalersKey: map[string]any{},
	}
	for name, fleet := range c.Fleets {
		whole[fleetsKey].(map[string]any)[name] = writtenKind(fleet.Kind, fleet.Config)
	}
	for name, source := range c.Sources {
		whole[sourcesKey].(map[string]any)[name] = writtenKind(source.Kind, source.Config)
	}
	for name, a := range c.Autoscalers {
		whole[autoscalersKey].(map[string]any)[name] = a.written()
	}
	var text bytes.Buffer
	encoder := toml.NewEncoder(&text)
	encoder.Indent = ""
	if err := encoder.Encode(withoutSecrets("", whole)); err != nil {
		return fmt.Sprintf("# the configuration cannot be written as TOML: %v\n", err)
	}
	return text.String()
}

// written answers [daemon] as it would be written.
func (d Daemon) written() map[string]any {
	compat := ""
	if d.Strict {
		compat = compatStrict
	}
	return map[string]any{
		"listen":                    d.Listen,
		"web_config":                d.WebConfig,
		"allowed_hosts":             slices.Concat([]string{}, d.AllowedHosts),
		"socket":                    d.Socket,
		"socket_group":              d.SocketGroup,
		"state_dir":                 d.StateDir,
		"sync_period":               writtenSpan(d.SyncPeriod),
		"tolerance":                 d.Settings.Tolerance,
		"downscale_stabilization":   writtenSpan(d.Settings.DownscaleStabilization),
		"cpu_initialization_period": writtenSpan(d.Settings.CPUInitializationPeriod),
		"initial_readiness_delay":   writtenSpan(d.Settings.InitialReadinessDelay),
		"scale_to_zero":             d.Settings.ScaleToZero,
		"concurrent_syncs":          d.ConcurrentSyncs,
		"answer_memory":             quantity.FormatBytes(d.AnswerMemory * 1000),
		"query_samples":             d.QuerySamples,
		"compat":                    compat,
	}
}

// writtenKind answers a fleet's or source's table as it would be written.
func writtenKind(kind string, config any) map[string]any {
	table, ok := written(reflect.ValueOf(config)).(map[string]any)
	if !ok {
		table = map[string]any{}
	}
	table[kindKey] = kind
	return table
}

// written answers a decoded value as it would be written, and nil for what can
// be left out: nil and empty tables and arrays.
func written(value reflect.Value) any {
	if !value.IsValid() {
		return nil
	}
	if value.CanInterface() {
		switch known := value.Interface().(type) {
		case time.Duration:
			return writtenSpan(known)
		case fmt.Stringer:
			if value.Kind() != reflect.Pointer {
				return known.String()
			}
		}
	}
	switch value.Kind() {
	case reflect.Pointer, reflect.Interface:
		return written(value.Elem())
	case reflect.Struct:
		return writtenStruct(value)
	case reflect.Map:
		table := map[string]any{}
		for _, key := range value.MapKeys() {
			put(table, key.String(), written(value.MapIndex(key)))
		}
		return orNil(table)
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
	}
	return value.Interface()
}

// writtenStruct answers a struct as the table of its keys.
func writtenStruct(value reflect.Value) any {
	table := map[string]any{}
	for key, field := range settings.FieldsOf(value.Type()).ByKey {
		if inner, err := value.FieldByIndexErr(field.Index); err == nil {
			put(table, key, written(inner))
		}
	}
	return orNil(table)
}

// put adds a key unless its value can be left out.
func put(table map[string]any, key string, value any) {
	if value != nil {
		table[key] = value
	}
}

// orNil answers nil for an empty table.
func orNil(table map[string]any) any {
	if len(table) == 0 {
		return nil
	}
	return table
}

// writtenSpan answers a duration without zero parts: "5m", not "5m0s".
func writtenSpan(span time.Duration) string {
	text := span.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// written answers [autoscalers.NAME] as it would be written.
func (a Autoscaler) written() map[string]any {
	target := map[string]any{"name": a.Target.Name}
	if a.target != nil {
		target, _ = written(reflect.ValueOf(a.target)).(map[string]any)
	}
	table := map[string]any{
		"target":            target,
		"max_replicas":      a.Spec.MaxReplicas,
		"sync_period":       writtenSpan(a.SyncPeriod),
		"on_foreign_change": string(a.OnForeignChange),
	}
	if a.Initialization != nil {
		table["initialization"] = writtenSpan(*a.Initialization)
	}
	if a.Guard.Drop != 0 { // as in a configuration that was read
		table["guard"] = map[string]any{"drop": strconv.Itoa(int(a.Guard.Drop)) + "%", "confirm": a.Guard.Confirm}
	}
	if a.Victims != "" {
		table["victims"] = string(a.Victims)
	}
	if a.Drain != nil {
		table["drain"] = a.Drain.written()
	}
	target["fleet"] = a.Target.Fleet
	requests := map[string]any{}
	for _, request := range a.Requests {
		requests[request.Resource] = quantity.FormatMilli(request.Milli)
	}
	put(target, "requests", orNil(requests))
	if a.Spec.MinReplicas != nil {
		table["min_replicas"] = *a.Spec.MinReplicas
	}
	var metrics []map[string]any
	for i, metric := range a.Spec.Metrics {
		var in Input
		if i < len(a.Inputs) {
			in = a.Inputs[i]
		}
		metrics = append(metrics, writtenMetric(metric, in))
	}
	table["metrics"] = metrics
	if a.Spec.Behavior != nil {
		behavior := map[string]any{}
		put(behavior, "scale_up", writtenRules(a.Spec.Behavior.ScaleUp))
		put(behavior, "scale_down", writtenRules(a.Spec.Behavior.ScaleDown))
		table["behavior"] = behavior
	}
	return table
}

// writtenMetric answers one metric as it would be written.
func writtenMetric(metric policy.MetricSpec, in Input) map[string]any {
	table := map[string]any{"type": string(metric.Type)}
	text := func(key, value string) {
		if value != "" {
			table[key] = value
		}
	}
	if metric.Type == policy.ResourceMetric || metric.Type == policy.ContainerResourceMetric {
		text("resource", metric.Name)
		if in.Source != "" {
			table["window"] = writtenSpan(in.Window)
		}
	} else {
		text("name", metric.Name)
	}
	text("task", metric.Task)
	text("object", metric.Object)
	text("target_type", string(metric.Target.Type))
	if value := metric.Target.ValueMilli; value != nil {
		table["value"] = quantity.FormatMilli(*value)
	}
	if value := metric.Target.AverageValueMilli; value != nil {
		table["average_value"] = quantity.FormatMilli(*value)
	}
	if value := metric.Target.AverageUtilization; value != nil {
		table["average_utilization"] = *value
	}
	text("source", in.Source)
	text("query", in.Query)
	text("instance_label", in.InstanceLabel)
	text("match", string(in.Match))
	if len(in.Select) > 0 {
		table["select"] = written(reflect.ValueOf(in.Select))
	}
	return table
}

// writtenRules answers one direction's rules as they would be written, and nil
// for nil.
func writtenRules(rules *policy.ScalingRules) any {
	if rules == nil {
		return nil
	}
	table := map[string]any{"select_policy": string(rules.SelectPolicy)}
	if window := rules.StabilizationWindowSeconds; window != nil {
		table["stabilization_window"] = writtenSpan(time.Duration(*window) * time.Second)
	}
	if rules.Tolerance != nil {
		table["tolerance"] = *rules.Tolerance
	}
	policies := []map[string]any{}
	for _, p := range rules.Policies {
		policies = append(policies, map[string]any{
			"type":   string(p.Type),
			"value":  p.Value,
			"period": writtenSpan(time.Duration(p.PeriodSeconds) * time.Second),
		})
	}
	table["policies"] = policies
	return table
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
	case []map[string]any:
		array := make([]map[string]any, len(value))
		for i := range value {
			array[i] = withoutSecrets(path, value[i]).(map[string]any)
		}
		return array
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
