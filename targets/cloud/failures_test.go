package cloud

import (
	"testing"
	"time"

	"github.com/hpad/hpad/policy"
)

// TestFailures: a failure is shown until its time, and beyond as long as it lasts.
func TestFailures(t *testing.T) {
	var f Failures[string]
	now := time.Now()
	if got := f.Notices("web", true, now); got != nil {
		t.Errorf("notices %v of a target without failures", got)
	}
	notice := policy.Notice{Condition: "ChangeFailed", Reason: "Oops", Message: "no"}
	f.Record("web", notice, now.Add(time.Minute))
	for _, test := range []struct {
		name    string
		target  string
		lasting bool
		after   time.Duration
		shown   bool
	}{
		{"at once", "web", false, 0, true},
		{"of another target", "api", true, 0, false},
		{"at its end", "web", false, time.Minute, true},
		{"after it, while it lasts", "web", true, time.Hour, true},
		{"after it", "web", false, 2 * time.Minute, false},
		{"once it was over", "web", true, 2 * time.Minute, false},
	} {
		got := f.Notices(test.target, test.lasting, now.Add(test.after))
		if shown := len(got) == 1 && got[0] == notice; shown != test.shown {
			t.Errorf("%s: notices %v, want it shown: %t", test.name, got, test.shown)
		}
	}
	f.Record("web", notice, now.Add(time.Minute))
	f.Clear("web")
	if got := f.Notices("web", true, now); got != nil {
		t.Errorf("notices %v after Clear", got)
	}
}
