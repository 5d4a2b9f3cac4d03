package round

import (
	"slices"
	"strings"

	"go.uber.org/zap"

	"github.com/hpad/hpad/daemon/kinds"
	"github.com/hpad/hpad/daemon/notify"
	"github.com/hpad/hpad/daemon/trouble"
	"github.com/hpad/hpad/policy"
)

// FailingConditions returns the conditions of a kind of fleet that report instances which cannot
// start or end unexpectedly.
func FailingConditions(kind string, conditions []policy.Condition) []policy.Condition {
	var failing []policy.Condition
	for _, condition := range conditions {
		if condition.Status == policy.ConditionTrue && slices.Contains(kinds.Fleets[kind].Failing, condition.Type) {
			failing = append(failing, condition)
		}
	}
	return failing
}

// instancesFailing returns the messages of such conditions and a key for them; both may be empty.
func instancesFailing(kind string, decision *policy.Decision) (text, cause string) {
	var messages, types []string
	for _, notice := range decision.Notices {
		if slices.Contains(kinds.Fleets[kind].Failing, notice.Condition) {
			messages, types = append(messages, notice.Message), append(types, string(notice.Condition))
		}
	}
	return strings.Join(messages, "; "), strings.Join(types, " ")
}

// followInstanceFailures logs and notifies when instances begin to fail and when they recover. The
// failing instances and their number are no news.
func (p *pass) followInstanceFailures(before *Result) {
	decision, follower := &p.after.Decision, &p.autoscaler.following.instances
	if decision.Case == policy.CaseUnreadable || p.after.suspect {
		return
	}
	kind := p.definition.Kind
	text, cause := instancesFailing(kind, decision)
	if known := FailingConditions(kind, before.Record.Status.Conditions); !follower.Follows() && len(known) > 0 { // reported before a restart
		*follower = trouble.Known(string(known[0].Type), known[0].Since)
	}
	news, flapped := follower.Follow(cause, decision.Time, false)
	if !news {
		return
	}
	name, target, wall := p.autoscaler.Name, p.definition.Target, p.env.Clock.Scale().Wall
	fields := append([]zap.Field{zap.String("autoscaler", name), zap.Stringer("target", target)}, follower.Fields(flapped, wall)...)
	event := notify.Event{
		Kind: notify.Failed, Time: wall(decision.Time), Autoscaler: name, Fleet: target.Fleet, Target: target.String(),
		From: decision.CurrentReplicas, To: decision.DesiredReplicas, Message: "instances fail: " + text,
	}
	if cause == "" {
		event.Kind, event.Message = notify.Recovered, "instances run again"
		p.env.Log.Info("instances run again", fields...)
	} else {
		p.env.Log.Warn("instances fail", append(fields, zap.String("err", text))...)
	}
	p.env.Receivers.Tell(&event)
}

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
