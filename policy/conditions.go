package policy

import (
	"slices"
	"strings"
	"time"
)

// setCondition returns the list with one condition set: in its place where its
// type is there, else appended. Its time moves only when its status changes
// (R77). It never modifies list, and returns it as it is where nothing changes,
// as in most passes; only then is nothing copied and no message built.
func setCondition(list []Condition, now time.Time, kind ConditionType, status ConditionStatus, reason string, message ...string) []Condition {
	at := indexOfCondition(list, kind)
	if at < 0 {
		return append(slices.Clip(list), Condition{Type: kind, Status: status, Since: now, Reason: reason, Message: strings.Join(message, "")})
	}
	before := &list[at]
	if before.Status == status && before.Reason == reason && isConcatenation(before.Message, message) {
		return list
	}
	next := slices.Clone(list)
	condition := &next[at]
	if condition.Status != status {
		condition.Status, condition.Since = status, now
	}
	condition.Reason, condition.Message = reason, strings.Join(message, "")
	return next
}

// isConcatenation reports whether a text is made of these parts.
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
	if at := indexOfCondition(list, kind); at >= 0 {
		return &list[at]
	}
	return nil
}

// indexOfCondition is where the condition of that type is, and -1 where there
// is none.
func indexOfCondition(list []Condition, kind ConditionType) int {
	for i := range list {
		if list[i].Type == kind {
			return i
		}
	}
	return -1
}

// removeCondition returns the list without the condition of that type. It never
// modifies list.
func removeCondition(list []Condition, kind ConditionType) []Condition {
	at := indexOfCondition(list, kind)
	if at < 0 {
		return list
	}
	return slices.Delete(slices.Clone(list), at, at+1)
}

// Same reports whether two statuses say the same, so that the second need not be
// written (R74).
func (s Status) Same(other Status) bool { return sameStatus(&s, &other) }

func sameStatus(a, b *Status) bool {
	return a.CurrentReplicas == b.CurrentReplicas &&
		a.DesiredReplicas == b.DesiredReplicas &&
		a.LastScaleTime.Equal(b.LastScaleTime) &&
		slices.EqualFunc(a.Metrics, b.Metrics, sameMetricStatus) &&
		sameConditions(a.Conditions, b.Conditions)
}

// sameConditions compares two lists, which mostly are one and the same.
func sameConditions(a, b []Condition) bool {
	if len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0]) {
		return true
	}
	return slices.EqualFunc(a, b, sameCondition)
}

func sameCondition(a, b Condition) bool {
	return a.Type == b.Type && a.Status == b.Status && a.Reason == b.Reason && a.Message == b.Message && a.Since.Equal(b.Since)
}

func sameMetricStatus(a, b MetricStatus) bool {
	return a.Type == b.Type && a.Name == b.Name && a.Task == b.Task && a.Object == b.Object &&
		sameNumber(a.AverageUtilization, b.AverageUtilization) &&
		sameNumber(a.AverageValueMilli, b.AverageValueMilli) &&
		sameNumber(a.ValueMilli, b.ValueMilli) &&
		a.FirstFailureTime.Equal(b.FirstFailureTime)
}

func sameNumber[N int32 | int64](a, b *N) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}
