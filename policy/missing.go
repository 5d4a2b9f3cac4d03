package policy

import (
	"slices"
	"strconv"
	"time"
)

// OnMissing is what a metric proposes once it has failed for a while (deviation:
// upstream's proposes nothing).
type OnMissing struct {
	// AfterSeconds is for how long it has to have failed; at least 1.
	AfterSeconds int32      `json:"after_seconds"`
	Use          MissingUse `json:"use"`
	// Replicas is the count of UseReplicas, 1 to the maximum; else 0.
	Replicas int32 `json:"replicas,omitempty"`
}

// MissingUse is what a metric that failed proposes.
type MissingUse string

// What a metric that failed may propose.
const (
	// UseHold is the present count.
	UseHold MissingUse = "hold"
	// UseLast is what it proposed last; nothing where that is not known.
	UseLast MissingUse = "last"
	// UseMax is the upper bound.
	UseMax MissingUse = "max"
	// UseReplicas is a count of its own.
	UseReplicas MissingUse = "replicas"
)

// MissingMetric is what is remembered of a metric with an OnMissing.
type MissingMetric struct {
	Type   MetricType `json:"type"`
	Name   string     `json:"name"`
	Task   string     `json:"task,omitempty"`
	Object string     `json:"object,omitempty"`
	// FirstFailureTime is since when it has failed; zero when it has not.
	FirstFailureTime time.Time `json:"first_failure_time,omitzero"`
	// Proposal is its last one, for UseLast; nil for others, and before the first.
	Proposal *int32 `json:"proposal,omitempty"`
}

// Fallback is what a metric that failed proposes, or will.
type Fallback struct {
	Use MissingUse `json:"use"`
	// FirstFailureTime is since when it has failed, From is from when it proposes.
	FirstFailureTime time.Time `json:"first_failure_time"`
	From             time.Time `json:"from"`
	// Replicas is what it proposes; nil for UseLast where that is not known.
	Replicas *int32 `json:"replicas,omitempty"`
	// Active reports whether it does already.
	Active bool `json:"active,omitempty"`
}

// metricMissing is the reason of ExternalMetricFallbackActive, and of ScalingActive where
// such a proposal wins. metricFound is that it is over.
const (
	metricMissing = "MetricMissing"
	metricFound   = "MetricFound"
)

// Proposes reports whether the metric has a proposal: it did not fail, or has failed for
// so long that it proposes what its OnMissing says.
func (r *MetricResult) Proposes() bool { return r.Error == "" || r.FallsBack() }

// FallsBack reports whether the proposal is that of an OnMissing.
func (r *MetricResult) FallsBack() bool { return r.Fallback != nil && r.Fallback.Active }

// fallBack follows which metrics fail, and has those that have failed for long enough
// propose what their OnMissing says.
func (p *pass) fallBack() {
	d := &p.decision
	before := d.Memory.Missing
	var next []MissingMetric
	active := ""
	for i := range p.spec.Metrics {
		metric, result := &p.spec.Metrics[i], &d.Metrics[i]
		if metric.OnMissing == nil {
			continue
		}
		next = append(next, p.followMissing(metric, result, rememberedOf(before, next, metric)))
		if fallback := result.Fallback; fallback != nil {
			result.Current.FirstFailureTime = fallback.FirstFailureTime
			d.Status.Metrics[i].FirstFailureTime = fallback.FirstFailureTime
		}
		if result.FallsBack() {
			if active != "" {
				active += "; "
			}
			active += describeOnMissing(metric) + ", proposes " + itoa(result.Proposal) + ": " + result.Error
		}
	}
	if !slices.EqualFunc(before, next, sameMissing) {
		d.Memory.Missing = next
	}
	p.reportFallback(active)
}

