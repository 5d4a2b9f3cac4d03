package daemon

import (
	"fmt"
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

// losses returns what of the state was lost so lately that it still bears on decisions
// of a generation, oldest first.
func (d *Daemon) losses(g *generation, now time.Time) []state.Loss {
	var told []state.Loss
	for _, loss := range d.store.Losses() {
		if now.Before(g.toldUntil(loss)) {
			told = append(told, loss)
		}
	}
	return told
}

// toldUntil is when a loss is not told any more.
func (g *generation) toldUntil(loss state.Loss) time.Time {
	return loss.At.Add(max(leastTold, g.longestMemory))
}

// lossText says what of the state was lost; empty when nothing was.
func (d *Daemon) lossText(now time.Time) string {
	var texts []string
	g := d.current.Load()
	for _, loss := range d.losses(g, now) {
		texts = append(texts, fmt.Sprintf("at %s: %s; told until %s",
			loss.At.Format(time.RFC3339), loss.Message, g.toldUntil(loss).UTC().Format(time.RFC3339)))
	}
	return strings.Join(texts, "; ")
}

// lostParts reports of each part of the state whether it was lost lately.
func (d *Daemon) lostParts() map[string]bool {
	lost := make(map[string]bool, len(state.Parts))
	for _, part := range state.Parts {
		lost[string(part)] = false
	}
	for _, loss := range d.losses(d.current.Load(), time.Now()) {
		lost[string(loss.Part)] = true
	}
	return lost
}

// reportLosses logs at each start what is still told.
func (d *Daemon) reportLosses() {
	g := d.current.Load()
	for _, loss := range d.losses(g, time.Now()) {
		d.log.Warn("state was lost or removed lately", zap.String("part", string(loss.Part)), zap.Time("at", loss.At),
			zap.Time("told_until", g.toldUntil(loss)), zap.String("err", loss.Message))
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
	lost := false
	for _, loss := range d.losses(g, time.Now()) {
		lost = lost || loss.Part == state.MemoryPart
	}
	if !lost {
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
