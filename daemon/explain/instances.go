package explain

import (
	"fmt"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/policy"
)

// StateText is what an instance is, as "Running, not ready".
func StateText(one *api.Instance) string {
	text := one.Phase
	switch {
	case one.Deleting:
		text = "Stopping"
	case one.Readiness == policy.ReadinessFalse.String():
		text += ", not ready"
	case one.Readiness == policy.ReadinessTrue.String():
		text += ", ready"
	}
	if one.Protected {
		text += ", protected"
	}
	return text
}

// MeasuredText returns the value that a metric measured for an instance, and the group that
// it counts in if that is unusual.
func MeasuredText(m *api.InstanceMetric) string {
	if m.ValueMilli == nil {
		return unknown + countsAs(m.Group, "missing")
	}
	text := valueText(m.Type, m.Name, *m.ValueMilli)
	if m.Utilization != nil {
		text += fmt.Sprintf(" (%d%%)", *m.Utilization)
	}
	return text + countsAs(m.Group, "ready")
}

func countsAs(group, usual string) string {
	if group == usual {
		return ""
	}
	return " " + group
}
