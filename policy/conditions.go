package policy

import (
	"slices"
	"time"
)

// setCondition returns the list with one condition set, without modifying it. The condition's time
// changes only if its status changes (R77).
func setCondition(list []Condition, now time.Time, kind ConditionType, status ConditionStatus, reason, message string) []Condition {
	at := indexOfCondition(list, kind)
	if at < 0 {
		return append(slices.Clip(list), Condition{Type: kind, Status: status, Since: now, Reason: reason, Message: message})
	}
	condition := list[at]
	if condition.Status != status {
		condition.Status, condition.Since = status, now
	}
	condition.Reason, condition.Message = reason, message
	if condition == list[at] {
		return list
	}
	next := slices.Clone(list)
	next[at] = condition
	return next
}

func findCondition(list []Condition, kind ConditionType) *Condition {
	if at := indexOfCondition(list, kind); at >= 0 {
		return &list[at]
	}
	return nil
}

func indexOfCondition(list []Condition, kind ConditionType) int {
	return slices.IndexFunc(list, func(c Condition) bool { return c.Type == kind })
}

// removeCondition returns the list without a condition, without modifying it.
func removeCondition(list []Condition, kind ConditionType) []Condition {
	at := indexOfCondition(list, kind)
	if at < 0 {
		return list
	}
	return slices.Delete(slices.Clone(list), at, at+1)
}

// Same reports whether two statuses are equal. An unchanged status is not written (R74).
func (a Status) Same(b Status) bool {
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
		sameNumber(a.ValueMilli, b.ValueMilli) &&
		a.FirstFailureTime.Equal(b.FirstFailureTime)
}

func sameNumber[N int32 | int64](a, b *N) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}
