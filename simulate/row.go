package simulate

import (
	"context"
	"iter"
	"math"
	"slices"
	"time"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/schedule"
)

// row is the state of one policy during a simulation.
type row struct {
	*simulation
	policy    *Policy
	spec      policy.Spec
	schedules schedule.Rules
	observer  *observer
	// recorded is the index of each metric of the spec in the recording.
	recorded []int
	readings readings

	fleet   fleet
	memory  policy.Memory
	status  policy.Status
	restore *policy.PendingRestoration
	// diverged reports whether the count has left the recorded count. equalSince is when it became
	// equal again; zero if it differs.
	diverged   bool
	equalSince time.Time
	// queues contains the length of each queue in thousandths after the last pass, which was at the
	// instant passed and used tick at. served is the number of ready instances since then.
	queues []float64
	passed time.Time
	at     int
	served int32
	// formula is the load of the formula in thousandths; NaN if it is unknown.
	formula float64
	// before is the count before the last pass, and message describes its decision.
	before  int32
	message string
	scorer  scorer
}

// run simulates one policy. base contains the counts of the first row, or is nil. demand contains the
// number of instances that the load needs at each tick.
func (s *simulation) run(ctx context.Context, p *Policy, base []int32) (out *Row, demand []float64, err error) {
	schedules, err := p.compileSchedules()
	if err != nil {
		return nil, nil, err
	}
	r := &row{
		simulation: s, policy: p, spec: p.Spec, schedules: schedules, at: -1, diverged: s.recording.CountsUnknown,
		fleet:  fleet{startup: s.startup.Duration, drain: s.drain.Duration},
		queues: make([]float64, len(s.models)), formula: math.NaN(), scorer: scorer{step: max(s.recording.Step, p.SyncPeriod)},
	}
	r.spec.Metrics = policy.Compile(p.Spec.Metrics)
	r.observer = newObserver(r.spec.Metrics)
	for i, name := range MetricNames(r.spec.Metrics) {
		if r.spec.Metrics[i].Formula == "" {
			r.recorded = append(r.recorded, slices.Index(s.recording.Metrics, name))
		}
	}
	r.readings = newReadings(len(r.recorded))
	r.begin()
	ticks := len(s.recording.Ticks)
	out = &Row{Label: p.Label, Replicas: make([]int32, 0, ticks), Ready: make([]int32, 0, ticks)}
	var found differences
	passes := 0
	for i, now := range r.passes() {
		if passes++; passes%1000 == 0 && ctx.Err() != nil {
			return nil, nil, ctx.Err()
		}
		message := r.message
		need := r.pass(i, now)
		for j := len(out.Replicas); j <= i; j++ {
			out.Replicas, out.Ready = append(out.Replicas, r.before), append(out.Ready, r.served)
			demand = append(demand, need)
			if base != nil && j >= s.from {
				found.add(s.recording.Ticks[j].Time, base[j], r.before, message)
			}
		}
	}
	for len(out.Replicas) < ticks { // after the last pass of a policy with another sync period
		out.Replicas, out.Ready = append(out.Replicas, r.fleet.replicas), append(out.Ready, r.served)
		demand = append(demand, -1)
	}
	out.Score, out.Moments = r.scorer.finish(r.assume.Price), found.largest()
	if s.recording.CountsUnknown && !slices.ContainsFunc(s.models, func(m MetricModel) bool { return m.Model == Queue }) {
		out.LowConfidence = Measure(math.NaN())
	}
	return out, demand, nil
}

