package live

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/daemon/explain"
	"github.com/hpad/hpad/daemon/kinds"
	"github.com/hpad/hpad/daemon/observe"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/sources/embedded"
	"github.com/hpad/hpad/targets"
)

// queryKey identifies a query to a source.
type queryKey struct {
	source, text string
	maxAge       time.Duration
}

type queryResult struct {
	found *observe.Response
	err   error
	// age is the age of the newest samples; 0 if it is unknown.
	age time.Duration
}

// checkAutoscaler reports findings about the target and the metrics of an autoscaler.
func (c *checker) checkAutoscaler(a *config.Autoscaler) {
	key := "autoscalers." + a.Name
	reading, read := c.checkTarget(key+".target", a)
	target := &observe.Target{
		Ref: a.Target, Reading: &reading, Strict: c.config.Daemon.Strict(), Scale: c.clock.Scale(), Observed: c.clock.Now(),
	}
	for i := range a.Spec.Metrics {
		if err := observe.HasTask(&a.Spec.Metrics[i], reading.Instances); err != nil {
			c.problem(fmt.Sprintf("%s.metrics[%d].task", key, i), err.Error())
		}
		// Metrics that the fleet measures would need two readings.
		if a.Inputs[i].Source != "" {
			c.checkMetric(fmt.Sprintf("%s.metrics[%d]", key, i), &a.Spec.Metrics[i], a.Inputs[i], target, read)
		}
	}
}

// checkTarget reports findings about a target. It returns the target's reading, and false if the
// target could not be read.
func (c *checker) checkTarget(key string, a *config.Autoscaler) (reading targets.Reading, read bool) {
	ref := a.Target
	fleet := c.snapshots[ref.Fleet]
	if fleet.err != nil {
		return reading, false // the error is already reported for the fleet
	}
	reading, read = fleet.readings[ref]
	switch {
	case !read:
		c.problem(key, fmt.Sprintf("%s: the fleet did not return it", ref))
	case reading.Err != nil:
		c.problem(key, fmt.Sprintf("%s: %v", ref, reading.Err))
		return reading, false
	case kinds.Fleets[c.config.Fleets[ref.Fleet].Kind].Hosted:
		c.note(key, fmt.Sprintf("%s: starts with %s", ref, explain.Replicas(reading.SpecReplicas)))
		c.checkInstances(key, ref, reading.Notices)
	default:
		text := fmt.Sprintf("%s: %s desired, %d running", ref, explain.Replicas(reading.SpecReplicas), reading.StatusReplicas)
		if reading.Hold != nil {
			text += "; held: " + reading.Hold.Reason + ": " + reading.Hold.Message
		}
		c.note(key, text)
		c.checkInstances(key, ref, reading.Notices)
	}
	return reading, read
}

// checkInstances reports instances that cannot start or stop.
func (c *checker) checkInstances(key string, ref targets.Ref, notices []policy.Notice) {
	failing := kinds.Fleets[c.config.Fleets[ref.Fleet].Kind].Failing
	for _, notice := range notices {
		if slices.Contains(failing, notice.Condition) {
			c.problem(key, fmt.Sprintf("%s: %s, %s: %s", ref, notice.Condition, notice.Reason, notice.Message))
		}
	}
}

// checkMetric reports the result of a metric's query. It interprets the result in the same way as
// the daemon.
func (c *checker) checkMetric(key string, metric *policy.MetricSpec, in config.Input, target *observe.Target, read bool) {
	result := c.results[queryKey{in.Source, in.Query, in.MaxAge}]
	_, untestable := errors.AsType[*embedded.UntestableError](result.err)
	switch {
	case untestable:
		c.note(key, fmt.Sprintf("%s %s: not tested: %v", metric.Type, metric.Name, result.err))
		return
	case result.err != nil:
		c.problem(key, result.err.Error())
		return
	}
	for _, warning := range slices.Concat(result.found.Vector.Warnings, result.found.Vector.Infos) {
		c.note(key, "warning of the source: "+warning)
	}
	selection := observe.NewInput(&config.Input{Select: in.Select})
	series := len(slices.Collect(selection.Selected(result.found)))
	text := fmt.Sprintf("%s %s: %s", metric.Type, metric.Name, explain.Plural(series, "series"))
	perInstance := metric.Type != policy.ExternalMetric && metric.Type != policy.ObjectMetric
	if perInstance && (!read || len(target.Reading.Instances) == 0) && series > 0 {
		c.note(key, text+"; the target has no instances to compare with")
		return
	}
	input := observe.NewInput(&in)
	reading, err := target.Queried(metric, &input, result.found)
	switch {
	case err != nil:
		c.problem(key, err.Error())
		return
	case series == 0 && in.EmptyZero:
		text += ", which is treated as 0"
	case series == 0:
		c.problem(key, "the query returns no series")
		return
	case metric.Type == policy.ObjectMetric:
		text += " with the value " + explain.ValueText(metric, *reading.ValueMilli)
	case metric.Type == policy.ExternalMetric:
		text += ", total " + explain.ValueText(metric, policy.ExternalTotal(metric, reading.ValuesMilli))
	default:
		var values []int64
		for _, sample := range reading.Samples {
			if sample.OK {
				values = append(values, sample.Milli)
			}
		}
		text += fmt.Sprintf(", for %d of %s", len(values), explain.Plural(len(target.Reading.Instances), "instance"))
		if len(values) > 0 {
			text += fmt.Sprintf(", values from %s to %s", explain.ValueText(metric, slices.Min(values)), explain.ValueText(metric, slices.Max(values)))
		}
	}
	if result.age > 0 {
		text += ", age " + result.age.Round(time.Second/10).String()
	}
	c.note(key, text)
}
