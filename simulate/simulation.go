package simulate

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/schedule"
	"github.com/hpad/hpad/settings/quantity"
)

// Result contains the rows of a simulation and everything that they depend on.
type Result struct {
	Name   string `json:"name"`
	Origin Origin `json:"origin"`
	// From and Until limit the scored period, after the warm-up. Recorded is the start of the
	// recording, and Step the time between two ticks.
	From     time.Time     `json:"from"`
	Until    time.Time     `json:"until"`
	Recorded time.Time     `json:"recorded"`
	Step     time.Duration `json:"step"`
	// Metrics contains the models of the metrics. The last one is the formula, if there is one.
	Metrics []MetricModel `json:"metrics"`
	Startup Delay         `json:"startup"`
	Drain   Delay         `json:"drain"`
	// ManualChanges is the number of changes by other writers, which all rows replay. Holes is the
	// number of periods without ticks.
	ManualChanges int    `json:"manual_changes,omitempty"`
	Holes         int    `json:"holes,omitempty"`
	Notes         []Note `json:"notes,omitempty"`
	// Times contains the instants of the series in the rows. Demand contains the number of instances
	// that the load needs at the target values of the first policy; -1 if it is unknown.
	Times  []time.Time `json:"times"`
	Demand []float64   `json:"demand"`
	Rows   []Row       `json:"rows"`
}

// Row is the result of one policy.
type Row struct {
	Label string `json:"label"`
	Score
	// Replicas contains the count before each recorded pass. Ready contains the instances that carry
	// load.
	Replicas []int32 `json:"replicas"`
	Ready    []int32 `json:"ready"`
	// Moments are the most important differences from the first row, at most [maxMoments], by time.
	Moments []Moment `json:"moments,omitempty"`
}

// simulation is the part of a simulation that all rows share. The rows do not modify it.
type simulation struct {
	recording *Recording
	assume    Assumptions
	models    []MetricModel
	formula   MetricModel
	// shared is set for metrics with a target of type value and another model than Ratio: their value
	// does not depend on the count.
	shared []bool
	// targets are the target values of the first policy that uses the metric, in thousandths.
	// formulaTarget is the target value of the formula.
	targets        []int64
	formulaTarget  int64
	startup, drain Delay
	// manual describes the count of each tick.
	manual []expectation
	// loads contains the load of each metric at each tick in thousandths; NaN if it is unknown.
	loads [][]float64
	// arrivals contains the arrivals of each queue after each tick, in items per second.
	arrivals [][]float64
	// unproven contains notes about capacities above all recorded values.
	unproven []Note
	// low marks ticks with a load that may have been higher than measured.
	low []bool
	// from is the first tick that is scored.
	from int
}

// Run simulates policies over a recording. The first policy is the active one. It returns an error
// if the recording is too short or a metric cannot be simulated, or the error of ctx.
func Run(ctx context.Context, recording *Recording, policies []Policy, assume Assumptions) (*Result, error) {
	s, err := prepare(recording, policies, assume)
	if err != nil {
		return nil, err
	}
	result := s.result()
	for i := range policies {
		var base []int32
		if i > 0 {
			base = result.Rows[0].Replicas
		}
		row, demand, err := s.run(ctx, &policies[i], base)
		if err != nil {
			return nil, err
		}
		if i == 0 {
			result.Demand = demand
		}
		result.Rows = append(result.Rows, *row)
	}
	return result, nil
}

// prepare computes everything that does not depend on a single policy.
func prepare(recording *Recording, policies []Policy, assume Assumptions) (*simulation, error) {
	s := &simulation{
		recording: recording, assume: assume, models: make([]MetricModel, len(recording.Metrics)), shared: make([]bool, len(recording.Metrics)),
		targets: make([]int64, len(recording.Metrics)), arrivals: make([][]float64, len(recording.Metrics)),
	}
	for i, name := range recording.Metrics {
		s.models[i].Name = name
	}
	if len(recording.Ticks) == 0 {
		return nil, errors.New("there is no data in the period")
	}
	if err := s.checkAssumptions(); err != nil {
		return nil, err
	}
	for i := range policies {
		if err := s.chooseModels(&policies[i]); err != nil {
			return nil, err
		}
	}
	s.setCapacities(policies)
	if err := s.warmUp(policies); err != nil {
		return nil, err
	}
	s.startup, s.drain = recording.delay(true, assume.Startup), recording.delay(false, assume.Drain)
	s.findManual()
	if err := s.measureLoads(); err != nil {
		return nil, err
	}
	s.noteUnproven()
	return s, nil
}

