// Package draft formats autoscalers as TOML for users to edit. Keys are aligned, in the order of
// the documentation, and have comments.
package draft

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// Autoscaler is an [autoscalers.NAME] table with its inner tables. Empty strings, nil pointers and
// nil slices are omitted from the output.
type Autoscaler struct {
	Name string
	// Notes contains comment lines that precede the table.
	Notes       []string
	Target      Target
	MinReplicas *int32
	MaxReplicas int32
	// SyncPeriod is omitted if it is 0.
	SyncPeriod time.Duration
	// Mode is omitted if it is empty. ModeNote explains it.
	Mode, ModeNote string
	// Combine is a formula over the metrics. Value and AverageValue are its target.
	Combine, Value, AverageValue string
	Metrics                      []Metric
	Behavior                     *Behavior
	Schedules                    []Schedule
}

// Schedule is one [[autoscalers.NAME.schedules]] table. Its windows are given by cron.
type Schedule struct {
	Notes                    []string
	Name, Zone, Cron         string
	Duration                 time.Duration
	MinReplicas, MaxReplicas *int32
}

// Target is the value of the key target.
type Target struct {
	Notes []string
	Fleet string
	// Keys identify the target in its fleet, in order.
	Keys []Key
}

// Key pairs a name with a string value.
type Key struct{ Name, Value string }

// Metric is one [[autoscalers.NAME.metrics]] table.
type Metric struct {
	Notes []string

	Type       string
	Name       string
	Resource   string
	Task       string
	Object     string
	TargetType string
	// Value and AverageValue are quantities.
	Value              string
	AverageValue       string
	AverageUtilization *int32
	// Activation is a quantity.
	Activation string
	Source     string
	Query      string
	Empty      string
	// OnMissing is an inline table.
	OnMissing string
	// Suggested contains the keys that are written as comments.
	Suggested []Key
}

// Behavior is the [autoscalers.NAME.behavior] table. The output contains the table even if it is
// empty, because its presence changes the defaults.
type Behavior struct {
	ScaleUp   *Rules
	ScaleDown *Rules
}

// Rules limit changes in one direction.
type Rules struct {
	StabilizationWindow *time.Duration
	SelectPolicy        string
	// Policies is written unless it is nil.
	Policies []Policy
	// Tolerance is a number or a quoted quantity in TOML, or empty to omit the key.
	Tolerance string
}

// Policy is one scaling policy.
type Policy struct {
	Type   string
	Value  int32
	Period time.Duration
}

// Decisions returns the number of values that the user must still choose.
func (a *Autoscaler) Decisions() (count int) {
	notes := slices.Concat(a.Notes, a.Target.Notes)
	for i := range a.Metrics {
		notes = append(notes, a.Metrics[i].Notes...)
	}
	for i := range a.Schedules {
		notes = append(notes, a.Schedules[i].Notes...)
	}
	for _, note := range notes {
		if strings.HasPrefix(note, Decide) {
			count++
		}
	}
	return count
}

// TOML returns the autoscaler as TOML.
func (a *Autoscaler) TOML() string {
	var p page
	path := "autoscalers." + key(a.Name)
	p.notes(a.Notes)
	if a.ModeNote != "" {
		p.notes([]string{a.ModeNote})
	}
	p.header("[" + path + "]")
	p.notes(a.Target.Notes)
	lines := []line{{name: "target", value: a.Target.toml()}}
	if a.MinReplicas != nil {
		lines = append(lines, line{name: "min_replicas", value: number(*a.MinReplicas)})
	}
	lines = append(lines, line{name: "max_replicas", value: number(a.MaxReplicas)})
	if a.SyncPeriod > 0 {
		lines = append(lines, line{name: "sync_period", value: duration(a.SyncPeriod)})
	}
	lines = append(lines, texts(Key{"mode", a.Mode}, Key{"combine", a.Combine}, Key{"value", a.Value}, Key{"average_value", a.AverageValue})...)
	p.lines(lines)
	for i := range a.Metrics {
		a.Metrics[i].write(&p, path)
	}
	a.Behavior.write(&p, path)
	for i := range a.Schedules {
		a.Schedules[i].write(&p, path)
	}
	return p.String()
}

