package cloud

import (
	"testing"
	"time"

	"github.com/hpad/hpad/policy"
)

func TestShortages(t *testing.T) {
	var s shortages[string]
	at := func(seconds int) time.Time { return noon.Add(time.Duration(seconds) * time.Second) }
	if s.update("web", false, noon) || s.notices("web") != nil {
		t.Error("a target that lacks nothing is asked about")
	}
	notice := &policy.Notice{Condition: InsufficientCapacity, Reason: "LaunchFailed", Message: "no capacity"}
	for _, step := range []struct {
		second   int
		short    bool
		due      bool
		told     *policy.Notice
		noticing int
	}{
		{0, true, false, nil, 0},
		{14, true, false, nil, 0},
		{15, true, true, notice, 1},
		{30, true, false, nil, 1},
		{45, true, true, nil, 0},
		{50, true, false, nil, 0},
		{75, true, true, notice, 1},
		{80, false, false, nil, 0},
		{90, true, false, nil, 0},
	} {
		if due := s.update("web", step.short, at(step.second)); due != step.due {
			t.Errorf("second %d: due is %t", step.second, due)
		}
		if step.due {
			s.explain("web", step.told, at(step.second))
		}
		if notices := s.notices("web"); len(notices) != step.noticing {
			t.Errorf("second %d: notices %v, want %d", step.second, notices, step.noticing)
		}
	}
}
