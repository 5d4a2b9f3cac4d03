package live

import (
	"fmt"
	"slices"

	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/settings/quantity"
	"github.com/hpad/hpad/sources"
	"github.com/hpad/hpad/targets"
)

// question is one query to one source.
type question struct{ source, text string }

// answer is what came back.
type answer struct {
	vector sources.Vector
	err    error
	// untried is set when the source could not be asked without starting it.
	untried bool
}

// checkAutoscaler tells what an autoscaler would see.
func (c *checker) checkAutoscaler(a config.Autoscaler) {
	key := "autoscalers." + a.Name
	reading, read := c.checkTarget(key, a.Target)
	for i, metric := range a.Spec.Metrics {
		in := a.Inputs[i]
		if in.Source == "" {
			continue // the fleet's own samples, which take a while to gather
		}
		c.checkMetric(fmt.Sprintf("%s.metrics[%d]", key, i), metric, in, reading, read)
	}
}

// checkTarget tells what reading the target answered; read says whether it could
// be read.
func (c *checker) checkTarget(key string, ref targets.Ref) (reading targets.Reading, read bool) {
	answered := c.readings[ref.Fleet]
	if answered.err != nil {
		return reading, false // told with the fleet
	}
	reading, read = answered.readings[ref]
	switch {
	case !read:
		c.problem(key+".target", fmt.Sprintf("%s: the fleet's answer does not mention it", ref))
	case reading.Err != nil:
		c.problem(key+".target", fmt.Sprintf("%s: %v", ref, reading.Err))
		return reading, false
	default:
		text := fmt.Sprintf("%s wants %s and has %d", ref, count(int(reading.SpecReplicas), "replica"), reading.StatusReplicas)
		if reading.Hold != nil {
			text += "; it is held by the platform: " + reading.Hold.Reason + ": " + reading.Hold.Message
		}
		c.note(key+".target", text)
	}
	return reading, read
}

// checkMetric tells what a metric's query answered and whether the metric could
// be computed of it.
func (c *checker) checkMetric(key string, metric policy.MetricSpec, in config.Input, reading targets.Reading, read bool) {
	answered := c.answers[question{in.Source, in.Query}]
	if answered.err == nil {
		c.checkRanges(key, in)
	}
	switch {
	case answered.untried:
		return
	case answered.err != nil:
		c.problem(key, answered.err.Error())
		return
	}
	for _, warning := range answered.vector.Warnings {
		c.note(key, "the source warns: "+warning)
	}
	series := selected(answered.vector.Series, in.Select)
	if len(series) == 0 {
		text := "the query answers no series"
		if all := len(answered.vector.Series); all > 0 {
			text = fmt.Sprintf("the query answers %d series, none of which has the labels of select", all)
		}
		c.problem(key, text)
		return
	}
	total, err := sum(series)
	if err != nil {
		c.problem(key, err.Error())
		return
	}
	found := fmt.Sprintf("%s %s: %s", metric.Type, metric.Name, count(len(series), "series"))
	switch metric.Type {
	case policy.ExternalMetric:
		c.note(key, found+", which add up to "+quantity.FormatMilli(total))
	case policy.ObjectMetric:
		if len(series) > 1 {
			c.problem(key, fmt.Sprintf("the query answers %d series for one object; aggregate them or select one", len(series)))
			return
		}
		c.note(key, found+" of value "+quantity.FormatMilli(total))
	default:
		c.checkJoin(key, found, in, series, reading, read)
	}
}

// selected answers the series whose labels have the given values.
func selected(series []sources.Series, labels map[string]string) []sources.Series {
	var found []sources.Series
	for _, s := range series {
		fits := true
		for name, value := range labels {
			fits = fits && s.Labels.Get(name) == value
		}
		if fits {
			found = append(found, s)
		}
	}
	return found
}

// sum adds values in milli-units; one that is no amount is an error.
func sum(series []sources.Series) (int64, error) {
	var total int64
	for _, s := range series {
		milli, err := sources.Milli(s.Value)
		if err != nil {
			return 0, fmt.Errorf("series %s: %w", s.Labels, err)
		}
		total += milli
	}
	return total, nil
}

// checkJoin tells how many of the target's instances have a series of their own.
func (c *checker) checkJoin(key, found string, in config.Input, series []sources.Series, reading targets.Reading, read bool) {
	bearers := map[string]int{}
	for _, s := range series {
		if value := s.Labels.Get(in.InstanceLabel); value != "" {
			bearers[value]++
		}
	}
	if len(bearers) == 0 {
		c.problem(key, fmt.Sprintf("none of %d series has the label %q of instance_label", len(series), in.InstanceLabel))
		return
	}
	if !read || len(reading.Instances) == 0 {
		c.note(key, fmt.Sprintf("%s of %s; the target has no instances now to compare with", found, count(len(bearers), "instance")))
		return
	}
	joined := 0
	for i, instance := range reading.Instances {
		of := 0
		for _, name := range in.Match.Names(&reading, i) {
			of += bearers[name]
		}
		if of > 1 {
			c.problem(key, fmt.Sprintf("the query answers %d series for instance %s; aggregate them by the instance label", of, instance.ID))
			return
		}
		joined += of
	}
	if joined == 0 {
		c.problem(key, fmt.Sprintf("no series is of an instance of the target: the label %q holds %q and the like, and the instances' %s are %q and the like",
			in.InstanceLabel, least(bearers), plural(in.Match), in.Match.Names(&reading, 0)))
		return
	}
	c.note(key, fmt.Sprintf("%s, for %d of %s", found, joined, count(len(reading.Instances), "instance")))
}

// plural names what a match compares with.
func plural(match config.Match) string {
	switch match {
	case config.MatchName:
		return "names"
	case config.MatchAddress:
		return "addresses"
	}
	return "ids"
}

// least answers the first key in order.
func least(counts map[string]int) string {
	keys := make([]string, 0, len(counts))
	for key := range counts {
		keys = append(keys, key)
	}
	return slices.Min(keys)
}