// texts returns the lines of the keys whose value is not empty.
func texts(keys ...Key) (lines []line) {
	for _, k := range keys {
		if k.Value != "" {
			lines = append(lines, line{name: k.Name, value: text(k.Value)})
		}
	}
	return lines
}

func (t *Target) toml() string {
	var inner []line
	for _, k := range append([]Key{{Name: "fleet", Value: t.Fleet}}, t.Keys...) {
		inner = append(inner, line{name: k.Name, value: text(k.Value)})
	}
	return inline(inner)
}

func (m *Metric) write(p *page, path string) {
	p.blank()
	p.notes(m.Notes)
	p.header("[[" + path + ".metrics]]")
	lines := texts(
		Key{"type", m.Type},
		Key{"name", m.Name},
		Key{"resource", m.Resource},
		Key{"task", m.Task},
		Key{"object", m.Object},
		Key{"source", m.Source},
		Key{"query", m.Query},
		Key{"target_type", m.TargetType},
		Key{"value", m.Value},
		Key{"average_value", m.AverageValue},
		Key{"activation", m.Activation},
		Key{"empty", m.Empty},
	)
	if m.AverageUtilization != nil {
		lines = append(lines, line{name: "average_utilization", value: number(*m.AverageUtilization)})
	}
	if m.OnMissing != "" {
		lines = append(lines, line{name: "on_missing", value: m.OnMissing})
	}
	p.lines(lines)
	for _, k := range m.Suggested {
		p.notes([]string{k.Name + " = " + text(k.Value)})
	}
}

func (s *Schedule) write(p *page, path string) {
	p.blank()
	p.notes(s.Notes)
	p.header("[[" + path + ".schedules]]")
	lines := append(texts(Key{"name", s.Name}, Key{"zone", s.Zone}, Key{"cron", s.Cron}), line{name: "duration", value: duration(s.Duration)})
	if s.MinReplicas != nil {
		lines = append(lines, line{name: "min_replicas", value: number(*s.MinReplicas)})
	}
	if s.MaxReplicas != nil {
		lines = append(lines, line{name: "max_replicas", value: number(*s.MaxReplicas)})
	}
	p.lines(lines)
}

func (b *Behavior) write(p *page, path string) {
	if b == nil {
		return
	}
	path += ".behavior"
	if b.ScaleUp == nil && b.ScaleDown == nil {
		p.blank()
		p.header("[" + path + "]")
	}
	b.ScaleUp.write(p, path+".scale_up")
	b.ScaleDown.write(p, path+".scale_down")
}

func (r *Rules) write(p *page, path string) {
	if r == nil {
		return
	}
	p.blank()
	p.header("[" + path + "]")
	var lines []line
	if r.StabilizationWindow != nil {
		lines = append(lines, line{name: "stabilization_window", value: duration(*r.StabilizationWindow)})
	}
	if r.SelectPolicy != "" {
		lines = append(lines, line{name: "select_policy", value: text(r.SelectPolicy)})
	}
	if r.Tolerance != "" {
		lines = append(lines, line{name: "tolerance", value: r.Tolerance})
	}
	if r.Policies != nil {
		lines = append(lines, line{name: "policies", value: policies(r.Policies)})
	}
	p.lines(lines)
}

// policies returns the policies as an array of inline tables.
func policies(given []Policy) string {
	var elements []string
	for _, policy := range given {
		elements = append(elements, inline([]line{
			{name: "type", value: text(policy.Type)},
			{name: "value", value: number(policy.Value)},
			{name: "period", value: duration(policy.Period)},
		}))
	}
	return array(elements)
}

func number(n int32) string { return strconv.Itoa(int(n)) }
