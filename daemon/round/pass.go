package round

import (
	"sync/atomic"
	"time"

	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/daemon/reason"
	"github.com/hpad/hpad/daemon/state"
	"github.com/hpad/hpad/guard"
	"github.com/hpad/hpad/policy"
)

// pass is one evaluation of one autoscaler. One goroutine at a time owns it.
type pass struct {
	round      *round
	env        *Env
	plan       *passPlan
	autoscaler *Autoscaler
	definition *Definition
	// missing counts the reads that have not ended.
	missing atomic.Int32
	// taken is set once: when the pass is ready or skipped.
	taken atomic.Bool
	// released reports whether the pass has released the query results.
	released bool

	// after is nil in a pass that repeats the previous one.
	after *passResult
	// reconfigured reports whether the configuration changed after the previous pass.
	reconfigured bool
	// inputs contains everything that the decision depends on.
	inputs *policy.Inputs
	// request is the unfinished request of a user that the pass carries out.
	request *scaleRequest
	// delayed is the time by which the breaker and the state store delayed the write.
	delayed time.Duration
	// counted reports whether the decision has been counted for the fleet's breaker. removes is the
	// number of instances that the breaker counts.
	counted bool
	removes int64
}

// becomeReady gives the pass to a worker, unless it has been taken already.
func (p *pass) becomeReady() {
	if p.taken.CompareAndSwap(false, true) {
		p.round.ready <- p
	}
}

// skip excludes the pass from the round before its reads start.
func (p *pass) skip() {
	p.taken.Store(true)
	p.releaseResults()
}

// evaluate makes the decision after the reads of the pass have ended, unless the pass repeats the
// previous one. If the decision changes the count, a separate goroutine carries it out. Otherwise the
// pass ends here.
func (p *pass) evaluate() {
	if p.env.RunContext.Err() != nil || p.autoscaler.removed.Load() { // the stop might have interrupted the reads
		p.env.Metrics.Reason(reason.Abandoned)
		p.end()
		return
	}
	repeated := false
	err := guard.Call(func() error {
		if repeated = p.repeats(); !repeated {
			p.begin()
			p.decide()
		}
		return nil
	})
	switch {
	case err != nil:
		p.panicked(err)
		p.end()
	case repeated:
		p.end()
	case p.after.Decision.Write && !p.env.DryRun:
		p.countRemovals(&p.after.Decision)
		p.env.writers.Go(p.scale)
	default:
		p.countRemovals(&p.after.Decision)
		p.conclude(policy.Outcome{})
		p.end()
	}
}

// begin begins a complete pass.
func (p *pass) begin() {
	before := p.autoscaler.completed()
	p.autoscaler.steady = nil
	p.reconfigured = before.Record.Fingerprint != p.definition.Fingerprint
	p.after = &passResult{Result: &Result{Record: recordUnder(&before.Record, p.definition, p.now())}}
}

// decide makes the decision. First, it compares the reading with the record of the previous pass:
// the guard, the outcome of an unfinished write, and changes by external writers. Then it adds the
// decisions of users, which are requests and pauses. A rejected reading settles nothing.
func (p *pass) decide() {
	a, def, after := p.autoscaler, p.definition, p.after
	record := &after.Record
	observation, reading := p.observation()
	p.releaseResults()
	after.Instances = countInstances(observation.Instances)
	record.Restore = record.Restore.Under(&def.Spec, def.OnForeignChange == config.RestoreForeignChange)
	if after.suspect = p.rejectImplausible(&observation, reading); !after.suspect {
		after.extraEvents = p.settleIntention(&observation)
		p.findForeign(&observation)
		p.findStart(&observation)
		if (def.Endpoints != nil || a.followed.Load()) && observation.ReadError == "" {
			a.reading.Store(&accepted{def.Target, reading})
		}
	}
	observation.Restore = record.Restore.Shown()
	p.takeRequest(&observation)
	observation.Pauses, observation.Resumed = p.env.Pauses.Of(a.Name, def.Target.Fleet, p.now(), p.env.Clock.Scale())
	if use := def.cpuUse(&observation); use != nil {
		a.cpuUse.Store(use)
	}
	spec := def.Spec
	spec.Metrics = def.metrics
	p.inputs = &policy.Inputs{
		Settings: def.Settings, Spec: spec, Memory: record.Memory, Status: record.Status, Observation: observation, Now: p.now(),
	}
	after.Decision = p.inputs.Decide()
	after.Victims, after.VictimsError = def.chooseVictims(p.env.WriteContext, &after.Decision, reading)
	after.version = reading.Version
}

func (p *pass) now() time.Time { return p.round.now }

// recordUnder returns the initial record of a pass: the previous pass's record, adapted to the
// current definition. If the target changed, the intention, the restoration and the earlier counts
// are dropped.
func recordUnder(before *state.Record, def *Definition, now time.Time) state.Record {
	record := *before
	if record.Target != def.Target {
		record.Intention, record.ExpectedReplicas, record.Restore, record.LastCounts, record.ImplausibleReadings = nil, nil, nil, nil, 0
		record.Memory.NoReadySince = time.Time{}
		if before.Target.Name != "" && !before.Status.Disabled() { // the 0 of a renamed fleet may be manual
			record.NeverStarted = true
		}
	}
	record.Through, record.Replay = now, nil
	record.Target, record.Labels, record.Fingerprint, record.Digest = def.Target, def.Labels, def.Fingerprint, def.Digest
	return record
}

// end releases the autoscaler and ends the pass.
func (p *pass) end() {
	p.countRemovals(nil)
	if p.removes > 0 {
		p.autoscaler.removingTo.Store(nil)
	}
	p.releaseResults()
	p.abandonRequest()
	p.after, p.inputs = nil, nil // the round can last longer than the pass
	if p.autoscaler.release() {
		p.env.Evaluate(p.autoscaler.Name)
	}
	p.round.end()
}

// releaseResults releases the query results of the pass. Only the first call has an effect.
func (p *pass) releaseResults() {
	if p.released {
		return
	}
	p.released = true
	for _, q := range p.plan.queries {
		if q >= 0 {
			p.round.queries[q].release()
		}
	}
}
