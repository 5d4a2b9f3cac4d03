package explain

import (
	"fmt"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/settings/quantity"
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

// MeasuredText is what was measured of an instance, and how it counts where that is not as
// it would be otherwise.
func MeasuredText(m *policy.Measured) string {
	if m.ValueMilli == nil {
		return unknown + countsAs(m.Group, "missing")
	}
	text := quantity.FormatDecimal(*m.ValueMilli)
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
