package config

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/BurntSushi/toml"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/simulate"
)

// Variant is a change of the configuration of an autoscaler that is simulated instead of applied. It
// has either settings or a file.
type Variant struct {
	// Set lists settings such as "metrics[0].average_value=60", with keys of the autoscaler's table.
	Set []string `json:"set,omitempty"`
	// File is the name of a configuration file in messages, and Text is its content. The tables of the
	// autoscaler and of the daemon are used.
	File string `json:"file,omitempty"`
	Text string `json:"text,omitempty"`
}

// Label identifies the variant in results.
func (v *Variant) Label() string {
	if v.File != "" {
		return v.File
	}
	return strings.Join(v.Set, " ")
}

// Varied returns an autoscaler of the configuration with the changes of a variant, and the daemon's
// settings for it. It validates the result like a file or like labels. The error is an [Errors].
func (c *Config) Varied(a *Autoscaler, v *Variant) (*Autoscaler, Daemon, error) {
	varied, daemon, err := c.vary(a, v)
	if err != nil {
		return nil, daemon, err
	}
	if varied.Target != a.Target {
		return nil, daemon, Errors{{Key: join(TableKey("", a.Name), "target"), Detail: "cannot be changed: the load of another target is not recorded"}}
	}
	return varied, daemon, nil
}

func (c *Config) vary(a *Autoscaler, v *Variant) (*Autoscaler, Daemon, error) {
	switch {
	case v.File != "" && a.Labels != nil:
		return nil, c.Daemon, Errors{{File: v.File, Detail: fmt.Sprintf("cannot define autoscaler %q, which labels define: use settings", a.Name)}}
	case v.File != "":
		return c.defined(a.Name, v.File, []byte(v.Text))
	case a.Labels != nil:
		r := newLabelReader(c, a.Target)
		tree, _ := asLabels(a.Written.table()).(map[string]any)
		addDefaultMetric(tree)
		if err := setAll(tree, v.Set); err != nil {
			return nil, c.Daemon, err
		}
		varied, err := r.read(c, a.Target, a.Labels, tree)
		return varied, c.Daemon, err
	}
	tree := a.Written.table()
	addDefaultMetric(tree)
	if err := setAll(tree, v.Set); err != nil {
		return nil, c.Daemon, err
	}
	var text bytes.Buffer
	if err := toml.NewEncoder(&text).Encode(map[string]any{autoscalersKey: map[string]any{a.Name: tree}}); err != nil {
		return nil, c.Daemon, Errors{{Detail: "the settings cannot be written as TOML: " + err.Error()}}
	}
	return c.defined(a.Name, "", text.Bytes())
}

// addDefaultMetric adds the metric of an autoscaler without metrics (R10), so that settings can change it.
func addDefaultMetric(tree map[string]any) {
	if tree[metricsKey] == nil {
		m := &policy.Default(policy.Spec{}).Metrics[0]
		tree[metricsKey] = []any{map[string]any{"type": string(m.Type), "resource": m.Name, "average_utilization": int64(*m.Target.AverageUtilization)}}
	}
}

// defined returns an autoscaler that a text defines for the fleets and sources of the configuration.
// An empty file name omits places from messages.
func (c *Config) defined(name, file string, text []byte) (*Autoscaler, Daemon, error) {
	l := newLoader(context.Background())
	l.parse(file, text)
	next := *c
	if l.daemon != nil {
		next.Daemon = l.readDaemon()
	}
	known := next.loaderOf()
	l.strict = known.strict
	for section, tables := range known.tables {
		maps.Copy(l.tables[section], tables)
	}
	t := l.tables[autoscalersKey][name]
	if t == nil && len(l.errs) == 0 {
		l.errs = append(l.errs, Error{File: file, Key: join(autoscalersKey, name), Detail: "is missing: add the table of the autoscaler"})
	}
	if t != nil {
		if a, ok := t.readAutoscaler(&next); ok && len(l.errs) == 0 {
			return &a, next.Daemon, nil
		}
	}
	return nil, next.Daemon, l.invalid()
}

// asLabels returns a table of labels whose values are decoded like labels.
func asLabels(value any) any {
	switch value := value.(type) {
	case map[string]any:
		for key, inner := range value {
			value[key] = asLabels(inner)
		}
	case string:
		return labelText(value)
	}
	return value
}

