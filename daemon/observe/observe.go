// Package observe converts the results of fleets and sources into readings for package policy. Both
// the daemon's passes and "hpad check --live" use it, so that their results agree.
package observe

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/settings/quantity"
	"github.com/hpad/hpad/sources"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/clock"
)

// Target pairs a target with the result of its last read.
type Target struct {
	Ref     targets.Ref
	Reading *targets.Reading
	// Strict is set if compat is "strict".
	Strict bool
	// Scale converts the times of samples and series. Observed is the monotonic time when the
	// target was read.
	Scale    *clock.Scale
	Observed time.Time
}

// happened converts a wall-clock time from a platform or source to monotonic time.
func (t *Target) happened(wall time.Time) time.Time { return t.Scale.Happened(wall, t.Observed) }

// Age returns the age of the oldest sample in a reading, or 0 if it has no samples.
func (t *Target) Age(reading *policy.Reading) (oldest time.Duration) {
	for i := range reading.Samples {
		if sample := &reading.Samples[i]; sample.OK {
			oldest = max(oldest, t.Observed.Sub(sample.At))
		}
	}
	return oldest
}

var (
	errNoneRuns  = errors.New("no instance of the target is running")
	errNoSamples = errors.New("the fleet has no samples of the target yet; the first sample of an instance needs two readings")
)

// Early reports whether a metric failed because no instance is running, or because the fleet has
// no samples yet.
func Early(result *policy.MetricResult) bool {
	return strings.HasSuffix(result.Error, errNoneRuns.Error()) || strings.HasSuffix(result.Error, errNoSamples.Error())
}

// Sampled returns the reading of a metric from the fleet's samples.
func (t *Target) Sampled(metric *policy.MetricSpec, in *Input, found targets.Samples) (policy.Reading, error) {
	samples := found.Instances
	if len(samples) == 0 && found.Err != nil {
		return policy.Reading{}, fmt.Errorf("read samples of fleet %q: %w", t.Ref.Fleet, found.Err)
	}
	if len(samples) == 0 && len(t.Reading.Instances) == 0 {
		return policy.Reading{}, errors.New("the target has no instances")
	}
	running := func(instance policy.Instance) bool { return instance.Phase == policy.PhaseRunning }
	if len(samples) == 0 && !slices.ContainsFunc(t.Reading.Instances, running) {
		return policy.Reading{}, errNoneRuns
	}
	if len(samples) == 0 {
		return policy.Reading{}, errNoSamples
	}
	if err := hasTask(metric, "measured tasks", measuredTasks(samples)); err != nil {
		return policy.Reading{}, err
	}
	joined := make([]policy.Sample, len(t.Reading.Instances))
	index := make(map[string]int, len(t.Reading.Instances))
	for i := range t.Reading.Instances {
		index[t.Reading.Instances[i].ID] = i
	}
	for _, sample := range samples {
		next := policy.Sample{At: t.happened(sample.At), Window: sample.Window}
		if metric.Type == policy.ContainerResourceMetric {
			next.Milli, next.OK = policy.TaskSample(sample.Tasks, metric.Task, metric.Name)
		} else {
			next.Milli, next.OK = policy.ResourceSample(sample.Tasks, metric.Name)
		}
		if next.OK && next.Milli < 0 && !t.Strict {
			return policy.Reading{}, negative(next.Milli, "instance "+sample.ID)
		}
		i, ok := index[sample.ID]
		if age := t.Observed.Sub(next.At); ok && next.OK && in.MaxAge > 0 && age > in.MaxAge {
			return policy.Reading{}, fmt.Errorf("the sample of instance %s is %s old, but max_age = %s", sample.ID, age.Round(time.Second/10), in.MaxAge)
		}
		if ok {
			joined[i] = next
		} else {
			joined = append(joined, next) // R34
		}
	}
	return policy.Reading{Samples: joined}, nil
}

// hasTask returns an error if there are tasks, but not the task of a ContainerResource metric. what
// describes the tasks in the error.
func hasTask(metric *policy.MetricSpec, what string, tasks iter.Seq[string]) error {
	if metric.Type != policy.ContainerResourceMetric {
		return nil
	}
	var names []string
	for task := range tasks {
		if task == metric.Task {
			return nil
		}
		if !slices.Contains(names, task) && len(names) < shownSeries {
			names = append(names, task)
		}
	}
	if len(names) == 0 {
		return nil
	}
	slices.Sort(names)
	return fmt.Errorf("no instance has a task %q: the %s are %s", metric.Task, what, shorten(strings.Join(names, ", ")))
}

// HasTask returns an error if instances have tasks, but not the task of a ContainerResource metric.
func HasTask(metric *policy.MetricSpec, instances []policy.Instance) error {
	return hasTask(metric, "tasks", func(yield func(string) bool) {
		for i := range instances {
			for _, task := range instances[i].Tasks {
				if !yield(task.Name) {
					return
				}
			}
		}
	})
}

