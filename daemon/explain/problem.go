package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/policy"
)

// ownConditions are those of every autoscaler; the others are what its platform
// says.
var ownConditions = []policy.ConditionType{policy.AbleToScale, policy.ScalingActive, policy.ScalingLimited, policy.ScaledToZero, policy.ForeignWriter, policy.Paused}

// maxProblem is how many letters of a problem fit in a table.
const maxProblem = 140

// Problem says in a few words what keeps an autoscaler from doing its work, what people
// decided first; empty when nothing does.
func Problem(view api.Autoscaler, now time.Time) string {
	var all []string
	for _, pause := range view.Pauses {
		all = append(all, Short(pause.Message))
	}
	if trouble := troubleOf(view, now); trouble != "" {
		all = append(all, trouble)
	} else if len(all) == 0 && view.Mode != policy.ModeOn {
		all = append(all, api.ModeText(view.Mode))
	}
	if isShort(&view.Evaluation, now) {
		all = append(all, view.Evaluation.Shortage.String())
	}
	return strings.Join(all, "; ")
}

// Fails reports whether an autoscaler cannot do all of its work, or something of its target
// fails; what people decided is no failure.
func Fails(view api.Autoscaler, now time.Time) bool {
	switch troubleOf(view, now) {
	case "", api.Off, api.Disabled, api.DryRun:
		return isShort(&view.Evaluation, now)
	}
	return true
}

// isShort reports whether the metrics want more replicas than the maximum, as of a pass that
// is not outdated.
func isShort(e *api.Evaluation, now time.Time) bool {
	return e.Shortage != nil && !e.Unevaluated && !e.QuarantinedUntil.After(now)
}

// troubleOf is Problem without what people decided of the autoscaler while it works.
func troubleOf(view api.Autoscaler, now time.Time) string {
	evaluation := view.Evaluation
	switch {
	case evaluation.QuarantinedUntil.After(now):
		return "quarantined for " + duration.HumanDuration(evaluation.QuarantinedUntil.Sub(now)) + Because(evaluation.Error)
	case evaluation.Unevaluated && evaluation.Last.IsZero():
		return "not evaluated" + Because(evaluation.Error)
	case evaluation.Unevaluated:
		return "not evaluated for " + duration.HumanDuration(now.Sub(evaluation.Last)) + Because(evaluation.Error)
	}
	if view.Mode == policy.ModeOff {
		return api.Off
	}
	told := platformText(view)
	if told != "" && view.Instances.Ready == 0 && !unscalable(view) {
		return told // which is why there is nothing to measure
	}
	for _, condition := range view.Status.Conditions {
		failed := condition.Status == policy.ConditionFalse &&
			(condition.Type == policy.AbleToScale || condition.Type == policy.ScalingActive && !view.Status.Disabled())
		if failed {
			return condition.Reason + Because(cmp.Or(evaluation.Error, condition.Message))
		}
	}
	if view.Status.Disabled() {
		return api.Disabled
	}
	if told != "" {
		return told
	}
	switch instances := view.Instances; {
	case instances.Ready == 0 && instances.Unready+instances.Pending+instances.Failed > 0:
		return "no instance is ready: " + InstancesText(instances) + Because(evaluation.Error)
	case evaluation.Error != "":
		return Short(evaluation.Error)
	case view.Discovery != nil && view.Discovery.State == api.DiscoveredMistaken:
		return "labels: " + Short(view.Discovery.Problem)
	case evaluation.DryRun:
		return api.DryRun
	case evaluation.StateLost != "":
		return "state " + Short(evaluation.StateLost)
	}
	return ""
}

// unscalable reports whether the target cannot be read or written.
func unscalable(view api.Autoscaler) bool {
	return slices.ContainsFunc(view.Status.Conditions, func(condition policy.Condition) bool {
		return condition.Type == policy.AbleToScale && condition.Status == policy.ConditionFalse
	})
}

// platformText returns the first of what the platform says of the target; empty when it
// says nothing.
func platformText(view api.Autoscaler) string {
	for _, condition := range view.Status.Conditions {
		if condition.Status == policy.ConditionTrue && !slices.Contains(ownConditions, condition.Type) {
			return string(condition.Type) + Because(condition.Message)
		}
	}
	return ""
}

// Because returns a shortened cause to follow what it is the cause of; empty where
// there is none.
func Because(cause string) string {
	if cause == "" {
		return ""
	}
	return ": " + Short(cause)
}

// Short cuts a text to one line that fits in a table. An error begins with what
// failed and ends with why, as links of a chain: what is left out is whole links in
// between, and only of a last link that is too long by itself the end.
func Short(text string) string {
	text = OneLine(text)
	if fits(text) {
		return text
	}
	const joint, left = ": ", ": …: "
	links := linksOf(text, joint)
	why := links[len(links)-1]
	for i := len(links) - 2; i > 0 && fits(links[0]+left+links[i]+joint+why); i-- {
		why = links[i] + joint + why
	}
	if len(links) > 2 && utf8.RuneCountInString(links[0]+left) <= maxProblem/2 {
		text = links[0] + left + why
	}
	if fits(text) {
		return text
	}
	letters := []rune(text)[:maxProblem-1]
	if space := strings.LastIndexByte(string(letters), ' '); space > 0 {
		return string(letters)[:space] + "…"
	}
	return string(letters) + "…"
}

// linksOf splits an error into its links. What is quoted is no link, and belongs to
// the one before.
func linksOf(text, joint string) []string {
	var links []string
	begin, quoted := 0, false
	for i := 0; i < len(text); i++ {
		switch {
		case quoted && text[i] == '\\':
			i++
		case text[i] == '"':
			quoted = !quoted
		case !quoted && strings.HasPrefix(text[i:], joint) && !strings.HasPrefix(text[i+len(joint):], `"`):
			links = append(links, text[begin:i])
			begin = i + len(joint)
		}
	}
	return append(links, text[begin:])
}

func fits(text string) bool { return utf8.RuneCountInString(text) <= maxProblem }

// InstancesText counts instances by their state; states that none is in are left
// out, but for ready.
func InstancesText(n api.Instances) string {
	text := []string{fmt.Sprintf("%d ready", n.Ready)}
	for _, state := range []struct {
		count int
		word  string
	}{
		{n.Unready, "unready"}, {n.Pending, "pending"}, {n.Failed, "failed"}, {n.Succeeded, "succeeded"}, {n.Deleting, "stopping"},
	} {
		if state.count > 0 {
			text = append(text, fmt.Sprintf("%d %s", state.count, state.word))
		}
	}
	return strings.Join(text, ", ")
}