func (s *simulation) result() *Result {
	r := s.recording
	last := len(r.Ticks) - 1
	result := &Result{
		Name: r.Name, Origin: r.Origin, From: r.Ticks[s.from].Time, Until: r.Ticks[last].Time, Recorded: r.Ticks[0].Time, Step: r.Step,
		Metrics: slices.Clone(s.models), Startup: s.startup, Drain: s.drain, Notes: r.Notes, Times: make([]time.Time, len(r.Ticks)),
	}
	if s.formula.Name != "" {
		result.Metrics = append(result.Metrics, s.formula)
	}
	result.Notes = append(slices.Clip(result.Notes), s.unproven...)
	for i := range r.Ticks {
		result.Times[i] = r.Ticks[i].Time
		if s.manual[i] == manualChange {
			result.ManualChanges++
		}
		if i > 0 && r.isHole(i) {
			result.Holes++
		}
	}
	return result
}

// holeSteps is the longest time between two ticks that is not a hole, in steps.
const holeSteps = 2

// isHole reports whether ticks are missing before tick i.
func (r *Recording) isHole(i int) bool {
	return r.Ticks[i].Time.Sub(r.Ticks[i-1].Time) > holeSteps*r.Step
}

// warmUp sets the first tick that is scored. Before it, all rows replay the recorded counts, so that
// the windows and rates of all policies have a past.
func (s *simulation) warmUp(policies []Policy) error {
	longest := time.Duration(0)
	for i := range policies {
		longest = max(longest, policies[i].memory())
	}
	ticks := s.recording.Ticks
	start := ticks[0].Time.Add(longest)
	s.from = slices.IndexFunc(ticks, func(t Tick) bool { return !t.Time.Before(start) })
	if s.from < 0 || s.from == len(ticks)-1 {
		return fmt.Errorf("too little data: the recording covers %s, and the windows of the policies %s",
			ticks[len(ticks)-1].Time.Sub(ticks[0].Time), longest)
	}
	return nil
}

// memory returns the longest window or period of a policy.
func (p *Policy) memory() time.Duration {
	rules := policy.RulesFor(p.Settings, p.Spec)
	longest := max(rules.Up, rules.Down)
	if p.Spec.Behavior == nil {
		return longest
	}
	for _, direction := range []*policy.ScalingRules{p.Spec.Behavior.ScaleUp, p.Spec.Behavior.ScaleDown} {
		if direction == nil {
			continue
		}
		for i := range direction.Policies {
			longest = max(longest, time.Duration(direction.Policies[i].PeriodSeconds)*time.Second)
		}
	}
	return longest
}

// expectation compares the count of a tick with the previous pass.
type expectation uint8

const (
	asExpected expectation = iota
	manualChange
	// lostWrite means that the count is the same although the pass changed it.
	lostWrite
)

// findManual finds the ticks with another count than the result of the previous pass.
func (s *simulation) findManual() {
	ticks := s.recording.Ticks
	s.manual = make([]expectation, len(ticks))
	if s.recording.CountsUnknown {
		return
	}
	var before *Tick
	for i := range ticks {
		tick := &ticks[i]
		switch {
		case !tick.Readable():
			continue
		case before == nil || tick.Replicas == before.after():
		case tick.Replicas == before.Replicas:
			s.manual[i] = lostWrite
		default:
			s.manual[i] = manualChange
		}
		before = tick
	}
}

// after returns the count after the pass of a readable tick.
func (t *Tick) after() int32 {
	switch {
	case t.Reached != nil:
		return *t.Reached
	case t.Command == nil && t.Prevented != "" && t.Prevented.Covers(t.Replicas, t.Desired):
		return t.Replicas
	}
	return t.Desired
}

