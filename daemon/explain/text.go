// Package explain describes decisions, problems, metrics and instances of an autoscaler for the
// command line and the web page. It only formats recorded results and does not recompute decisions.
package explain

import (
	"fmt"
	"strings"
	"time"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets/clock"
	"github.com/hpad/hpad/targets/drain"
)

// stamp formats a time with its offset from UTC, because time zone names are ambiguous.
func stamp(t time.Time) string { return t.Format("2006-01-02 15:04:05 -0700") }

// Replicas formats a count, for example "1 replica".
func Replicas(count int32) string { return Plural(int(count), "replica") }

// Plural formats a count with its noun, for example "2 queries" for 2 and "query".
func Plural(n int, noun string) string {
	switch {
	case n == 1:
		return "1 " + noun
	case strings.HasSuffix(noun, "y"):
		return fmt.Sprintf("%d %sies", n, strings.TrimSuffix(noun, "y"))
	case strings.HasSuffix(noun, "s"):
		return fmt.Sprintf("%d %s", n, noun)
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// OneLine replaces line breaks and repeated spaces with single spaces.
func OneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// clause prepares a message for use inside a sentence.
func clause(text string) string { return strings.TrimSuffix(OneLine(text), ".") }

// clockText formats a time in the time zone of now. It includes the date unless both times are on
// the same day.
func clockText(at, now time.Time) string {
	if at = at.In(now.Location()); at.Format(time.DateOnly) == now.Format(time.DateOnly) {
		return at.Format(time.TimeOnly)
	}
	return at.Format(time.DateTime)
}

// LabelsText explains why the labels of an autoscaler's target have no effect. It returns "" if
// they have an effect or do not exist.
func LabelsText(view *api.Discovered) string {
	switch {
	case view == nil:
		return ""
	case view.State == api.DiscoveredOverridden:
		return "ignored: the autoscaler in the configuration takes precedence"
	case view.Problem != "":
		return "invalid: " + OneLine(view.Problem)
	}
	return ""
}

// DrainText describes the state of a drain operation on one line. Times are formatted in zone.
func DrainText(operation drain.Operation, zone *time.Location) string {
	text := InstanceText(operation.Instance.ID, operation.Instance.Name) + ": "
	if operation.State == drain.Ended {
		text += fmt.Sprintf("%s at %s", operation.Outcome, stamp(operation.Ended.In(zone)))
	} else {
		text += fmt.Sprintf("%s since %s", operation.State, stamp(operation.Changed.In(zone)))
	}
	if operation.State == drain.Waiting || operation.State == drain.Draining {
		text += ", deadline " + stamp(operation.Deadline.In(zone))
	}
	if operation.Why != "" {
		text += "; canceled: " + OneLine(operation.Why)
	}
	if operation.Error != "" {
		text += "; " + OneLine(operation.Error)
	}
	return text
}

// longestID is the length of the longest ID that people can read, which is a UUID.
const longestID = 36

// InstanceText formats an instance as "NAME (ID)", or as its ID if the name is empty or the same. It
// omits an ID that is longer than a UUID or part of the name.
func InstanceText(id, name string) string {
	switch {
	case name == "":
		return id
	case len(id) > longestID || strings.Contains(name, id):
		return name
	}
	return fmt.Sprintf("%s (%s)", name, id)
}

// StateText formats the state of an instance, for example "Running, not ready".
func StateText(instance *api.Instance) string {
	text := instance.Phase
	switch {
	case instance.Deleting:
		text = "Stopping"
	case instance.Readiness == policy.ReadinessFalse.String():
		text += ", not ready"
	case instance.Readiness == policy.ReadinessTrue.String():
		text += ", ready"
	}
	if instance.Protected {
		text += ", protected"
	}
	return text
}

// UnreadyText formats the reason why an instance has not been ready since a time, which may be zero.
func UnreadyText(reason string, since, now time.Time) string {
	if since.IsZero() {
		return OneLine(reason)
	}
	return fmt.Sprintf("%s (since %s)", OneLine(reason), clockText(since, now))
}

// InstanceUnreadyText returns the reason why an instance is not ready or not removed yet, with the
// output of its health check, or "" if the reason is unknown.
func InstanceUnreadyText(instance *api.Instance, now time.Time) string {
	reason := instance.UnreadyReason
	if reason != "" && instance.HealthOutput != "" {
		reason += ": " + instance.HealthOutput
	}
	if reason == "" {
		return ""
	}
	if instance.Deleting { // the readiness is older
		return OneLine(reason)
	}
	return UnreadyText(reason, clock.Later(instance.ReadinessChanged, instance.Started), now)
}

// MeasuredText formats the value of a metric for an instance. It includes the instance's group
// unless the value implies it.
func MeasuredText(m *api.InstanceMetric) string {
	text, usual := unknown, "missing"
	if m.ValueMilli != nil {
		text, usual = valueText(m.Binary || isMemory(m.Type, m.Name), *m.ValueMilli), "ready"
		if m.Utilization != nil {
			text += fmt.Sprintf(" (%d%%)", *m.Utilization)
		}
	}
	if m.Group != usual {
		text += " " + m.Group
	}
	return text
}
