package policy_test

import (
	"testing"
	"time"

	"github.com/hpad/hpad/policy"
)

func TestRulesFor(t *testing.T) { // R55, R61
	settings := policy.Settings{DownscaleStabilization: 90*time.Second + 500*time.Millisecond}
	for _, test := range []struct {
		name     string
		behavior *policy.Behavior
		want     policy.WindowRules
	}{
		{"without behavior", nil, policy.WindowRules{Down: settings.DownscaleStabilization}},
		{"the daemon's window is rounded down to seconds", &policy.Behavior{}, policy.WindowRules{Behavior: true, Down: 90 * time.Second}},
		{
			"own windows",
			&policy.Behavior{
				ScaleUp:   &policy.ScalingRules{StabilizationWindowSeconds: new(int32(30))},
				ScaleDown: &policy.ScalingRules{StabilizationWindowSeconds: new(int32(0))},
			},
			policy.WindowRules{Behavior: true, Up: 30 * time.Second},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := policy.RulesFor(settings, policy.Default(policy.Spec{MaxReplicas: 1, Behavior: test.behavior})); got != test.want {
				t.Errorf("RulesFor() = %+v, want %+v", got, test.want)
			}
		})
	}
}