// setAll changes values in the table of an autoscaler.
func setAll(tree map[string]any, settings []string) error {
	labels := slices.ContainsFunc(slices.Collect(maps.Values(tree)), func(value any) bool { _, is := value.(labelText); return is })
	for _, setting := range settings {
		key, text, found := strings.Cut(setting, "=")
		path := pathOf(strings.TrimSpace(key))
		if !found || slices.Contains(path, "") || len(path) == 0 {
			return Errors{{Key: setting, Detail: `needs a key, "=" and a value, for example metrics[0].average_value=60 or max_replicas=30`}}
		}
		if _, err := put(tree, path, settingOf(strings.TrimSpace(text), labels)); err != nil {
			return Errors{{Key: strings.TrimSpace(key), Detail: err.Error()}}
		}
	}
	return nil
}

// pathOf splits a path such as "metrics[0].value" into keys and indices.
func pathOf(path string) (parts []string) {
	for path != "" {
		parent, last := cutLast(path)
		parts = append(parts, strings.TrimSuffix(strings.TrimPrefix(last, "["), "]"))
		path = parent
	}
	slices.Reverse(parts)
	return parts
}

// settingOf returns the value of a setting: a TOML value, or else a string, so that a duration such as
// 2m needs no quotes.
func settingOf(text string, labels bool) any {
	var parsed struct{ Value any }
	if err := toml.Unmarshal([]byte("value = "+text), &parsed); err != nil {
		parsed.Value = text
	}
	switch value := parsed.Value.(type) {
	case string:
		text = value
	case time.Time: // schedules contain dates and times as strings
	default:
		if !labels {
			return value
		}
	}
	if labels {
		return labelText(text)
	}
	return text
}

// put sets the value at a path below a node, and returns the node. It adds missing tables, and an
// element at the end of an array.
func put(node any, path []string, value any) (any, error) {
	if len(path) == 0 {
		return value, nil
	}
	key, index := path[0], -1
	if i, err := strconv.Atoi(key); err == nil {
		index = i
	}
	switch inner := node.(type) {
	case nil:
		if index >= 0 {
			return put([]any{}, path, value)
		}
		return put(map[string]any{}, path, value)
	case map[string]any:
		next, err := put(inner[key], path[1:], value)
		inner[key] = next
		return inner, err
	case []any:
		if index < 0 || index > len(inner) {
			return inner, fmt.Errorf("%q is not an index: the array has %d elements, which are numbered from 0", key, len(inner))
		}
		if index == len(inner) {
			inner = append(inner, nil)
		}
		next, err := put(inner[index], path[1:], value)
		inner[index] = next
		return inner, err
	}
	return node, fmt.Errorf("%q cannot be set: %s is not a table", key, describe(node))
}

func describe(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		return "the value"
	}
	return shorten(string(text))
}

// Policy returns the policy of an autoscaler for a simulation. label identifies it in results.
func (a *Autoscaler) Policy(daemon Daemon, label string) simulate.Policy {
	p := simulate.Policy{
		Label: label, Settings: a.Settings(daemon), Spec: a.Spec, SyncPeriod: a.SyncPeriod,
		RestoreForeign: a.OnForeignChange == RestoreForeignChange,
	}
	for _, in := range a.Inputs {
		p.Queries = append(p.Queries, in.Query)
	}
	for i := range a.Schedules {
		p.Schedules = append(p.Schedules, a.Schedules[i].Config)
	}
	return p
}

// defaultOutageHold is the default of outage_hold.
const defaultOutageHold = 10 * time.Minute

// Settings returns the daemon's settings with the autoscaler's overrides.
func (a *Autoscaler) Settings(daemon Daemon) policy.Settings {
	settings := daemon.Settings()
	settings.Mode = a.Mode
	if !daemon.Strict() {
		settings.OutageHold = defaultOutageHold
		if a.OutageHold != nil {
			settings.OutageHold = *a.OutageHold
		}
	}
	if a.Initialization != nil && !daemon.Strict() {
		settings.CPUInitializationPeriod = *a.Initialization
	}
	return settings
}

// WithSettings returns the table of an autoscaler in a configuration, such as the result of
// [Config.Redacted], as TOML with changed settings. It returns false if the configuration does not
// contain the table.
func WithSettings(configuration, name string, set []string) (string, bool, error) {
	var whole struct {
		Autoscalers map[string]map[string]any `toml:"autoscalers"`
	}
	if _, err := toml.Decode(configuration, &whole); err != nil {
		return "", false, fmt.Errorf("read the active configuration: %w", err)
	}
	tree, ok := whole.Autoscalers[name]
	if !ok {
		return "", false, nil
	}
	tree = WrittenOf(tree).table() // as in the other functions, with the types of JSON
	addDefaultMetric(tree)
	if err := setAll(tree, set); err != nil {
		return "", false, err
	}
	text := encoded(map[string]any{autoscalersKey: map[string]any{name: tree}})
	return strings.TrimPrefix(text, "["+autoscalersKey+"]\n"), true, nil // files can contain the header only once
}
