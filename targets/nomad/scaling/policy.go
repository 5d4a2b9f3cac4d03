// Package scaling converts the scaling policies of nomad-autoscaler to the keys of autoscalers.
// [Policy.Convert] gives the same result for a policy in a file and for the scaling block of a job.
package scaling

import (
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"time"
)

// Policy is a scaling policy in the form of Nomad's API.
type Policy struct {
	// Type is "horizontal" for a task group, or "cluster" for nodes. Empty means horizontal.
	Type string
	// Job, Group and Namespace are the target of a horizontal policy.
	Job, Group, Namespace string
	Min, Max              *int64
	// Enabled is true if the policy does not say otherwise.
	Enabled bool
	// Body is the policy block. A block with a label is a list of maps from the label to a list with
	// the content of the block.
	Body map[string]any
}

// Cluster is the type of policies for nodes.
const Cluster = "cluster"

const horizontal = "horizontal"

// Autoscaler is an autoscaler with the decisions of a policy.
type Autoscaler struct {
	Min, Max int32
	// SyncPeriod is 0 for the default.
	SyncPeriod time.Duration
	Metrics    []Metric
	Up, Down   Rules
	// Notes describe differences from nomad-autoscaler.
	Notes []Note
}

// Metric is a metric of an autoscaler. Empty fields are omitted.
type Metric struct {
	Type, Name, Resource, Source, Query string
	Value, AverageValue                 string
	AverageUtilization                  int32
	// Notes describe differences of the metric.
	Notes []string
}

// Rules limit the changes in one direction.
type Rules struct {
	// StabilizationWindow is 0 for the default.
	StabilizationWindow time.Duration
	// Tolerance is a number such as "0.01".
	Tolerance string
	// Instances is the largest change within Period.
	Instances int32
	Period    time.Duration
}

// Note describes what differs from nomad-autoscaler.
type Note struct {
	Text string
	// Choice is set if an operator should choose between two settings. Open is set if there is no
	// setting yet, so that the autoscaler is not valid.
	Choice, Open bool
}

// Open returns the open notes.
func (a *Autoscaler) Open() (open []Note) {
	for _, note := range a.Notes {
		if note.Open {
			open = append(open, note)
		}
	}
	return open
}

// Labels returns the autoscaler as labels without the prefix of labels.
func (a *Autoscaler) Labels() map[string]string {
	labels := map[string]string{"enable": "true", "min": itoa(a.Min), "max": itoa(a.Max)}
	set := func(key, value string) {
		if value != "" && value != "0" && value != "0s" {
			labels[key] = value
		}
	}
	set("sync_period", a.SyncPeriod.String())
	for i := range a.Metrics {
		m, at := &a.Metrics[i], "metrics."+strconv.Itoa(i)+"."
		set(at+"type", m.Type)
		set(at+"name", m.Name)
		set(at+"resource", m.Resource)
		set(at+"source", m.Source)
		set(at+"query", m.Query)
		set(at+"value", m.Value)
		set(at+"average_value", m.AverageValue)
		set(at+"average_utilization", itoa(m.AverageUtilization))
	}
	for at, rules := range map[string]*Rules{"behavior.scale_up.": &a.Up, "behavior.scale_down.": &a.Down} {
		labels[at+"tolerance"] = rules.Tolerance
		set(at+"stabilization_window", rules.StabilizationWindow.String())
		labels[at+"policies.0.type"] = "Instances"
		labels[at+"policies.0.value"] = itoa(rules.Instances)
		labels[at+"policies.0.period"] = rules.Period.String()
	}
	return labels
}

func itoa(n int32) string { return strconv.Itoa(int(n)) }

// block is the content of a block with a label.
type block struct {
	label  string
	fields map[string]any
}

// blocks iterates over the blocks with labels in a list, by label in each element.
func blocks(list any) iter.Seq[block] {
	return func(yield func(block) bool) {
		elements, _ := list.([]any)
		for _, element := range elements {
			labeled, _ := element.(map[string]any)
			for _, label := range slices.Sorted(maps.Keys(labeled)) {
				content, _ := labeled[label].([]any)
				if len(content) != 1 {
					continue
				}
				if fields, ok := content[0].(map[string]any); ok && !yield(block{label, fields}) {
					return
				}
			}
		}
	}
}

// Target returns the label and the keys of the policy's target block, or an empty string.
func (p *Policy) Target() (label string, keys map[string]string) {
	keys = map[string]string{}
	for b := range blocks(p.Body["target"]) {
		for key := range b.fields {
			keys[key] = b.text(key)
		}
		return b.label, keys
	}
	return "", keys
}

// text returns the value of a key as text, or an empty string.
func (b *block) text(key string) string { return textOf(b.fields[key]) }

func textOf(value any) string {
	switch value := value.(type) {
	case nil:
		return ""
	case string:
		return value
	case float64:
		return strconv.FormatFloat(value, 'f', -1, 64)
	case json.Number:
		return value.String()
	}
	return fmt.Sprint(value)
}