// followMissing returns what is remembered of a metric from now on, and fills in what
// it proposes where it fails. At zero replicas an instance that is not there is not a
// metric that fails.
func (p *pass) followMissing(metric *MetricSpec, result *MetricResult, known MissingMetric) MissingMetric {
	use := metric.OnMissing
	if use.Use != UseLast {
		known.Proposal = nil
	}
	switch {
	case result.Error == "":
		known.FirstFailureTime = time.Time{}
		if use.Use == UseLast && (known.Proposal == nil || *known.Proposal != result.Proposal) {
			known.Proposal = new(result.Proposal)
		}
		return known
	case p.decision.CurrentReplicas == 0 && !isWhole(metric):
		known.FirstFailureTime = time.Time{}
		return known
	case known.FirstFailureTime.IsZero():
		known.FirstFailureTime = p.now
	}
	fallback := &Fallback{Use: use.Use, FirstFailureTime: known.FirstFailureTime, From: known.FirstFailureTime.Add(seconds(use.AfterSeconds))}
	switch use.Use {
	case UseHold:
		fallback.Replicas = new(p.decision.CurrentReplicas)
	case UseLast:
		fallback.Replicas = known.Proposal
	case UseMax:
		fallback.Replicas = new(p.spec.MaxReplicas)
	case UseReplicas:
		fallback.Replicas = new(use.Replicas)
	}
	if fallback.Replicas != nil && !p.now.Before(fallback.From) {
		fallback.Active, result.Proposal = true, *fallback.Replicas
	}
	result.Fallback = fallback
	return known
}

// rememberedOf returns what is remembered of a metric. Several of the same name have
// their entries in the order of the spec, of which next has those before.
func rememberedOf(before, next []MissingMetric, metric *MetricSpec) MissingMetric {
	like := MissingMetric{Type: metric.Type, Name: metric.Name, Task: metric.Task, Object: metric.Object}
	earlier := 0
	for i := range next {
		if next[i].sameMetric(&like) {
			earlier++
		}
	}
	for i := range before {
		if !before[i].sameMetric(&like) {
			continue
		}
		if earlier--; earlier < 0 {
			return before[i]
		}
	}
	return like
}

func (m *MissingMetric) sameMetric(other *MissingMetric) bool {
	return m.Type == other.Type && m.Name == other.Name && m.Task == other.Task && m.Object == other.Object
}

func sameMissing(a, b MissingMetric) bool {
	return a.sameMetric(&b) && a.FirstFailureTime.Equal(b.FirstFailureTime) && sameNumber(a.Proposal, b.Proposal)
}

// SameMissing reports whether two memories say the same of metrics that fail.
func (m *Memory) SameMissing(other *Memory) bool {
	return slices.EqualFunc(m.Missing, other.Missing, sameMissing)
}

// forgetMissing ends what is known of metrics that fail, in a pass that does not read
// them: nobody knows whether they go on failing.
func (p *pass) forgetMissing() {
	p.decision.Memory.Missing = nil
	p.reportFallback("")
}

// reportFallback sets ExternalMetricFallbackActive, and adds an event when that begins
// and ends. An autoscaler none of whose metrics ever fell back does not have it.
func (p *pass) reportFallback(active string) {
	before := findCondition(p.status.Conditions, ExternalMetricFallbackActive)
	was := before != nil && before.Status == ConditionTrue
	switch {
	case active != "":
		if !was {
			p.warn(string(ExternalMetricFallbackActive), active)
		}
		p.set(ExternalMetricFallbackActive, ConditionTrue, metricMissing, active)
	case was:
		const over = "no metric proposes what its on_missing says any more"
		p.decision.Events = append(p.decision.Events, Event{Kind: NormalEvent, Reason: metricFound, Message: over})
		p.set(ExternalMetricFallbackActive, ConditionFalse, metricFound, over)
	}
}

// describeOnMissing names the on_missing of a metric in a message.
func describeOnMissing(metric *MetricSpec) string {
	use := string(metric.OnMissing.Use)
	if metric.OnMissing.Use == UseReplicas {
		use += ":" + itoa(metric.OnMissing.Replicas)
	}
	return "on_missing (" + use + ") of " + describeMetric(metric) + ", which has failed for " + strconv.Itoa(int(metric.OnMissing.AfterSeconds)) + " s or longer"
}
