package daemon

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/daemon/redact"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/settings/quantity"
	"github.com/hpad/hpad/sources"
	"github.com/hpad/hpad/targets"
)

// room is what a worker builds observations in, one after the other: policy
// keeps nothing of them.
type room struct {
	readings []policy.Reading
	values   []int64
}

// clear makes room for the next observation.
func (r *room) clear() {
	clear(r.readings)
	r.readings, r.values = r.readings[:0], r.values[:0]
}

// observe gathers what the pass's reads answered into what policy decides on. A
// failed read is part of the observation, never an abort.
func (p *pass) observe(room *room) (policy.Observation, targets.Reading) {
	def := p.plan.definition
	p.observed = p.round.daemon.clock.Now()
	reading, err := p.reading()
	if err != nil {
		return policy.Observation{
			ReadError: redact.Text(err.Error()), ReadReason: targets.Reason(err), Unscalable: errors.Is(err, targets.ErrUnscalable),
		}, reading
	}
	observation := policy.Observation{
		SpecReplicas:   reading.SpecReplicas,
		StatusReplicas: reading.StatusReplicas,
		Hold:           reading.Hold,
		Notices:        reading.Notices,
		Instances:      withRequests(p.dated(reading.Instances), def.Requests),
		Metrics:        room.readings[:0],
	}
	if !def.strict { // upstream's targets have no bounds of their own
		observation.PlatformMin, observation.PlatformMax = reading.Min, reading.Max
	}
	for i := range def.Spec.Metrics {
		observation.Metrics = append(observation.Metrics, p.metric(i, &reading, room))
	}
	room.readings = observation.Metrics
	return observation, reading
}

// countInstances counts instances by their state.
func countInstances(instances []policy.Instance) (n api.Instances) {
	for i := range instances {
		switch instance := &instances[i]; {
		case instance.Deleting:
			n.Deleting++
		case instance.Phase == policy.PhasePending:
			n.Pending++
		case instance.Phase == policy.PhaseFailed:
			n.Failed++
		case instance.Phase == policy.PhaseSucceeded:
			n.Succeeded++
		case instance.Phase == policy.PhaseRunning && instance.Readiness != policy.ReadinessFalse && instance.Readiness != policy.ReadinessUnknown:
			n.Ready++
		default:
			n.Unready++
		}
	}
	return n
}

// reading answers what the round's snapshot says of the pass's target.
func (p *pass) reading() (targets.Reading, error) {
	answer := p.round.snapshots[p.plan.snapshot].get()
	if answer == nil {
		return targets.Reading{}, fmt.Errorf("read fleet %q: %w", p.plan.definition.fleet.name, p.tooLate())
	}
	if answer.err != nil {
		return targets.Reading{}, answer.err
	}
	ref := p.plan.definition.Target
	reading, ok := answer.readings[ref]
	if !ok {
		return reading, fmt.Errorf("read target %s: the fleet's answer does not mention it", ref)
	}
	if reading.Err != nil {
		return reading, fmt.Errorf("read target %s: %w", ref, reading.Err)
	}
	return reading, nil
}

// isBlind reports whether all that failed in a pass is that its fleet, the fleet's
// samples or its sources could not be read at all, which is told once for all of those
// who read them.
func (p *pass) isBlind(decision *policy.Decision, outcome policy.Outcome) bool {
	if answer := p.round.snapshots[p.plan.snapshot].get(); answer != nil && answer.err != nil {
		return true
	}
	if outcome.Error != "" {
		return false
	}
	failed, unsure := false, false
	for i := range decision.Metrics {
		if decision.Metrics[i].Error == "" {
			continue
		}
		out, sure := p.isOut(i)
		if !out && sure {
			return false
		}
		failed, unsure = true, unsure || !sure
	}
	a := p.plan.autoscaler
	// What the source has yet to show is left to the next pass, once.
	again := a.unsure && unsure
	a.unsure = unsure
	return failed && !again
}

// isOut reports whether nothing could be read from where a failed metric of the pass
// comes from. It is not sure while other queries of a source are under way that was
// not told to be out.
func (p *pass) isOut(metric int) (out, sure bool) {
	source := p.plan.definition.inputs[metric].source
	if source == nil {
		answer := p.round.samples[p.plan.samples].get()
		return answer != nil && answer.err != nil, true
	}
	q := p.plan.queries[metric]
	if answer := p.round.queries[q].get(); answer != nil && answer.err == nil {
		return false, true
	}
	batch := &p.round.batches[p.round.plan.queries[q].batch]
	switch {
	case batch.answered.Load():
		return false, true
	case batch.left.Load() == 0 || source.problem.Exists():
		return true, true
	}
	return false, false
}

