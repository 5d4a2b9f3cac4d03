package daemon

import (
	"slices"
	"strings"

	"go.uber.org/zap"

	"github.com/hpad/hpad/daemon/kinds"
	"github.com/hpad/hpad/daemon/notify"
	"github.com/hpad/hpad/daemon/trouble"
	"github.com/hpad/hpad/policy"
)

// failingConditions returns those of some conditions by which a kind of fleet says that
// instances cannot start, or end by themselves.
func failingConditions(kind string, conditions []policy.Condition) []policy.Condition {
	var failing []policy.Condition
	for _, condition := range conditions {
		if condition.Status == policy.ConditionTrue && slices.Contains(kinds.Fleets[kind].Failing, condition.Type) {
			failing = append(failing, condition)
		}
	}
	return failing
}

// instancesFailing returns what the platform says of instances that cannot start or end
// by themselves, and what identifies it; both empty where there are none.
func instancesFailing(kind string, decision *policy.Decision) (text, cause string) {
	var said, types []string
	for _, notice := range decision.Notices {
		if slices.Contains(kinds.Fleets[kind].Failing, notice.Condition) {
			said, types = append(said, notice.Message), append(types, string(notice.Condition))
		}
	}
	return strings.Join(said, "; "), strings.Join(types, " ")
}

// tellInstances follows whether instances cannot start or end by themselves, and logs and
// tells the receivers that they do, and that it is over: once, as its event and the
// history do. Which of them fail, and how often, is no news.
func (p *pass) tellInstances(before *publication) {
	decision, follower := &p.after.Decision, &p.autoscaler.following.instances
	if decision.Case == policy.CaseUnreadable || p.after.doubted {
		return
	}
	kind := p.definition.kind
	text, cause := instancesFailing(kind, decision)
	if known := failingConditions(kind, before.record.Status.Conditions); !follower.Follows() && len(known) > 0 { // before a restart
		*follower = trouble.Known(string(known[0].Type), known[0].Since)
	}
	news, flapped := follower.Follow(cause, decision.Time, false)
	if !news {
		return
	}
	name, target, wall := p.autoscaler.name, p.definition.Target, p.clock.Scale().Wall
	fields := append([]zap.Field{zap.String("autoscaler", name), zap.Stringer("target", target)}, follower.Fields(flapped, wall)...)
	told := notify.Event{
		Kind: notify.Failed, Time: wall(decision.Time), Autoscaler: name, Fleet: target.Fleet, Target: target.String(),
		From: decision.CurrentReplicas, To: decision.DesiredReplicas, Message: "instances fail: " + text,
	}
	if cause == "" {
		told.Kind, told.Message = notify.Recovered, "instances run again"
		p.log.Info("instances run again", fields...)
	} else {
		p.log.Warn("instances fail", append(fields, zap.String("err", text))...)
	}
	p.receivers.Tell(&told)
}
