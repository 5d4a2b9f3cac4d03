package show

import (
	"strings"
	"testing"
	"time"

	"github.com/hpad/hpad/daemon/api"
)

// TestUndecidedAutoscaler checks that an autoscaler without a decision is attributed to an owner
// that does not respond only if its status is from the cluster store.
func TestUndecidedAutoscaler(t *testing.T) {
	now := time.Now()
	for name, test := range map[string]struct {
		evaluation api.Evaluation
		want       bool
	}{
		"owner does not respond": {api.Evaluation{Unevaluated: true, Error: "member m2, which owns the fleet, does not respond"}, true},
		"quarantined":            {api.Evaluation{Unevaluated: true, Error: "panic", Next: now.Add(time.Minute), QuarantinedUntil: now.Add(time.Minute)}, false},
	} {
		t.Run(name, func(t *testing.T) {
			var text strings.Builder
			if err := Autoscaler(&text, api.Autoscaler{Evaluation: test.evaluation}, api.InstanceList{}, 0, now); err != nil {
				t.Fatal(err)
			}
			if got := strings.Contains(text.String(), "only the owner of the fleet has them"); got != test.want {
				t.Errorf("output refers to the owner = %t, want %t:\n%s", got, test.want, text.String())
			}
		})
	}
}