// passes iterates over the instants of the policy's passes, with the index of the last tick. The
// policy makes the recorded passes, unless it has another sync period.
func (r *row) passes() iter.Seq2[int, time.Time] {
	ticks, period := r.recording.Ticks, r.policy.SyncPeriod
	return func(yield func(int, time.Time) bool) {
		own := period > 0 && period != r.recording.Step
		for i := range ticks {
			if own && i >= r.from {
				break
			}
			if !yield(i, ticks[i].Time) {
				return
			}
		}
		if !own {
			return
		}
		i, last := r.from, ticks[len(ticks)-1].Time
		for now := ticks[i].Time; !now.After(last); now = now.Truncate(period).Add(period) {
			for i+1 < len(ticks) && !ticks[i+1].Time.After(now) {
				i++
			}
			if now.Sub(ticks[i].Time) <= holeSteps*r.recording.Step && !yield(i, now) {
				return
			}
		}
	}
}

// begin sets the state before the first pass.
func (r *row) begin() {
	ticks := r.recording.Ticks
	if r.recording.CountsUnknown {
		r.fleet.replicas = max(1, *r.spec.MinReplicas)
		return
	}
	first := slices.IndexFunc(ticks, func(t Tick) bool { return t.Readable() })
	if first < 0 {
		return
	}
	tick := &ticks[first]
	if tick.Replicas == 0 && tick.Case != policy.CaseDisabled { // hpad scaled to 0
		r.memory.Stopped = tick.Case == policy.CaseStopped
		r.status.Conditions = []policy.Condition{{Type: policy.ScaledToZero, Status: policy.ConditionTrue, Since: tick.Time}}
	}
	r.fleet.replicas = tick.Replicas
}

// pass evaluates the policy at an instant, with tick i as the last recorded pass. It returns the
// number of instances that the load needs at the target values of the first policy, or -1.
func (r *row) pass(i int, now time.Time) (need float64) {
	tick, fresh := &r.recording.Ticks[i], i != r.at
	spec, settings := r.spec, r.policy.Settings
	if len(r.schedules) > 0 {
		spec, settings.Mode, _ = r.schedules.At(now, schedule.Unscheduled(spec, settings.Mode)).Apply(spec, settings.Mode)
	}
	r.advance(now)
	r.restore = r.restore.Under(&spec, r.policy.RestoreForeign)
	foreign := r.followManual(i, fresh, &spec, now)
	warm := i < r.from && !r.recording.CountsUnknown
	aligned := r.align(i, fresh, warm, now)
	view := Tick{Replicas: Unknown}
	switch {
	case !tick.Readable():
	case aligned:
		view = *tick
		view.Replicas = r.fleet.replicas
		r.readings.copy(tick.Readings, r.recorded)
	default:
		view = r.derive(i, now)
	}
	if !fresh {
		view.Command = nil
	}
	r.before = r.fleet.replicas
	observation := r.observer.observe(&view, r.readings.values, now)
	observation.Foreign, observation.Restore = foreign, r.restore.Shown()
	decision := policy.Decide(settings, spec, r.memory, r.status, observation, now)
	outcome := recordedOutcome(tick)
	if !warm {
		outcome = r.outcome(tick, &decision, aligned && fresh)
	}
	settlement := policy.Settle(decision, outcome, now)
	r.memory, r.status, r.message = settlement.Memory, settlement.Status, decision.Message
	r.restore = r.restore.After(&decision, outcome, false)
	if outcome.Kind == policy.Written {
		r.fleet.scale(outcome.Reached, now)
	}
	ready, _, draining := r.fleet.at(now)
	if aligned && tick.Readable() && tick.serving() >= 0 {
		ready = min(tick.serving(), r.fleet.replicas)
	}
	r.at, r.passed, r.served = i, now, ready
	state := sample{at: now, replicas: r.fleet.replicas, draining: draining, ready: ready, low: r.low[i]}
	state.atMax = state.replicas >= decision.MaxReplicas
	state.used, state.need = r.demand(i, ready, &decision)
	if i >= r.from {
		r.scorer.add(state, outcome.Kind == policy.Written, decision.CurrentReplicas)
	}
	return state.need
}

// recordedOutcome returns the outcome of a recorded pass.
func recordedOutcome(tick *Tick) policy.Outcome {
	if !tick.Readable() || tick.after() == tick.Replicas {
		return policy.Outcome{}
	}
	return policy.Outcome{Kind: policy.Written, Reached: tick.after()}
}