func measuredTasks(samples []targets.InstanceSample) iter.Seq[string] {
	return func(yield func(string) bool) {
		for i := range samples {
			for _, usage := range samples[i].Tasks {
				if !yield(usage.Task) {
					return
				}
			}
		}
	}
}

// Queried returns the reading of a metric from the result of its query. The reading contains the
// source's warnings even if there is an error.
func (t *Target) Queried(metric *policy.MetricSpec, in *Input, response *Response) (policy.Reading, error) {
	reading := policy.Reading{Warnings: response.remarks()}
	if !t.Strict {
		reading.Partial = response.Vector.Partial()
	}
	var err error
	switch metric.Type {
	case policy.ExternalMetric:
		reading.ValuesMilli, err = t.externalValues(in, response)
		reading.Empty = err == nil && in.countsAsZero(response)
	case policy.ObjectMetric:
		reading.ValueMilli, err = t.objectValue(in, response)
		reading.Empty = err == nil && in.countsAsZero(response)
	default:
		reading.Samples, err = t.instanceValues(in, response)
	}
	return reading, err
}

// externalValues returns the values of all selected series. Package policy uses their sum (R42,
// R43).
func (t *Target) externalValues(in *Input, response *Response) (values []int64, err error) {
	for series := range in.Selected(response) {
		milli, err := t.value(in, series)
		if err != nil {
			return nil, err
		}
		values = append(values, milli)
	}
	if len(values) == 0 && in.countsAsZero(response) {
		values = []int64{0}
	}
	if len(values) == 0 && len(response.Vector.Series) > 0 {
		return nil, in.noneSelected(response)
	}
	if err := in.enough(len(values), "series are selected"); err != nil {
		return nil, fmt.Errorf("%w%s", err, response.because())
	}
	if len(values) == 0 && in.explains(response) {
		return nil, in.noValue(response)
	}
	return values, nil
}

// objectValue returns the value of the selected series. Several selected series are an error.
func (t *Target) objectValue(in *Input, response *Response) (*int64, error) {
	found := slices.Collect(in.Selected(response))
	if len(found) == 0 && in.countsAsZero(response) {
		return new(int64), nil
	}
	if len(found) == 0 && len(response.Vector.Series) > 0 {
		return nil, in.noneSelected(response)
	}
	if len(found) == 0 && in.explains(response) {
		return nil, in.noValue(response)
	}
	if len(found) == 0 {
		return nil, nil // policy applies R26
	}
	if len(found) > 1 {
		return nil, fmt.Errorf("the query returned %d series for one object, such as %s and %s; aggregate them or select one",
			len(found), found[0].Labels, found[1].Labels)
	}
	milli, err := t.value(in, found[0])
	if err != nil {
		return nil, err
	}
	return &milli, nil
}

// instanceValues assigns series to instances. It ignores series of other targets' instances, which
// upstream's prometheus-adapter excludes by querying only the target's pods.
func (t *Target) instanceValues(in *Input, response *Response) ([]policy.Sample, error) {
	index := response.indexBy(in.Labels)
	prefix := ""
	if len(in.Labels) > 1 {
		prefix = in.selected + keySeparator
	}
	var samples []policy.Sample
	joined := 0
	for i := range t.Reading.Instances {
		found, err := findInstance(index, prefix, in.Match, t.Reading, i)
		if err != nil {
			return nil, err
		}
		if found < 0 {
			continue
		}
		series := &response.Vector.Series[found]
		milli, err := t.value(in, series)
		if err != nil {
			return nil, err
		}
		if samples == nil {
			samples = make([]policy.Sample, len(t.Reading.Instances))
		}
		samples[i] = policy.Sample{Milli: milli, OK: true, At: t.happened(series.At), Window: in.Window}
		joined++
	}
	if samples == nil && len(t.Reading.Instances) > 0 {
		return nil, t.noneJoined(in, response)
	}
	return samples, in.enough(joined, "instances have a series")
}

// unjoinedError means that a result contains no series for any of the instances. It is treated like
// an empty result (R26).
type unjoinedError struct{ why string }

func (e *unjoinedError) Error() string { return e.why }

func (t *Target) noneJoined(in *Input, response *Response) error {
	series := response.Vector.Series
	if len(series) == 0 && in.MaxAge > 0 {
		return &unjoinedError{in.noValue(response).Error()}
	}
	if len(series) == 0 {
		return &unjoinedError{"the query returned no series" + response.because()}
	}
	selects := func(s sources.Series) bool {
		for _, label := range in.Select {
			if s.Labels.Get(label.Name) != label.Value {
				return false
			}
		}
		return true
	}
	if !slices.ContainsFunc(series, selects) {
		return &unjoinedError{in.noneSelected(response).Error()}
	}
	label := in.InstanceLabel
	bearer := slices.IndexFunc(series, func(s sources.Series) bool { return s.Labels.Get(label) != "" })
	if bearer < 0 {
		return &unjoinedError{fmt.Sprintf("the query returned %d series, but none has the label %q; the labels of the first are %s", len(series), label, shorten(series[0].Labels.String()))}
	}
	return &unjoinedError{fmt.Sprintf("the query returned %d series, but none belongs to a current instance of the target: the label %s has values like %q, "+
		"and the %s of a current instance is \"%s\"; a new instance may not have a series yet",
		len(series), label, series[bearer].Labels.Get(label), in.Match, strings.Join(in.Match.Names(t.Reading, 0), `" or "`))}
}

