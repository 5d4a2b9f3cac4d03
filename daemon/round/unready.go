package round

import (
	"cmp"
	"fmt"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/daemon/explain"
	"github.com/hpad/hpad/daemon/redact"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/clock"
)

// InstancesUnready is the condition of a target with instances that have not been ready for
// unready_after, and NotReady is its reason.
const (
	InstancesUnready = policy.ConditionType("InstancesUnready")
	NotReady         = "NotReady"
)

// maxReason is the maximum number of characters in the reason why an instance is not ready.
const maxReason = 200

// shownReason returns a reason of the platform on one line, without secrets, and at most maxReason
// characters long.
func shownReason(text string) string {
	letters := []rune(redact.Text(targets.Phrase(text)))
	if len(letters) > maxReason {
		letters = append(letters[:maxReason-1], '…')
	}
	return string(letters)
}

// isUnready reports whether an instance exists, has not ended, and is not ready.
func isUnready(i policy.Instance) bool {
	var n api.Instances
	n.Add(i.Phase.String(), i.Readiness.String(), i.Deleting)
	return n.Unready+n.Pending > 0
}

// unreadyNotice returns a notice about the instances that have not been ready for unready_after,
// or nil. It omits failing instances, which the platform reports. The argument instances is
// reading.Instances with monotonic times.
func (p *pass) unreadyNotice(reading *targets.Reading, instances []policy.Instance) *policy.Notice {
	limit := config.DefaultUnreadyAfter
	if given := p.definition.UnreadyAfter; given != nil {
		limit = *given
	}
	if limit == 0 {
		return nil
	}
	scale, counted := p.env.Clock.Scale(), 0
	now := scale.Wall(p.now())
	var texts []string
	for i := range instances {
		instance := &instances[i]
		if !instance.Deleting && instance.Phase != policy.PhaseSucceeded {
			counted++
		}
		since := clock.Later(instance.ReadinessChanged, instance.StartedAt)
		if !isUnready(*instance) || since.IsZero() || p.now().Sub(since) < limit {
			continue
		}
		var at targets.Location
		if reading.Locations != nil {
			at = reading.Locations.At(i)
		}
		if at.Failing {
			continue
		}
		why := cmp.Or(shownReason(at.UnreadyReason), instance.Phase.String())
		texts = append(texts, reading.NameOf(i)+": "+explain.UnreadyText(why, scale.Wall(since), now))
	}
	if len(texts) == 0 {
		return nil
	}
	return &policy.Notice{Condition: InstancesUnready, Reason: NotReady, Message: fmt.Sprintf("%d of %s not ready for %v or longer (unready_after): %s",
		len(texts), explain.Plural(counted, "instance"), limit, targets.FirstThree(texts, "; "))}
}
