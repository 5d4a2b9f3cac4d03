package live

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/daemon/explain"
	"github.com/hpad/hpad/daemon/kinds"
	"github.com/hpad/hpad/daemon/observe"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/settings/quantity"
	"github.com/hpad/hpad/sources"
	"github.com/hpad/hpad/targets"
)

// question is one query to one source.
type question struct {
	source, text string
	maxAge       time.Duration
}

// answer is what came back.
type answer struct {
	found *observe.Answer
	err   error
	// untried is set when the source could not be queried without starting it.
	untried bool
}

// checkAutoscaler finds what an autoscaler would see.
func (c *checker) checkAutoscaler(a *config.Autoscaler) {
	key := "autoscalers." + a.Name
	reading, read := c.checkTarget(key, a)
	target := &observe.Target{
		Ref: a.Target, Reading: &reading, Strict: c.config.Daemon.Strict(), Scale: c.clock.Scale(), Observed: c.clock.Now(),
	}
	for i, metric := range a.Spec.Metrics {
		in := a.Inputs[i]
		if in.Source == "" {
			continue // the fleet's own samples, which take a while to gather
		}
		c.checkMetric(fmt.Sprintf("%s.metrics[%d]", key, i), &metric, in, target, read)
	}
}

// checkTarget finds what came of reading the target; read reports whether it could
// be read.
func (c *checker) checkTarget(key string, a *config.Autoscaler) (reading targets.Reading, read bool) {
	ref := a.Target
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
	case kinds.Fleets[c.config.Fleets[ref.Fleet].Kind].Hosted:
		c.checkHosted(key+".target", a, &reading)
	default:
		text := fmt.Sprintf("%s wants %s and has %d", ref, explain.Replicas(reading.SpecReplicas), reading.StatusReplicas)
		if reading.Hold != nil {
			text += "; it is held by the platform: " + reading.Hold.Reason + ": " + reading.Hold.Message
		}
		c.note(key+".target", text)
		c.checkInstances(key+".target", ref, reading.Notices)
	}
	return reading, read
}

// checkHosted says what the hpad that runs has of a target whose instances are its own, or
// with what it would begin.
func (c *checker) checkHosted(key string, a *config.Autoscaler, first *targets.Reading) {
	view := c.run[a.Name]
	if view.Reference != a.Target.String() {
		c.note(key, fmt.Sprintf("%s begins with %s; no hpad runs it, as far as could be found out", a.Target, explain.Replicas(first.SpecReplicas)))
		c.checkInstances(key, a.Target, first.Notices)
		return
	}
	c.note(key, fmt.Sprintf("%s has %s, as the hpad that runs it says", a.Target, explain.Replicas(view.Status.CurrentReplicas)))
	var notices []policy.Notice
	for _, condition := range view.Status.Conditions {
		if condition.Status == policy.ConditionTrue {
			notices = append(notices, policy.Notice{Condition: condition.Type, Reason: condition.Reason, Message: condition.Message})
		}
	}
	c.checkInstances(key, a.Target, notices)
}

// checkInstances finds why instances of a target cannot start or end by themselves, in
// the words of its platform.
func (c *checker) checkInstances(key string, ref targets.Ref, notices []policy.Notice) {
	failing := kinds.Fleets[c.config.Fleets[ref.Fleet].Kind].Failing
	for _, notice := range notices {
		if slices.Contains(failing, notice.Condition) {
			c.problem(key, fmt.Sprintf("%s: %s, %s: %s", ref, notice.Condition, notice.Reason, notice.Message))
		}
	}
}

