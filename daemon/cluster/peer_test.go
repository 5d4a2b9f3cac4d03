package cluster

import (
	"testing"
	"time"

	"github.com/hpad/hpad/daemon/api"
)

// TestOutdatedText checks that the age from which a status has a note is two sync periods, but not less
// than the age that a list of another member can have.
func TestOutdatedText(t *testing.T) {
	ahead := time.Minute
	for _, test := range []struct {
		period      float64
		age         time.Duration
		offset      *time.Duration
		unevaluated bool
		want        bool
	}{
		{1, 6 * time.Second, nil, false, false},
		{1, 11 * time.Second, nil, false, true},
		{15, 29 * time.Second, nil, false, false},
		{15, 31 * time.Second, nil, false, true},
		{300, 9 * time.Minute, nil, false, false},
		{300, 11 * time.Minute, nil, false, true},
		{15, 31 * time.Second, nil, true, false},
		{15, 29*time.Second - ahead, &ahead, false, false},
		{15, 31*time.Second - ahead, &ahead, false, true},
	} {
		a := api.Autoscaler{SyncPeriodSeconds: test.period}
		a.Evaluation.Last, a.Evaluation.Unevaluated = time.Now().Add(-test.age), test.unevaluated
		p := &peer{name: "b", offset: test.offset}
		if text := p.outdatedText(&a); (text != "") != test.want {
			t.Errorf("period %v s, age %s, offset %v: %q, want a note: %t", test.period, test.age, test.offset, text, test.want)
		}
	}
}
