package daemon

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/hpad/hpad/daemon/state"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
)

// leastTold is for how long a loss of state is told at least: whoever scrapes must have
// a chance to see it.
const leastTold = 5 * time.Minute

// longestMemory is how long after a loss the autoscaler may still miss what was lost:
// its longest window or period.
func (d *definition) longestMemory() time.Duration {
	longest := max(d.rules.Up, d.rules.Down)
	if d.Spec.Behavior == nil {
		return longest
	}
	for _, rules := range []*policy.ScalingRules{d.Spec.Behavior.ScaleUp, d.Spec.Behavior.ScaleDown} {
		if rules == nil {
			continue
		}
		for _, p := range rules.Policies {
			longest = max(longest, time.Duration(p.PeriodSeconds)*time.Second)
		}
	}
	return longest
}

// recentLoss is a loss that still bears on decisions.
type recentLoss struct {
	state.Loss
	// until is when it does not any more, by the wall clock.
	until time.Time
}

// losses returns what of the state was lost so lately that it still bears on decisions
// of a generation, oldest first. How long ago that is the steady clock measures.
func (d *Daemon) losses(g *generation) []recentLoss {
	var recent []recentLoss
	for _, loss := range d.store.Losses() {
		scale, now := d.clock.Scale(), d.clock.Now()
		until := scale.Happened(loss.At, now).Add(max(leastTold, g.longestMemory))
		if now.Before(until) {
			recent = append(recent, recentLoss{Loss: loss, until: scale.Wall(until).UTC()})
		}
	}
	return recent
}

// lossText says what of the state was lost; empty when nothing was.
func (d *Daemon) lossText() string {
	var texts []string
	for _, loss := range d.losses(d.current.Load()) {
		texts = append(texts, fmt.Sprintf("at %s: %s; shown until %s",
			loss.At.Format(time.RFC3339), loss.Message, loss.until.Format(time.RFC3339)))
	}
	return strings.Join(texts, "; ")
}

// lostParts reports of each part of the state whether it was lost lately.
func (d *Daemon) lostParts() map[string]bool {
	lost := make(map[string]bool, len(state.Parts))
	for _, part := range state.Parts {
		lost[string(part)] = false
	}
	for _, loss := range d.losses(d.current.Load()) {
		lost[string(loss.Part)] = true
	}
	return lost
}

// reportLosses logs at each start what is still told.
func (d *Daemon) reportLosses() {
	for _, loss := range d.losses(d.current.Load()) {
		d.log.Warn("state was lost or removed lately", zap.String("part", string(loss.Part)), zap.Time("at", loss.At),
			zap.Time("told_until", loss.until), zap.String("err", loss.Message))
	}
}

// earlierCount returns the count that the history knows of a target whose count was in
// state that was lost; false where none was, or nothing is known. It is at most the
// highest count of the target's autoscaler.
func (d *Daemon) earlierCount(ref targets.Ref) (int32, bool) {
	g := d.starting.Load()
	if g == nil {
		g = d.current.Load()
	}
	if !slices.ContainsFunc(d.losses(g), func(loss recentLoss) bool { return loss.Part == state.MemoryPart }) {
		return 0, false
	}
	for name, a := range g.config.Autoscalers {
		if a.Target != ref {
			continue
		}
		count, told, err := d.store.LastCount(d.runContext, name)
		if err != nil {
			d.log.Warn("the count before the state was lost is not known", zap.String("autoscaler", name), zap.NamedError("err", err))
		}
		if err != nil || !told {
			return 0, false
		}
		count = min(count, a.Spec.MaxReplicas)
		d.log.Info("the state of a target was lost; its count is that of the history",
			zap.String("autoscaler", name), zap.Stringer("target", ref), zap.Int32("replicas", count))
		return count, true
	}
	return 0, false
}
