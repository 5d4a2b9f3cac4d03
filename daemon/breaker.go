package daemon

import (
	"fmt"
	"math"
	"time"

	"go.uber.org/zap"

	"github.com/hpad/hpad/daemon/state"
	"github.com/hpad/hpad/policy"
)

// callBallots has the scale-downs of a round counted, of fleets that have a breaker.
func (r *round) callBallots(g *generation) {
	for i := range r.passes {
		fleet := g.config.Fleets[r.passes[i].definition.Target.Fleet]
		if fleet.Breaker == nil {
			continue
		}
		if r.ballots == nil {
			r.ballots = map[string]*ballot{}
		}
		b := r.ballots[fleet.Name]
		if b == nil {
			b = &ballot{fleet: fleet.Name, breaker: *fleet.Breaker, in: g, counted: make(chan struct{}), counts: map[string]int32{}}
			r.ballots[fleet.Name] = b
		}
		b.undecided++
	}
}

// vote tells the breaker of the fleet what the pass decided, once; nil is a pass that came
// to no decision. The last pass of a round to do so has the whole judged.
func (p *pass) vote(decision *policy.Decision) {
	b := p.ballots[p.definition.Target.Fleet]
	if b == nil || p.voted {
		return
	}
	p.voted = true
	b.mu.Lock()
	if decision != nil && decision.Case != policy.CaseUnreadable && !p.after.doubted {
		b.counts[p.autoscaler.name] = decision.CurrentReplicas
		if decision.Write && !p.dryRun && decision.Command == nil { // what a person asks for passes
			p.removes = max(0, int64(decision.CurrentReplicas)-int64(decision.DesiredReplicas))
			if leaves := decision.DesiredReplicas; p.removes > 0 {
				p.autoscaler.leaves.Store(&leaves)
			}
		}
	}
	b.removes += p.removes
	b.undecided--
	last := b.undecided == 0
	b.mu.Unlock()
	if last {
		p.judgeRemovals(b)
		close(b.counted)
	}
}

// awaitBallot returns once all passes of the round have decided that are about the same
// fleet, where the pass takes something away from one with a breaker. What the breaker
// holds is paused then.
func (p *pass) awaitBallot() {
	if p.removes == 0 {
		return
	}
	select {
	case <-p.ballots[p.definition.Target.Fleet].counted:
	case <-p.actContext.Done(): // no write is made either
	}
}

// judgeRemovals counts what a round takes away, or opens the breaker where that is too
// much together with what was taken away within its window.
func (r *round) judgeRemovals(b *ballot) {
	if b.removes == 0 {
		return
	}
	r.breakers.change(b.fleet, b.breaker.Window, r.now, r.recorder, func(removals *state.Removals) {
		removed := removals.Sum()
		base := removed + b.instances()
		if removed+b.removes > b.breaker.Allows(base) && removals.Waived.IsZero() {
			r.openBreaker(b, removed, base)
			return
		}
		removals.Rounds = append(removals.Rounds, state.Removal{Time: r.now, Instances: b.removes})
	})
}

// openBreaker holds all scale-downs of a fleet for the breaker's window.
func (r *round) openBreaker(b *ballot, removed, base int64) {
	share := int64(math.Round(float64(100*(removed+b.removes)) / float64(base)))
	reason := fmt.Sprintf("its autoscalers would take away %d of %d instances (%d%%) within %s, and %s is allowed",
		removed+b.removes, base, share, b.breaker.Window, b.breaker.MaxRemoved)
	pause := policy.Pause{
		Scope: policy.Scope{Fleet: b.fleet, Breaker: true}, Direction: policy.Down, Reason: reason, Since: r.now,
		Until: r.now.Add(b.breaker.Window), Renews: b.removes > b.breaker.Allows(base-removed),
	}
	if last := r.pauses.table.Load().ended[pause.Scope]; removed == 0 && last.pause.Renews && r.now.Sub(last.at) < b.breaker.Window {
		pause.Since = last.pause.Since
	}
	r.pauses.put(pause, r.recorder)
	r.log.Warn("the fleet's breaker holds all scale-downs", zap.String("fleet", b.fleet), zap.String("why", reason),
		zap.Time("since", r.clock.Scale().Wall(pause.Since)), zap.Time("until", r.clock.Scale().Wall(pause.Until)), zap.String("remedy", fmt.Sprintf("hpad resume --fleet %s", b.fleet)))
}

// returnRemoval takes back what was counted of a scale-down that was not made, or only in
// part.
func (p *pass) returnRemoval(outcome policy.Outcome) {
	left := p.removes
	if outcome.Kind == policy.Written {
		left = max(0, int64(outcome.Reached)-int64(p.after.Decision.DesiredReplicas))
	}
	if p.removes > 0 {
		p.returnRemoved(p.now, left)
	}
}

// returnRemoved takes back so many instances of what a round counted that was at a time.
func (p *pass) returnRemoved(round time.Time, instances int64) {
	b := p.ballots[p.definition.Target.Fleet]
	if b == nil || instances <= 0 {
		return
	}
	p.breakers.change(b.fleet, b.breaker.Window, p.clock.Now(), p.recorder, func(removals *state.Removals) {
		for i := range removals.Rounds {
			if removal := &removals.Rounds[i]; removal.Time.Equal(round) {
				removal.Instances -= min(instances, removal.Instances)
			}
		}
	})
}
