package policy

import (
	"strings"
	"testing"
)

// TestMissingRequest checks that the error about a missing request contains the name of an
// instance, or its ID if it has no name.
func TestMissingRequest(t *testing.T) {
	for _, instance := range []Instance{{ID: "web-1"}, {ID: strings.Repeat("4f", 32), Name: "web-1"}} {
		if got := missingRequest(&instance, &MetricSpec{Type: ResourceMetric, Name: "cpu"}); !strings.HasPrefix(got, `instance "web-1" states no cpu request`) {
			t.Errorf("missingRequest(%q) = %q, want the name", instance.ID, got)
		}
	}
}
