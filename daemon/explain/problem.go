package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/reason"
	"github.com/hpad/hpad/policy"
)

// ownConditions lists the condition types that hpad sets. Other types come from the platform.
var ownConditions = []policy.ConditionType{policy.AbleToScale, policy.ScalingActive, policy.ScalingLimited, policy.ScaledToZero, policy.ForeignWriter, policy.Paused}

// maxEnd is the number of characters that Short keeps at each end of a long text.
const maxEnd = 500

// Problem summarizes the problems of an autoscaler, pauses first. It returns "" if there are none.
func Problem(view api.Autoscaler, now time.Time) string {
	var all []string
	for _, pause := range view.Pauses {
		all = append(all, Short(pause.Message))
	}
	text := problemText(view, now)
	if (text == "" && len(all) == 0 || text == api.Off) && view.Mode != policy.ModeOn {
		schedule := ""
		if view.Schedules != nil {
			schedule = view.Schedules.Mode
		}
		text = api.ModeText(view.Mode, schedule)
	}
	if text != "" {
		all = append(all, text)
	}
	if code := reason.NoReadyInstance.String(); view.Evaluation.Reason == code && !view.Evaluation.Unevaluated {
		all = append(all, code+": the metrics do not lower the count")
	}
	if isShort(&view.Evaluation, now) {
		all = append(all, view.Evaluation.Shortage.String())
	}
	return strings.Join(all, "; ")
}

// Fails reports whether an autoscaler has a problem, such as a maximum below the desired count. It
// ignores pauses and modes, because operators choose them.
func Fails(view api.Autoscaler, now time.Time) bool {
	switch problemText(view, now) {
	case "", api.Off, api.Disabled, api.DryRun:
		return isShort(&view.Evaluation, now)
	}
	return true
}

// isShort reports whether the metrics required more replicas than the maximum in a recent pass.
func isShort(e *api.Evaluation, now time.Time) bool {
	return e.Shortage != nil && !e.Unevaluated && !e.QuarantinedUntil.After(now)
}

// problemText returns the most important problem. It ignores pauses, recommend mode and shortages.
func problemText(view api.Autoscaler, now time.Time) string {
	evaluation := view.Evaluation
	switch {
	case evaluation.QuarantinedUntil.After(now):
		return "quarantined for " + duration.HumanDuration(evaluation.QuarantinedUntil.Sub(now)) + Because(evaluation.Error)
	case evaluation.Unevaluated && evaluation.Last.IsZero():
		return "not evaluated" + Because(evaluation.Error)
	case evaluation.Unevaluated:
		return "status as of " + asOf(evaluation.Last, now) + ", " + SinceText(&evaluation) + Because(evaluation.Error)
	}
	if view.Mode == policy.ModeOff {
		return api.Off
	}
	platform := platformText(view)
	if platform != "" && view.Instances.Ready == 0 && !unscalable(view) {
		return platform // it is the cause of the missing measurements
	}
	for _, condition := range view.Status.Conditions {
		failed := condition.Status == policy.ConditionFalse &&
			(condition.Type == policy.AbleToScale || condition.Type == policy.ScalingActive && !view.Status.Disabled())
		if failed {
			text := condition.Reason + Because(cmp.Or(evaluation.Error, condition.Message))
			if platform != "" {
				text += "; " + platform
			}
			return text
		}
	}
	if view.Status.Disabled() {
		return api.Disabled
	}
	if platform != "" {
		return platform
	}
	switch instances := view.Instances; {
	case instances.Ready == 0 && instances.Unready+instances.Pending+instances.Failed > 0:
		return "no instance is ready: " + InstancesText(instances) + Because(evaluation.Error)
	case evaluation.Error != "":
		return Short(evaluation.Error)
	case view.Discovery != nil && view.Discovery.State == api.DiscoveredInvalid:
		return "labels: " + Short(view.Discovery.Problem)
	case evaluation.Partial != "":
		return Short(evaluation.Partial)
	case evaluation.DryRun:
		return api.DryRun
	case evaluation.StateLost != "":
		return "state " + Short(evaluation.StateLost)
	}
	return ""
}

// SinceText describes what happened after the last known evaluation of an unevaluated autoscaler. If
// the status is from the cluster store, the owner of the fleet may have evaluated it since then.
func SinceText(e *api.Evaluation) string {
	if e.IsFromStore() {
		return "from the cluster store"
	}
	return "not evaluated since"
}

// asOf formats a time with its age. It omits the date of the last 12 hours.
func asOf(at, now time.Time) string {
	age, text := now.Sub(at), stamp(at.In(now.Location()))
	if age < 12*time.Hour {
		text = at.In(now.Location()).Format(time.TimeOnly)
	}
	return text + " (" + duration.HumanDuration(age) + " ago)"
}

// unscalable reports whether the target cannot be read or written.
func unscalable(view api.Autoscaler) bool {
	return slices.ContainsFunc(view.Status.Conditions, func(condition policy.Condition) bool {
		return condition.Type == policy.AbleToScale && condition.Status == policy.ConditionFalse
	})
}

// platformText returns all conditions that the platform reports, or "".
func platformText(view api.Autoscaler) string {
	var all []string
	for _, condition := range view.Status.Conditions {
		if condition.Status == policy.ConditionTrue && !slices.Contains(ownConditions, condition.Type) {
			all = append(all, string(condition.Type)+Because(condition.Message))
		}
	}
	return strings.Join(all, "; ")
}

// Because returns ": " followed by the shortened cause, or "" if the cause is empty.
func Because(cause string) string {
	if cause == "" {
		return ""
	}
	return ": " + Short(cause)
}

// Short returns a message on one line and removes the middle if it is too long. Errors begin with
// the operation and end with the cause, so both ends matter.
func Short(text string) string {
	text = OneLine(text)
	runes := []rune(text)
	if len(runes) <= 2*maxEnd {
		return text
	}
	return strings.TrimSpace(string(runes[:maxEnd])) + " … " + strings.TrimSpace(string(runes[len(runes)-maxEnd:]))
}

// InstancesText formats the number of instances in each state. It omits states without instances,
// except "ready".
func InstancesText(n api.Instances) string {
	text := []string{fmt.Sprintf("%d ready", n.Ready)}
	for _, state := range []struct {
		count int32
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