// findInstance returns the index of the series for an instance, or a negative number if there is no
// such series.
func findInstance(index seriesIndex, prefix string, match config.Match, reading *targets.Reading, i int) (int32, error) {
	found, count := int32(-1), 0
	for _, name := range match.Names(reading, i) {
		for series := index.at(prefix + name); series >= 0; series = index.next[series] {
			found = series
			count++
		}
	}
	if count > 1 {
		return -1, fmt.Errorf("the query returned %d series for instance %s; aggregate them by the instance label", count, reading.NameOf(i))
	}
	return found, nil
}

// value returns the value of a series in milli-units. The metric fails if the value is NaN,
// infinite, outside the valid range or, unless compat is strict, negative.
func (t *Target) value(in *Input, series *sources.Series) (int64, error) {
	milli, err := sources.Milli(series.Value)
	if err != nil {
		return 0, fmt.Errorf("series %s: %w", series.Labels, err)
	}
	if milli < 0 && !t.Strict {
		return 0, negative(milli, "series "+series.Labels.String())
	}
	if v := in.Valid; v != nil && (milli < v.Min || milli > v.Max) {
		return 0, fmt.Errorf("series %s has the value %s, which is outside valid = [%s, %s]",
			series.Labels, quantity.FormatDecimal(milli), quantity.FormatDecimal(v.Min), quantity.FormatDecimal(v.Max))
	}
	return milli, nil
}

// countsAsZero reports whether an empty result is treated as zero. It returns false if the result
// contains other series, because Select is probably mistyped. It also returns false if the result
// contains warnings, because a part of the server has probably not responded.
func (in *Input) countsAsZero(response *Response) bool {
	return in.EmptyZero && len(response.Vector.Series) == 0 && len(response.Vector.Warnings) == 0
}

// shownSeries is the maximum number of series in the error about Select.
const shownSeries = 5

// noneSelected returns the error for a Select that matches no series in a non-empty result. It
// lists the values of the selected labels, or all labels of series without these labels.
func (in *Input) noneSelected(response *Response) error {
	var found []string
	for i := range response.Vector.Series {
		series := &response.Vector.Series[i]
		var labels sources.Labels
		for _, label := range in.Labels[:len(in.Select)] {
			if value := series.Labels.Get(label); value != "" {
				labels = append(labels, sources.Label{Name: label, Value: value})
			}
		}
		if len(labels) == 0 {
			labels = series.Labels
		}
		if text := shorten(labels.String()); !slices.Contains(found, text) {
			found = append(found, text)
		}
		if len(found) > shownSeries {
			found[shownSeries] = "…"
			break
		}
	}
	return fmt.Errorf("the query returned %d series, but none matches select, %s; their labels are %s",
		len(response.Vector.Series), shorten(in.Select.String()), strings.Join(found, ", "))
}

// maxShownLabels is the maximum length of a series' labels in an error, in characters.
const maxShownLabels = 200

func shorten(text string) string {
	if letters := []rune(text); len(letters) > maxShownLabels {
		return string(letters[:maxShownLabels-1]) + "…"
	}
	return text
}

// explains reports whether noValue returns more than the fact that there is no value.
func (in *Input) explains(response *Response) bool {
	return in.MaxAge > 0 || response.because() != ""
}

// noValue returns the error for a result without series or without recent series.
func (in *Input) noValue(response *Response) error {
	young := ""
	if in.MaxAge > 0 {
		young = fmt.Sprintf(" that is within max_age = %s", in.MaxAge)
	}
	if doubt := response.Vector.Doubt(); doubt != "" && in.EmptyZero {
		return fmt.Errorf("the source returned no value, which does not count as zero because of a warning: %s", doubt)
	}
	return fmt.Errorf("the source returned no value%s%s", young, response.because())
}

func (in *Input) enough(found int, what string) error {
	if found < in.MinSeries {
		return fmt.Errorf("%d %s, but min_series = %d", found, what, in.MinSeries)
	}
	return nil
}

// negative returns the error for a reading below zero. This deviates from upstream, which accepts
// such readings (R43).
func negative(milli int64, what string) error {
	return fmt.Errorf("%s has the value %s, but negative values are rejected", what, quantity.FormatDecimal(milli))
}
