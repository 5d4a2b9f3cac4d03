package policy

import (
	"slices"
	"time"
)

// Engine is the version of the rules. Another one may decide otherwise on the same
// inputs, or record its decisions in other words: a change that does either raises it.
const Engine = 2

// Inputs are everything that one decision depends on: [Inputs.Decide] makes the same
// of the same inputs for as long as [Engine] is the same.
type Inputs struct {
	Settings    Settings    `json:"settings"`
	Spec        Spec        `json:"spec"`
	Memory      Memory      `json:"memory,omitzero"`
	Status      Status      `json:"status,omitzero"`
	Observation Observation `json:"observation"`
	// Now is the pass's one instant.
	Now time.Time `json:"now"`
	// Meanwhile are pauses that held the decision and began after it was made; empty
	// where none did.
	Meanwhile []Pause `json:"meanwhile,omitempty"`
}

// Decide returns the decision, as [Decide] and then [Decision.HoldBy] do.
func (in *Inputs) Decide() Decision {
	d := Decide(in.Settings, in.Spec, in.Memory, in.Status, in.Observation, in.Now)
	d.HoldBy(in.Meanwhile, in.Now)
	return d
}

// Essential returns the inputs without what has no part in the decision that
// [Decision.Explained] returns, and with less exact times where only their order counts.
// So they take few bytes. The inputs are not modified; the result shares with them what
// did not change.
func (in *Inputs) Essential() Inputs {
	e := *in
	o := &e.Observation
	e.Status, o.Resumed = Status{Conditions: zeroConditions(in.Status.Conditions)}, ""
	if o.ReadError != "" { // R25.1
		e.Memory, o.Instances, o.Metrics = Memory{}, nil, nil
		return e
	}
	var uses instanceUses
	o.Metrics = slices.Clone(o.Metrics)
	for i := range min(len(o.Metrics), len(e.Spec.Metrics)) {
		metric := &e.Spec.Metrics[i]
		grouping := groupingFor(&e.Settings, metric, e.Now)
		uses.add(grouping, metric)
		o.Metrics[i].Samples = grouping.essentialSamples(o.Metrics[i].Samples, in.Observation.Instances)
	}
	o.Instances = slices.Clone(o.Instances)
	for i := range o.Instances {
		uses.reduce(&o.Instances[i])
	}
	return e
}

// zeroConditions returns of the conditions what a decision looks at: whether the
// autoscaler itself went to zero.
func zeroConditions(conditions []Condition) []Condition {
	condition := findCondition(conditions, ScaledToZero)
	if condition == nil {
		return nil
	}
	return []Condition{{Type: condition.Type, Status: condition.Status}}
}

// essentialSamples returns samples without their times, but for those that R27 compares
// with an instance's.
func (g *grouping) essentialSamples(samples []Sample, instances []Instance) []Sample {
	samples = slices.Clone(samples)
	for i := range samples {
		s := &samples[i]
		if !s.OK {
			s.Milli = 0
		}
		if !s.OK || !g.cpu || i >= len(instances) || !instances[i].StartedAt.After(g.initialized) {
			s.At, s.Window = time.Time{}, 0
		}
	}
	return samples
}

// instanceUses are what the metrics of a spec look at in instances, besides their phase
// and readiness.
type instanceUses struct {
	// grouping is that of a cpu metric; nil without one.
	grouping *grouping
	// requested are the metrics that compare usage with requests.
	requested []*MetricSpec
}

func (u *instanceUses) add(grouping grouping, metric *MetricSpec) {
	switch metric.Type {
	case ResourceMetric, ContainerResourceMetric:
		if grouping.cpu {
			u.grouping = &grouping
		}
		if metric.Target.AverageValueMilli == nil && metric.Target.AverageUtilization != nil {
			u.requested = append(u.requested, metric)
		}
	}
}

// reduce removes from an instance what no metric looks at.
func (u *instanceUses) reduce(instance *Instance) {
	lacks := func(metric *MetricSpec) bool {
		_, ok := requestOf(instance, metric)
		return !ok
	}
	if !slices.ContainsFunc(u.requested, lacks) { // else R28 names it
		instance.ID = ""
	}
	if len(u.requested) == 0 {
		instance.Requests, instance.Tasks = nil, nil
	}
	switch {
	case u.grouping == nil:
		instance.StartedAt, instance.ReadinessChanged = time.Time{}, time.Time{}
	case instance.StartedAt.IsZero() || instance.StartedAt.After(u.grouping.initialized) || instance.Readiness == ReadinessFalse:
	default: // how long ago it was ready does not count any more
		instance.StartedAt, instance.ReadinessChanged = u.grouping.initialized, time.Time{}
	}
}
