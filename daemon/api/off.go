package api

import "github.com/hpad/hpad/policy"

// What keeps hpad from scaling although nothing fails: somebody wanted it so, and
// may have forgotten.
const (
	// Disabled is the problem of an autoscaler that is off (policy.Status.Disabled).
	Disabled = "autoscaling is off: the target has 0 replicas, which its metrics did not ask for; set 1 or more to switch it on"
	// DryRun is the problem of a daemon that writes no counts.
	DryRun = "dry run: no count is written"
	// Off is the problem of an autoscaler whose mode is off.
	Off = `autoscaling is off: mode = "off"`
)

// ModeText is the problem of an autoscaler whose mode is not "on"; empty where it is.
func ModeText(mode policy.Mode) string {
	switch mode {
	case policy.ModeOn:
		return ""
	case policy.ModeOff:
		return Off
	case policy.ModeRecommend:
		return `mode = "recommend": no count is written`
	case policy.ModeUpOnly:
		return `mode = "up-only": metrics scale nothing down`
	case policy.ModeDownOnly:
		return `mode = "down-only": metrics scale nothing up`
	}
	return "mode = " + string(mode)
}
