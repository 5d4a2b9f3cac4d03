package cloud

import (
	"testing"
	"time"

	"github.com/hpad/hpad/policy"
)

func TestShortages(t *testing.T) {
	var s Shortages
	at := func(seconds int) time.Time { return noon.Add(time.Duration(seconds) * time.Second) }
	if s.Due("web", noon) || s.Notices("web") != nil {
		t.Error("a target that lacks nothing is asked about")
	}
	notice := &policy.Notice{Condition: InsufficientCapacity, Reason: "LaunchFailed", Message: "no capacity"}
	for _, step := range []struct {
		second   int
		short    bool
		since    time.Time
		due      bool
		told     *policy.Notice
		noticing int
	}{
		{0, true, at(0), false, nil, 0},
		{14, true, at(0), false, nil, 0},
		{15, true, at(0), true, notice, 1},
		{30, true, at(0), false, nil, 1},
		{45, true, at(0), true, nil, 0},
		{50, true, at(0), false, nil, 0},
		{75, true, at(0), true, notice, 1},
		{80, false, time.Time{}, false, nil, 0},
		{90, true, at(90), false, nil, 0},
	} {
		if since := s.Note("web", step.short, at(step.second)); !since.Equal(step.since) {
			t.Errorf("second %d: short since %v, want %v", step.second, since, step.since)
		}
		if due := s.Due("web", at(step.second)); due != step.due {
			t.Errorf("second %d: due is %t", step.second, due)
		}
		if step.due {
			s.Told("web", step.told, at(step.second))
		}
		if notices := s.Notices("web"); len(notices) != step.noticing {
			t.Errorf("second %d: notices %v, want %d", step.second, notices, step.noticing)
		}
	}
	s.Told("gone", notice, noon)
	if s.Notices("gone") != nil {
		t.Error("what was told of a target that lacks nothing is kept")
	}
}