// outcome returns the outcome of a simulated pass. A recorded write that reached only a part of its
// count does so again.
func (r *row) outcome(tick *Tick, decision *policy.Decision, recorded bool) policy.Outcome {
	switch {
	case !decision.Write:
		return policy.Outcome{}
	case recorded && tick.Reached != nil && tick.Desired == decision.DesiredReplicas:
		return policy.Outcome{Kind: policy.Written, Reached: *tick.Reached}
	}
	return policy.Outcome{Kind: policy.Written, Reached: decision.DesiredReplicas}
}

// followManual applies a recorded change by another writer.
func (r *row) followManual(i int, fresh bool, spec *policy.Spec, now time.Time) *policy.ForeignChange {
	from, to := r.fleet.replicas, r.recording.Ticks[i].Replicas
	if !fresh || r.manual[i] == asExpected || r.manual[i] == lostWrite && r.diverged || from == to {
		return nil
	}
	r.fleet.scale(to, now)
	if r.policy.RestoreForeign && !r.status.Disabled() {
		r.restore = policy.RestoreForeign(r.restore, spec, from, to, now)
	}
	return &policy.ForeignChange{From: from}
}

// align reports whether the pass can use the recorded readings, and then sets the fleet to the
// recorded state. After a difference, the counts must be equal until all starts and drains are over.
func (r *row) align(i int, fresh, warm bool, now time.Time) bool {
	tick := &r.recording.Ticks[i]
	if r.recording.CountsUnknown || !tick.Readable() {
		return !r.diverged
	}
	recorded := tick.Replicas
	if !fresh {
		recorded = tick.after()
	}
	switch equal := warm || r.fleet.replicas == recorded; {
	case !r.diverged || warm:
		r.diverged, r.equalSince = !equal, time.Time{}
	case !equal:
		r.equalSince = time.Time{}
	case r.equalSince.IsZero():
		r.equalSince = now
	case now.Sub(r.equalSince) > r.startup.Duration+r.drain.Duration:
		r.diverged = !r.queuesEqual(i)
	}
	if r.diverged {
		return false
	}
	ready := tick.serving()
	if ready < 0 {
		ready = recorded
	}
	r.fleet.follow(recorded, ready, now)
	for m := range r.queues {
		r.queues[m] = r.loads[m][i]
	}
	return true
}

// demand returns the used part of the capacity of the ready instances, and the number of instances
// that the load needs at the target values of the first policy. They are -1 if the load is unknown.
func (r *row) demand(i int, ready int32, decision *policy.Decision) (used, need float64) {
	used, need = -1, -1
	add := func(load, capacity, target float64, shared bool) {
		if math.IsNaN(load) || capacity <= 0 || target <= 0 {
			return
		}
		carriers := float64(ready)
		if shared { // the value itself, whatever the count
			load *= max(carriers, 1)
		}
		used, need = max(used, ratio(load, capacity*carriers)), max(need, load/target)
	}
	last := len(r.spec.Metrics) - 1
	if r.spec.Metrics[last].Formula != "" {
		shared := r.spec.Metrics[last].Target.AverageValueMilli == nil
		if last < len(decision.Metrics) && decision.Metrics[last].Error == "" {
			r.formula = float64(decision.Metrics[last].InputMilli())
		}
		add(r.formula, float64(r.simulation.formula.CapacityMilli), float64(r.formulaTarget), shared)
		return used, need
	}
	for _, m := range r.recorded {
		load := r.loads[m][i]
		if r.models[m].Model == Queue {
			load = r.queues[m]
		}
		add(load, float64(r.models[m].CapacityMilli), float64(r.targets[m]), r.shared[m])
	}
	return used, need
}

// ratio returns a quotient; 0 without a load, and infinity without a capacity for it.
func ratio(load, capacity float64) float64 {
	if load <= 0 {
		return 0
	}
	return load / capacity
}