// checkMetric says what came of a metric's query, and what a pass of the daemon makes
// of it.
func (c *checker) checkMetric(key string, metric *policy.MetricSpec, in config.Input, target *observe.Target, read bool) {
	answered := c.answers[question{in.Source, in.Query, in.MaxAge}]
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
	for _, warning := range slices.Concat(answered.found.Vector.Warnings, answered.found.Vector.Infos) {
		c.note(key, "the source warns: "+warning)
	}
	series, err := selected(in, answered.found)
	if err == nil && len(series) == 0 {
		input := observe.NewInput(&in)
		err = errors.New("the query answers no series")
		if answered.found.Absence != "" {
			err = fmt.Errorf("%w: %s", err, answered.found.Absence)
		}
		if len(answered.found.Vector.Series) > 0 {
			err = input.NoneSelected(answered.found)
		}
		if input.CountsAsZero(answered.found) {
			c.note(key, fmt.Sprintf("%s %s: %s, which counts as 0", metric.Type, metric.Name, err))
			return
		}
	}
	if err != nil {
		c.problem(key, err.Error())
		return
	}
	found := fmt.Sprintf("%s %s: %s", metric.Type, metric.Name, explain.Plural(len(series), "series"))
	switch metric.Type {
	case policy.ExternalMetric, policy.ObjectMetric:
		text, err := whole(metric, in, target, answered.found, len(series))
		if err != nil {
			c.problem(key, err.Error())
			return
		}
		c.note(key, found+text)
	default:
		c.checkJoin(key, found, metric, in, series, target, read)
	}
}

// selected returns the series of an answer that select picks.
func selected(in config.Input, answer *observe.Answer) ([]*sources.Series, error) {
	var found []*sources.Series
	input := observe.NewInput(&config.Input{Select: in.Select})
	for series, err := range input.Selected(answer) {
		if err != nil {
			return nil, err
		}
		found = append(found, series)
	}
	return found, nil
}

// whole says what the series of a metric of the whole target come to.
func whole(metric *policy.MetricSpec, in config.Input, target *observe.Target, answer *observe.Answer, series int) (string, error) {
	if metric.Type == policy.ObjectMetric && series > 1 {
		return "", fmt.Errorf("the query answers %d series for one object; aggregate them or select one", series)
	}
	input := observe.NewInput(&in)
	reading, err := target.Queried(metric, &input, answer)
	switch {
	case err != nil:
		return "", err
	case metric.Type == policy.ObjectMetric:
		return " of value " + quantity.FormatDecimal(*reading.ValueMilli), nil
	}
	return ", which add up to " + quantity.FormatDecimal(policy.ExternalTotal(metric, reading.ValuesMilli)), nil
}

// checkJoin says how many of the target's instances have a series of their own.
func (c *checker) checkJoin(key, found string, metric *policy.MetricSpec, in config.Input, series []*sources.Series, target *observe.Target, read bool) {
	bearers := map[string]bool{}
	for _, s := range series {
		if value := s.Labels.Get(in.InstanceLabel); value != "" {
			bearers[value] = true
		}
	}
	if len(bearers) == 0 {
		c.problem(key, fmt.Sprintf("none of %d series has the label %q of instance_label", len(series), in.InstanceLabel))
		return
	}
	instances := len(target.Reading.Instances)
	if !read || instances == 0 {
		c.note(key, fmt.Sprintf("%s of %s; the target has no instances now to compare with", found, explain.Plural(len(bearers), "instance")))
		return
	}
	input := observe.NewInput(&in)
	reading, err := target.Queried(metric, &input, c.answers[question{in.Source, in.Query, in.MaxAge}].found)
	if _, none := errors.AsType[*observe.UnjoinedError](err); none {
		err = fmt.Errorf("no series is of an instance of the target: the label %q holds %q and the like, and the instances' %s are %q and the like",
			in.InstanceLabel, slices.Min(slices.Collect(maps.Keys(bearers))), plural(in.Match), in.Match.Names(target.Reading, 0))
	}
	if err != nil {
		c.problem(key, err.Error())
		return
	}
	joined := 0
	for _, sample := range reading.Samples {
		if sample.OK {
			joined++
		}
	}
	c.note(key, fmt.Sprintf("%s, for %d of %s", found, joined, explain.Plural(instances, "instance")))
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
