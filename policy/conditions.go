package policy

import (
	"slices"
	"strings"
	"time"
)

// setCondition answers the list with one condition set: changed in place where
// its type is there, else appended. Its time moves only when its status changes
// (R77). The list is the caller's own to modify.
func setCondition(list []Condition, now time.Time, kind ConditionType, status ConditionStatus, reason string, message ...string) []Condition {
	condition := findCondition(list, kind)
	if condition == nil {
		return append(list, Condition{Type: kind, Status: status, Since: now, Reason: reason, Message: strings.Join(message, "")})
	}
	if condition.Status != status {
		condition.Status, condition.Since = status, now
	}
	condition.Reason = reason
	if !isConcatenation(condition.Message, message) {
		condition.Message = strings.Join(message, "")
	}
	return list
}

// isConcatenation says whether a text is made of these parts; a message that
// did not change is kept instead of being built again.
func isConcatenation(text string, parts []string) bool {
	for _, part := range parts {
		var found bool
		if text, found = strings.CutPrefix(text, part); !found {
			return false
		}
	}
	return text == ""
}

// findCondition is the condition of that type, and nil where there is none.
func findCondition(list []Condition, kind ConditionType) *Condition {
	for i := range list {
		if list[i].Type == kind {
			return &list[i]
		}
	}
	return nil
}

// removeCondition answers the list without the condition of that type. The list
// is the caller's own to modify.
func removeCondition(list []Condition, kind ConditionType) []Condition {
	return slices.DeleteFunc(list, func(c Condition) bool { return c.Type == kind })
}

// copyConditions copies a list, with room for the four types there are.
func copyConditions(list []Condition) []Condition {
	const types = 4
	return append(make([]Condition, 0, max(types, len(list))), list...)
}

// sameStatus says whether two statuses say the same, so that the second need
// not be written (R74).
func sameStatus(a, b *Status) bool {
	return a.CurrentReplicas == b.CurrentReplicas &&
		a.DesiredReplicas == b.DesiredReplicas &&
		a.LastScaleTime.Equal(b.LastScaleTime) &&
		slices.EqualFunc(a.Metrics, b.Metrics, sameMetricStatus) &&
		slices.EqualFunc(a.Conditions, b.Conditions, sameCondition)
}

func sameCondition(a, b Condition) bool {
	return a.Type == b.Type && a.Status == b.Status && a.Reason == b.Reason && a.Message == b.Message && a.Since.Equal(b.Since)
}

func sameMetricStatus(a, b MetricStatus) bool {
	return a.Type == b.Type && a.Name == b.Name && a.Task == b.Task && a.Object == b.Object &&
		sameNumber(a.AverageUtilization, b.AverageUtilization) &&
		sameNumber(a.AverageValueMilli, b.AverageValueMilli) &&
		sameNumber(a.ValueMilli, b.ValueMilli)
}

func sameNumber[N int32 | int64](a, b *N) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}
