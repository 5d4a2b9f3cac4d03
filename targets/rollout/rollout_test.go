package rollout

import (
	"strings"
	"testing"
	"time"
)

// TestNext checks the steps of a replacement: normal progress, scale-ups and scale-downs meanwhile,
// and a definition that does not work.
func TestNext(t *testing.T) {
	surge := Strategy{Surge: 1, OldStarts: true}
	failed := Strategy{Surge: 1, OldStarts: true, Failed: true}
	without := Strategy{Surge: 1, Failed: true}
	for _, test := range []struct {
		Counts
		Strategy
		want Step
	}{
		{Counts{Want: 3}, surge, Step{StartFresh: 3}},
		{Counts{Want: 3, Fresh: 4, FreshReady: 4}, surge, Step{StopFresh: 1}},
		{Counts{Want: 3, Old: 3, OldReady: 3}, surge, Step{StartFresh: 1}},
		{Counts{Want: 3, Old: 3, OldReady: 3, Fresh: 1}, surge, Step{}},
		{Counts{Want: 3, Old: 3, OldReady: 3, Fresh: 1, FreshReady: 1}, surge, Step{StopOld: 1, StartFresh: 1}},
		{Counts{Want: 3, Old: 2, OldReady: 2, Fresh: 1, FreshReady: 1}, surge, Step{StartFresh: 1}},
		{Counts{Want: 3, Old: 1, OldReady: 1, Fresh: 3, FreshReady: 3}, surge, Step{StopOld: 1}},
		{Counts{Want: 3, Old: 3, OldReady: 2, Fresh: 1, FreshReady: 1}, surge, Step{StopOld: 1, StartFresh: 1}},
		{Counts{Want: 3, Old: 3}, surge, Step{StartFresh: 1}},
		{Counts{Want: 3, Old: 3, OldReady: 3}, Strategy{Unavailable: 1}, Step{StopOld: 1, StartFresh: 1}},
		{Counts{Want: 3, Old: 3, OldReady: 3}, Strategy{Surge: 2, Unavailable: 1}, Step{StopOld: 1, StartFresh: 3}},
		{Counts{Want: 3, Old: 2, OldReady: 2}, Strategy{Unavailable: 1, OldStarts: true}, Step{StartFresh: 1}},
		{Counts{Want: 1, Old: 1, OldReady: 1}, Strategy{Unavailable: 3}, Step{StopOld: 1, StartFresh: 1}},
		{Counts{Old: 2, OldReady: 2, Fresh: 1}, surge, Step{StopOld: 2, StopFresh: 1}},

		// A scale-up adds instances of both definitions in proportion.
		{Counts{Want: 8, Old: 4, OldReady: 4, Fresh: 1}, surge, Step{StartOld: 3, StartFresh: 1}},
		{Counts{Want: 8, Old: 1, OldReady: 1, Fresh: 3, FreshReady: 3}, surge, Step{StartOld: 1, StartFresh: 4}},
		{Counts{Want: 8, Old: 4, OldReady: 4}, surge, Step{StartOld: 4, StartFresh: 1}},
		{Counts{Want: 8, Old: 3, OldReady: 3, Fresh: 1}, Strategy{Unavailable: 1, OldStarts: true}, Step{StartOld: 3, StartFresh: 1}},
		{Counts{Want: 8, Old: 4, OldReady: 4, Fresh: 1}, Strategy{Surge: 1}, Step{StartFresh: 4}},
		{Counts{Want: 2147483647, Old: 2147483640, OldReady: 2147483640, Fresh: 1}, surge, Step{StartOld: 7, StartFresh: 0}},

		// After the deadline, only instances with the old definition are added.
		{Counts{Want: 4, Old: 4, OldReady: 4, Fresh: 1}, failed, Step{}},
		{Counts{Want: 8, Old: 4, OldReady: 4, Fresh: 1}, failed, Step{StartOld: 4}},
		{Counts{Want: 8, Old: 7, OldReady: 7, Fresh: 2}, failed, Step{StopFresh: 1, StartOld: 1}},
		{Counts{Want: 8, Old: 6, OldReady: 6, Fresh: 2}, Strategy{Unavailable: 1, OldStarts: true, Failed: true}, Step{StopFresh: 1, StartOld: 1}},
		{Counts{Want: 8, Old: 4, OldReady: 4, Fresh: 3, FreshReady: 2}, failed, Step{StartOld: 2}},
		{Counts{Want: 8, Old: 4, OldReady: 4, Fresh: 1}, without, Step{StartFresh: 4}},
		{Counts{Want: 8, Old: 4, OldReady: 4, Fresh: 5}, without, Step{}},

		// A scale-down keeps the surge, and ready instances before unready ones.
		{Counts{Want: 4, Old: 8, OldReady: 8, Fresh: 1}, failed, Step{StopOld: 4}},
		{Counts{Want: 4, Old: 7, OldReady: 7, Fresh: 2}, surge, Step{StopOld: 3, StopFresh: 1}},
		{Counts{Want: 1, Old: 3, OldReady: 3, Fresh: 1}, surge, Step{StopOld: 2}},
	} {
		if got := test.Next(test.Strategy); got != test.want {
			t.Errorf("%+v.Next(%+v) = %+v, want %+v", test.Counts, test.Strategy, got, test.want)
		}
	}
}