// measureLoads computes the load of each metric at each tick.
func (s *simulation) measureLoads() error {
	ticks := s.recording.Ticks
	s.loads, s.low = make([][]float64, len(s.models)), make([]bool, len(ticks))
	for m := range s.models {
		model := &s.models[m]
		s.loads[m] = make([]float64, len(ticks))
		if model.Model == "" { // no policy uses the metric
			continue
		}
		for i := range ticks {
			load, err := s.load(m, &ticks[i])
			if err != nil {
				return fmt.Errorf("metric %q cannot be simulated as %s: %w", model.Name, model.Model, err)
			}
			s.loads[m][i] = load
		}
		if model.Model == Queue {
			if err := s.reconstructArrivals(m); err != nil {
				return fmt.Errorf("metric %q cannot be simulated as a queue: %w", model.Name, err)
			}
			continue
		}
		for i := range ticks {
			capacity := float64(model.CapacityMilli)
			if !s.shared[m] {
				capacity *= float64(ticks[i].serving())
			}
			s.low[i] = s.low[i] || !s.recording.CountsUnknown && s.loads[m][i] >= lowConfidence*capacity
		}
	}
	return nil
}

// noteUnproven adds a note for each metric whose default capacity is above all values that an
// instance had.
func (s *simulation) noteUnproven() {
	for m := range s.models {
		model, highest := &s.models[m], 0.0
		if s.recording.CountsUnknown || s.shared[m] || model.Utilization || model.CapacityMilli == 0 || s.assume.Metrics[model.Name].CapacityMilli != 0 {
			continue
		}
		for i := range s.recording.Ticks {
			if serving := s.recording.Ticks[i].serving(); serving > 0 && s.loads[m][i]/float64(serving) > highest {
				highest = s.loads[m][i] / float64(serving)
			}
		}
		if highest < float64(model.CapacityMilli) {
			s.unproven = append(s.unproven, Note{Time: s.recording.Ticks[0].Time, Text: fmt.Sprintf(
				"metric %s: an instance had at most %s, so that it is not certain that it can carry %s: set its capacity with --assume %s=%s:CAPACITY",
				model.Name, quantity.FormatDecimal(int64(highest)), quantity.FormatDecimal(model.CapacityMilli), model.Name, model.Model)})
		}
	}
}

// lowConfidence is a share of the recorded capacity. A measured load above it is only a lower bound.
const lowConfidence = 0.95

// load returns the load of a metric at a tick.
func (s *simulation) load(m int, tick *Tick) (float64, error) {
	if !tick.Readable() || m >= len(tick.Readings) || tick.Readings[m].Missing {
		return math.NaN(), nil
	}
	reading, model := &tick.Readings[m], &s.models[m]
	milli, groups := float64(reading.Milli), reading.Groups
	switch {
	case model.Model == Fixed:
		return math.NaN(), nil
	case groups == nil && model.Model == Ratio && tick.serving() < 0:
		return 0, errCountsUnknown
	case groups == nil && model.Model == Ratio:
		return milli * max(1, float64(tick.serving())), nil
	case groups == nil:
		return milli, nil
	case groups.Ready == 0:
		return math.NaN(), nil
	}
	carrying := float64(tick.carrying(groups))
	if !model.Utilization {
		return milli / float64(groups.Ready+groups.Extraneous) * carrying, nil
	}
	if reading.Requests == nil || reading.Requests.Ready == 0 {
		return 0, errors.New("the recording contains no requests of the instances, which a utilization needs")
	}
	return milli / float64(reading.Requests.Ready) * full * carrying, nil
}

// compileSchedules returns the parsed schedules of a policy.
func (p *Policy) compileSchedules() (schedule.Rules, error) {
	var rules schedule.Rules
	for i := range p.Schedules {
		rule, errs := schedule.Compile(p.Schedules[i])
		if len(errs) > 0 {
			return nil, fmt.Errorf("schedule %q of %q: %s", p.Schedules[i].Name, p.Label, errs[0].Detail)
		}
		rules = append(rules, rule)
	}
	return rules, nil
}
