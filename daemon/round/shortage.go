package round

import (
	"slices"

	"go.uber.org/zap"

	"github.com/hpad/hpad/daemon/notify"
	"github.com/hpad/hpad/daemon/trouble"
	"github.com/hpad/hpad/policy"
)

// withinRange is the reason of the event that a shortage is over, as of ScalingLimited.
const withinRange = "DesiredWithinRange"

// followShortage publishes the shortage of the pass. When a shortage begins or ends, it logs
// that and returns an event, and it notifies the receivers of a new shortage. Other numbers, or
// a shortage that recurs within minutes, are not repeated.
func (p *pass) followShortage(before *Result) []policy.Event {
	decision, follower := &p.after.Decision, &p.autoscaler.following.shortage
	shortage := decision.Shortage()
	p.after.Shortage = shortage
	growing := shortage != nil && decision.CurrentReplicas < shortage.Max // the maximum may be enough
	if decision.Case != policy.CaseMetrics || p.after.suspect || growing {
		return nil
	}
	cause := ""
	if shortage != nil {
		cause = shortage.Reason
	}
	if !before.Decided() && slices.ContainsFunc(before.Record.Status.Conditions, func(c policy.Condition) bool {
		return c.Type == policy.ScalingLimited && c.Status == policy.ConditionTrue && c.Reason == cause
	}) {
		*follower = trouble.Known(cause, decision.Time) // reported before the restart
	}
	news, flapped := follower.Follow(cause, decision.Time, false)
	if !news {
		return nil
	}
	name, target, wall := p.autoscaler.Name, p.definition.Target, p.env.Clock.Scale().Wall
	fields := append([]zap.Field{zap.String("autoscaler", name), zap.Stringer("target", target)}, follower.Fields(flapped, wall)...)
	if shortage == nil {
		p.env.Log.Info("recommendation within the maximum again", fields...)
		return []policy.Event{{Kind: policy.NormalEvent, Reason: withinRange, Message: "the recommendation is within the maximum again"}}
	}
	p.env.Log.Info("recommendation above the maximum", append(fields, zap.Int32("recommended", shortage.Wanted), zap.Int32("max", shortage.Max), zap.String("reason", cause))...)
	p.env.Receivers.Tell(&notify.Event{
		Kind: notify.Refused, Time: wall(decision.Time), Autoscaler: name, Fleet: target.Fleet, Target: target.String(),
		From: decision.CurrentReplicas, To: shortage.Wanted, Reason: cause, Message: shortage.String(),
	})
	return []policy.Event{{Kind: policy.WarningEvent, Reason: cause, Message: shortage.String()}}
}