// TestNextEnds checks that repeated steps end for all counts and strategies, within the surge, and
// that enough instances with an old definition run after the deadline.
func TestNextEnds(t *testing.T) {
	for code := range 1 << 14 {
		bit := func(from, n int) int { return code >> from & (1<<n - 1) }
		s := Strategy{Surge: bit(0, 2), Unavailable: bit(2, 1), OldStarts: bit(3, 1) > 0, Failed: bit(4, 1) > 0}
		start := Counts{Want: bit(5, 3), Old: bit(8, 3), Fresh: bit(11, 3)}
		start.OldReady = start.Old
		c := start
		step := c.Next(s)
		for range 20 {
			c.Old += step.StartOld - step.StopOld
			c.OldReady = c.Old
			c.Fresh += step.StartFresh - step.StopFresh
			step = c.Next(s)
		}
		working := !s.OldStarts || !s.Failed || start.Old == 0 || c.Old >= min(c.Want-s.Unavailable, start.Want)
		if step != (Step{}) && s.Surge+s.Unavailable > 0 || c.Old < 0 || c.Fresh < 0 || c.Old > 0 && c.Old+c.Fresh > c.Want+s.Surge || !working {
			t.Errorf("from %+v with %+v: %+v, and then %+v", start, s, c, step)
		}
	}
}

// TestProgress checks that only further ready instances are progress: neither scaling nor
// instances that become ready and fail again.
func TestProgress(t *testing.T) {
	var p Progress
	now := time.Unix(0, 0)
	observe := func(c Counts, failed bool) {
		t.Helper()
		c.Want = 4
		p.Observe(c, now)
		if got := p.Failed(10*time.Second, now); got != failed {
			t.Errorf("at %v: Failed() = %v after %+v", now.Unix(), got, c)
		}
		now = now.Add(4 * time.Second)
	}
	observe(Counts{Old: 4, OldReady: 4}, false)
	observe(Counts{Old: 4, OldReady: 4, Fresh: 1}, false)
	observe(Counts{Old: 4, OldReady: 4, Fresh: 1, FreshReady: 1}, false)
	observe(Counts{Old: 3, OldReady: 3, Fresh: 2}, false)
	observe(Counts{Old: 3, OldReady: 3, Fresh: 2, FreshReady: 1}, false)
	observe(Counts{Old: 8, OldReady: 2, Fresh: 1}, true)
	observe(Counts{Old: 2, OldReady: 2, Fresh: 1}, true)
	notice := p.Notice("x", 10*time.Second, now)
	if notice == nil || notice.Reason != ProgressDeadlineExceeded || !strings.Contains(notice.Message, "only 2 of 4 wanted instances are ready") {
		t.Errorf("Notice() = %+v", notice)
	}
	observe(Counts{Fresh: 4, FreshReady: 4}, false)
	if notice := p.Notice("x", 0, now); notice != nil {
		t.Errorf("Notice() without a replacement = %+v", notice)
	}
	observe(Counts{Old: 4, OldReady: 4}, false)
}
