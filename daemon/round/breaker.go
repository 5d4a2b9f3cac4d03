package round

import (
	"fmt"
	"math"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/daemon/state"
	"github.com/hpad/hpad/policy"
)

// fleetRemovals sums the scale-downs of one round in a fleet with a breaker. Instances are removed
// only after all passes have decided, so that the breaker checks the complete sum.
type fleetRemovals struct {
	fleet      string
	breaker    config.Breaker
	generation *Generation
	// counted is closed when all passes have decided.
	counted chan struct{}

	mu        sync.Mutex
	undecided int
	removes   int64
	// counts maps autoscalers to the counts that their passes have read.
	counts map[string]int32
}

// instances returns the current number of instances of the fleet. It uses the counts that this
// round has read, and the lowest possible count of every other autoscaler.
func (f *fleetRemovals) instances() int64 {
	sum := int64(0)
	for name, a := range f.generation.Autoscalers {
		if a.definition.Load().Target.Fleet != f.fleet {
			continue
		}
		count, ok := f.counts[name]
		if !ok {
			count = a.lowestCount()
		}
		sum += int64(count)
	}
	return sum
}

// prepareBreakers prepares the removal sums of the fleets with a breaker.
func (r *round) prepareBreakers(g *Generation) {
	for i := range r.passes {
		fleet := g.Config.Fleets[r.passes[i].definition.Target.Fleet]
		if fleet.Breaker == nil {
			continue
		}
		if r.removals == nil {
			r.removals = map[string]*fleetRemovals{}
		}
		f := r.removals[fleet.Name]
		if f == nil {
			f = &fleetRemovals{fleet: fleet.Name, breaker: *fleet.Breaker, generation: g, counted: make(chan struct{}), counts: map[string]int32{}}
			r.removals[fleet.Name] = f
		}
		f.undecided++
	}
}

func (p *pass) fleetRemovals() *fleetRemovals { return p.round.removals[p.definition.Target.Fleet] }

// countRemovals adds the instances that the decision removes to the fleet's sum. Only the first
// call for a pass has an effect. decision is nil if the pass made no decision. The call for the
// last pass of the fleet checks the breaker.
func (p *pass) countRemovals(decision *policy.Decision) {
	f := p.fleetRemovals()
	if f == nil || p.counted {
		return
	}
	p.counted = true
	f.mu.Lock()
	if decision != nil && decision.Case != policy.CaseUnreadable && (p.after == nil || !p.after.suspect) {
		f.counts[p.autoscaler.Name] = decision.CurrentReplicas
		if decision.Write && !p.env.DryRun && decision.Command == nil { // a user's request bypasses the breaker
			p.removes = max(0, int64(decision.CurrentReplicas)-int64(decision.DesiredReplicas))
			if leaves := decision.DesiredReplicas; p.removes > 0 {
				p.autoscaler.removingTo.Store(&leaves)
			}
		}
	}
	f.removes += p.removes
	f.undecided--
	last := f.undecided == 0
	f.mu.Unlock()
	if last {
		p.round.checkBreaker(f)
		close(f.counted)
	}
}

// awaitBreaker waits for the decisions of all passes of the fleet, if the pass removes instances of
// a fleet with a breaker. An open breaker acts as a pause.
func (p *pass) awaitBreaker() {
	if p.removes == 0 {
		return
	}
	select {
	case <-p.fleetRemovals().counted:
	case <-p.env.WriteContext.Done():
	}
}

// checkBreaker adds the removals of a round to the breaker's sum. If the sum within the window
// would exceed the limit, it opens the breaker instead.
func (r *round) checkBreaker(f *fleetRemovals) {
	if f.removes == 0 {
		return
	}
	r.env.Breakers.Change(f.fleet, f.breaker.Window, r.now, r.env.Recorder, func(removals *state.Removals) {
		removed := removals.Sum()
		base := removed + f.instances()
		if removed+f.removes > f.breaker.Allows(base) && removals.Waived.IsZero() {
			r.openBreaker(f, removed, base)
			return
		}
		removals.Rounds = append(removals.Rounds, state.Removal{Time: r.now, Instances: f.removes})
	})
}

// openBreaker pauses all scale-downs of a fleet for the window of its breaker.
func (r *round) openBreaker(f *fleetRemovals, removed, base int64) {
	share := int64(math.Round(float64(100*(removed+f.removes)) / float64(base)))
	reason := fmt.Sprintf("its autoscalers would remove %d of %d instances (%d%%) within %s, but only %s is allowed",
		removed+f.removes, base, share, f.breaker.Window, f.breaker.MaxRemoved)
	pause := policy.Pause{
		Scope: policy.Scope{Fleet: f.fleet, Breaker: true}, Direction: policy.Down, Reason: reason, Since: r.now,
		Until: r.now.Add(f.breaker.Window),
	}
	r.env.Pauses.Put(pause, r.env.Recorder)
	scale := r.env.Clock.Scale()
	r.env.Log.Warn("breaker opened, scale-downs paused", zap.String("fleet", f.fleet), zap.String("reason", reason),
		zap.Time("since", scale.Wall(pause.Since)), zap.Time("until", scale.Wall(pause.Until)), zap.String("remedy", fmt.Sprintf("hpad resume --fleet %s", f.fleet)))
}

// returnUnmade corrects the breaker's sum: it subtracts the instances that a scale-down did not
// remove.
func (p *pass) returnUnmade(outcome policy.Outcome) {
	unmade := p.removes
	if outcome.Kind == policy.Written {
		unmade = max(0, int64(outcome.Reached)-int64(p.after.Decision.DesiredReplicas))
	}
	if p.removes > 0 {
		p.returnRemovals(p.now(), unmade)
	}
}

// returnRemovals subtracts instances from the breaker's removals for the given round.
func (p *pass) returnRemovals(round time.Time, instances int64) {
	f := p.fleetRemovals()
	if f == nil || instances <= 0 {
		return
	}
	p.env.Breakers.Change(f.fleet, f.breaker.Window, p.env.Clock.Now(), p.env.Recorder, func(removals *state.Removals) {
		for i := range removals.Rounds {
			if removal := &removals.Rounds[i]; removal.Time.Equal(round) {
				removal.Instances -= min(instances, removal.Instances)
			}
		}
	})
}