// tooLate is the error of a read that this pass could not wait for, although
// others do.
func (p *pass) tooLate() error { return readLimit(p.plan.timeout) }

// withRequests states the configured requests for instances whose fleet states
// none (R29).
func withRequests(instances []policy.Instance, requests []policy.Amount) []policy.Instance {
	if len(requests) == 0 {
		return instances
	}
	stated := slices.Clone(instances)
	for i := range stated {
		stated[i].Requests = requests
	}
	return stated
}

// metric answers the reading of one metric of the spec.
func (p *pass) metric(i int, reading *targets.Reading, room *room) policy.Reading {
	spec := &p.plan.definition.Spec.Metrics[i]
	in := &p.plan.definition.inputs[i]
	var answer policy.Reading
	var err error
	if in.source == nil {
		err = p.fleetSamples(&answer, spec, reading)
	} else {
		err = p.queried(&answer, spec, in, p.round.queries[p.plan.queries[i]].get(), reading, room)
	}
	if err != nil {
		// A reading that failed in part is a failed reading: what was found
		// before the error is not decided on.
		return policy.Reading{Error: redact.Text(err.Error()), Warnings: answer.Warnings}
	}
	return answer
}

// fleetSamples fills a reading from the fleet's own samples.
func (p *pass) fleetSamples(answer *policy.Reading, spec *policy.MetricSpec, reading *targets.Reading) error {
	read := p.round.samples[p.plan.samples].get()
	if read == nil {
		return fmt.Errorf("read samples of fleet %q: %w", p.plan.definition.fleet.name, p.tooLate())
	}
	if read.err != nil {
		return read.err
	}
	found := read.samples[p.plan.definition.Target]
	samples := found.Instances
	if len(samples) == 0 && found.Err != nil {
		return fmt.Errorf("read samples of fleet %q: %w", p.plan.definition.fleet.name, found.Err)
	}
	if len(samples) == 0 && len(reading.Instances) == 0 {
		return errors.New("the target has no instances")
	}
	if len(samples) == 0 {
		return errors.New("the fleet has no samples of the target yet; it takes two readings of an instance to have one")
	}
	answer.Samples = make([]policy.Sample, len(reading.Instances))
	index := make(map[string]int, len(reading.Instances))
	for i := range reading.Instances {
		index[reading.Instances[i].ID] = i
	}
	for _, sample := range samples {
		next := policy.Sample{At: p.round.scale.Happened(sample.At, p.observed), Window: sample.Window}
		if spec.Type == policy.ContainerResourceMetric {
			next.Milli, next.OK = policy.TaskSample(sample.Tasks, spec.Task, spec.Name)
		} else {
			next.Milli, next.OK = policy.ResourceSample(sample.Tasks, spec.Name)
		}
		if next.OK && next.Milli < 0 && !p.plan.definition.strict {
			return negative(next.Milli, "instance "+sample.ID)
		}
		if i, ok := index[sample.ID]; ok {
			answer.Samples[i] = next
		} else {
			answer.Samples = append(answer.Samples, next) // R34
		}
	}
	return nil
}

// queried fills a reading from the answer of a query.
func (p *pass) queried(answer *policy.Reading, spec *policy.MetricSpec, in *input, read *queryAnswer, reading *targets.Reading, room *room) error {
	if read == nil {
		return fmt.Errorf("query source %q: %w", in.source.name, p.tooLate())
	}
	if read.err != nil {
		return read.err
	}
	answer.Warnings = read.vector.Warnings
	switch spec.Type {
	case policy.ExternalMetric:
		return p.externalValues(answer, in, read, room)
	case policy.ObjectMetric:
		return p.objectValue(answer, in, read)
	default:
		return p.instanceValues(answer, in, read, reading)
	}
}

// selectedSeries yields the series that the input's Select picks, or an error.
func (in *input) selectedSeries(read *queryAnswer) iter.Seq2[*sources.Series, error] {
	return func(yield func(*sources.Series, error) bool) {
		series := read.vector.Series
		if len(in.labels) == 0 {
			for i := range series {
				if !yield(&series[i], nil) {
					return
				}
			}
			return
		}
		index, err := read.index.by(in.labels)
		if err != nil {
			yield(nil, err)
			return
		}
		for i := index.at(in.selected); i >= 0; i = index.next[i] {
			if !yield(&series[i], nil) {
				return
			}
		}
	}
}

