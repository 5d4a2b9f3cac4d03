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

// FailingConditions returns the conditions by which a kind of fleet reports that instances cannot
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

// instancesFailing returns the messages of such conditions and a key for them; both are empty if
// there are none.
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
