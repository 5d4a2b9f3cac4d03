package policy

import (
	"slices"
	"strconv"
	"time"
)

// OnMissing configures the fallback for a metric that has failed for some time (deviation).
type OnMissing struct {
	// AfterSeconds is the time between the first failure and the fallback, at least 1.
	AfterSeconds int32      `json:"after_seconds"`
	Use          MissingUse `json:"use"`
	// Replicas is the count for UseReplicas, 1 to the maximum; otherwise 0.
	Replicas int32 `json:"replicas,omitempty"`
}

// MissingUse selects the proposal of a failed metric.
type MissingUse string

// The proposals of a failed metric.
const (
	// UseHold proposes the current count.
	UseHold MissingUse = "hold"
	// UseLast repeats the last proposal. If there is none, the metric has no proposal.
	UseLast MissingUse = "last"
	// UseMax proposes the upper bound.
	UseMax MissingUse = "max"
	// UseReplicas proposes a fixed count.
	UseReplicas MissingUse = "replicas"
)

// MissingMetric is the stored state of a metric with OnMissing.
type MissingMetric struct {
	Type   MetricType `json:"type"`
	Name   string     `json:"name"`
	Task   string     `json:"task,omitempty"`
	Object string     `json:"object,omitempty"`
	// FirstFailureTime is when the metric began to fail; zero if it does not fail.
	FirstFailureTime time.Time `json:"first_failure_time,omitzero"`
	// Proposal is the last proposal of a metric with UseLast; otherwise nil.
	Proposal *int32 `json:"proposal,omitempty"`
}

// Fallback is the current or future proposal of a failed metric.
type Fallback struct {
	Use MissingUse `json:"use"`
	// FirstFailureTime is when the metric began to fail, and From is when the proposal becomes
	// active.
	FirstFailureTime time.Time `json:"first_failure_time"`
	From             time.Time `json:"from"`
	// Replicas is nil if Use is UseLast and there is no last proposal.
	Replicas *int32 `json:"replicas,omitempty"`
	// Active reports whether the proposal is used.
	Active bool `json:"active,omitempty"`
}

// metricMissing and metricFound are the reasons in the condition ExternalMetricFallbackActive.
const (
	metricMissing = "MetricMissing"
	metricFound   = "MetricFound"
)

// Proposes reports whether the metric has a proposal, its own or a fallback.
func (r *MetricResult) Proposes() bool { return r.Error == "" || r.FallsBack() }

// FallsBack reports whether the proposal is a fallback.
func (r *MetricResult) FallsBack() bool { return r.Fallback != nil && r.Fallback.Active }

// fallBack applies the fallbacks of failed metrics.
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
		next = append(next, p.followMissing(metric, result, storedMissing(before, next, metric)))
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

// followMissing updates the stored state of a metric and sets its fallback. At zero replicas,
// missing instances are not a failure.
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

// storedMissing returns the stored state of a metric. Metrics with the same name are matched in the
// order of the spec; next contains the state of the preceding metrics.
func storedMissing(before, next []MissingMetric, metric *MetricSpec) MissingMetric {
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

// SameMissing reports whether two memories have the same state of failed metrics.
func (m *Memory) SameMissing(other *Memory) bool {
	return slices.EqualFunc(m.Missing, other.Missing, sameMissing)
}

// forgetMissing resets all failures after a pass that does not read metrics.
func (p *pass) forgetMissing() {
	p.decision.Memory.Missing = nil
	p.reportFallback("")
}

// reportFallback sets ExternalMetricFallbackActive, with an event for each change. The
// condition is absent before the first fallback.
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
		const over = "no on_missing fallback is active"
		p.decision.Events = append(p.decision.Events, Event{Kind: NormalEvent, Reason: metricFound, Message: over})
		p.set(ExternalMetricFallbackActive, ConditionFalse, metricFound, over)
	}
}

func describeOnMissing(metric *MetricSpec) string {
	use := string(metric.OnMissing.Use)
	if metric.OnMissing.Use == UseReplicas {
		use += ":" + itoa(metric.OnMissing.Replicas)
	}
	return "on_missing (" + use + ") of " + describeMetric(metric) + ", which has failed for " + strconv.Itoa(int(metric.OnMissing.AfterSeconds)) + " s or longer"
}