// externalValues hands over every selected series; policy sums them (R42, R43).
func (p *pass) externalValues(answer *policy.Reading, in *input, read *queryAnswer, room *room) error {
	start := len(room.values)
	for series, err := range in.selectedSeries(read) {
		if err != nil {
			return err
		}
		milli, err := p.value(series)
		if err != nil {
			return err
		}
		room.values = append(room.values, milli)
	}
	answer.ValuesMilli = room.values[start:len(room.values):len(room.values)]
	return nil
}

// objectValue wants exactly one series.
func (p *pass) objectValue(answer *policy.Reading, in *input, read *queryAnswer) error {
	var found []*sources.Series
	for series, err := range in.selectedSeries(read) {
		if err != nil {
			return err
		}
		found = append(found, series)
	}
	if len(found) == 0 {
		return nil // an empty answer, which is R26's to judge
	}
	if len(found) > 1 {
		return fmt.Errorf("the query answers %d series for one object, as %s and %s; aggregate them or select one",
			len(found), found[0].Labels, found[1].Labels)
	}
	milli, err := p.value(found[0])
	if err != nil {
		return err
	}
	answer.ValueMilli = &milli
	return nil
}

// instanceValues joins the series with the instances. A series that belongs to
// no instance of this target is somebody else's and left out, as
// prometheus-adapter asks for the target's own pods only.
func (p *pass) instanceValues(answer *policy.Reading, in *input, read *queryAnswer, reading *targets.Reading) error {
	index, err := read.index.by(in.labels)
	if err != nil {
		return err
	}
	prefix := ""
	if len(in.labels) > 1 {
		prefix = in.selected + keySeparator
	}
	for i := range reading.Instances {
		found, err := findInstance(index, prefix, in.Match, reading, i)
		if err != nil {
			return err
		}
		if found < 0 {
			continue
		}
		series := &read.vector.Series[found]
		milli, err := p.value(series)
		if err != nil {
			return err
		}
		if answer.Samples == nil {
			answer.Samples = make([]policy.Sample, len(reading.Instances))
		}
		answer.Samples[i] = policy.Sample{Milli: milli, OK: true, At: p.round.scale.Happened(series.At, p.observed), Window: in.Window}
	}
	if answer.Samples == nil && len(reading.Instances) > 0 {
		return noneJoined(in, read, reading)
	}
	return nil
}

// noneJoined says why no series found its instance. It is an empty answer (R26).
func noneJoined(in *input, read *queryAnswer, reading *targets.Reading) error {
	series := read.vector.Series
	if len(series) == 0 {
		return errors.New("the query answers no series at all")
	}
	label := in.InstanceLabel
	bearer := slices.IndexFunc(series, func(s sources.Series) bool { return s.Labels.Get(label) != "" })
	if bearer < 0 {
		return fmt.Errorf("the query answers %d series, and none has the label %q", len(series), label)
	}
	return fmt.Errorf("the query answers %d series, and none is of an instance of the target: the label %s is %q and the like, and an instance is known by one like %q",
		len(series), label, series[bearer].Labels.Get(label), strings.Join(in.Match.Names(reading, 0), `" or "`))
}

// findInstance answers the one series of an instance, negative when it has none.
func findInstance(index seriesIndex, prefix string, match config.Match, reading *targets.Reading, i int) (int32, error) {
	found, count := int32(-1), 0
	for _, name := range match.Names(reading, i) {
		for series := index.at(prefix + name); series >= 0; series = index.next[series] {
			found = series
			count++
		}
	}
	if count > 1 {
		return -1, fmt.Errorf("the query answers %d series for instance %s; aggregate them by the instance label", count, reading.Instances[i].ID)
	}
	return found, nil
}

// value answers a series' value in milli-units. What is no number fails the
// metric; so does a value below zero, unless compat is strict.
func (p *pass) value(series *sources.Series) (int64, error) {
	milli, err := sources.Milli(series.Value)
	if err != nil {
		return 0, fmt.Errorf("series %s: %w", series.Labels, err)
	}
	if milli < 0 && !p.plan.definition.strict {
		return 0, negative(milli, "series "+series.Labels.String())
	}
	return milli, nil
}

// negative is the error of a reading below zero: a deviation from upstream,
// which would scale by it (R43).
func negative(milli int64, what string) error {
	return fmt.Errorf("%s reads %s, and a metric below zero is not decided on", what, quantity.FormatMilli(milli))
}
