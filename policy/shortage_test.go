package policy_test

import (
	"testing"

	"github.com/hpad/hpad/policy"
)

func TestShortage(t *testing.T) {
	const none = ""
	for _, test := range []struct {
		name     string
		decision policy.Decision
		want     string
	}{
		{"no recommendation", policy.Decision{MaxReplicas: 2, DesiredReplicas: 2}, none},
		{"at max", policy.Decision{Recommendation: new(int32(61)), MaxReplicas: 2, DesiredReplicas: 2}, "wants 61, max 2"},
		{"max is enough", policy.Decision{Recommendation: new(int32(2)), MaxReplicas: 2, DesiredReplicas: 2}, none},
		{"only the window holds the count at max", policy.Decision{Recommendation: new(int32(1)), MaxReplicas: 2, DesiredReplicas: 2}, none},
		{"a rate limit keeps the count below max", policy.Decision{Recommendation: new(int32(61)), MaxReplicas: 20, DesiredReplicas: 8}, none},
		{"platform's maximum", policy.Decision{Recommendation: new(int32(61)), MaxReplicas: 20, DesiredReplicas: 5, PlatformMax: new(int32(5))}, "wants 61, max 5 (PlatformMax)"},
		{"above the platform's maximum", policy.Decision{Recommendation: new(int32(61)), MaxReplicas: 20, DesiredReplicas: 7, PlatformMax: new(int32(5))}, "wants 61, max 5 (PlatformMax)"},
		{"the platform's maximum is higher", policy.Decision{Recommendation: new(int32(61)), MaxReplicas: 20, DesiredReplicas: 20, PlatformMax: new(int32(50))}, "wants 61, max 20"},
	} {
		got := none
		if shortage := test.decision.Shortage(); shortage != nil {
			got = shortage.String()
		}
		if got != test.want {
			t.Errorf("%s: shortage %q, want %q", test.name, got, test.want)
		}
	}
}
