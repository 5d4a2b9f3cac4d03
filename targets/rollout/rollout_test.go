package rollout

import "testing"

// TestNext checks the numbers of instances to start and to stop in a replacement.
func TestNext(t *testing.T) {
	for _, test := range []struct {
		Counts
		want, surge, unavailable, start, stop int
	}{
		{Counts{}, 3, 1, 0, 3, 0},
		{Counts{Fresh: 4, FreshReady: 4}, 3, 1, 0, 0, 0},
		{Counts{Old: 3, OldReady: 3}, 3, 1, 0, 1, 0},
		{Counts{Old: 3, OldReady: 3, Fresh: 1}, 3, 1, 0, 0, 0},
		{Counts{Old: 3, OldReady: 3, Fresh: 1, FreshReady: 1}, 3, 1, 0, 0, 1},
		{Counts{Old: 2, OldReady: 2, Fresh: 1, FreshReady: 1}, 3, 1, 0, 1, 0},
		{Counts{Old: 1, OldReady: 1, Fresh: 3, FreshReady: 3}, 3, 1, 0, 0, 1},
		{Counts{Old: 3, OldReady: 2, Fresh: 1, FreshReady: 1}, 3, 1, 0, 0, 1},
		{Counts{Old: 3, OldReady: 0}, 3, 1, 0, 1, 0},
		{Counts{Old: 3, OldReady: 3}, 3, 0, 1, 0, 1},
		{Counts{Old: 3, OldReady: 3}, 3, 2, 1, 2, 1},
		{Counts{Old: 2, OldReady: 2}, 3, 0, 1, 1, 0},
		{Counts{Old: 3, OldReady: 3, Fresh: 1}, 5, 1, 0, 2, 0},
		{Counts{Old: 3, OldReady: 3, Fresh: 1}, 1, 1, 0, 0, 2},
		{Counts{Old: 2, OldReady: 2, Fresh: 1}, 0, 1, 0, 0, 2},
		{Counts{Old: 1, OldReady: 1}, 1, 0, 3, 0, 1},
	} {
		if start, stop := test.Next(test.want, test.surge, test.unavailable); start != test.start || stop != test.stop {
			t.Errorf("%+v.Next(%d, %d, %d) = %d, %d, want %d, %d", test.Counts, test.want, test.surge, test.unavailable, start, stop, test.start, test.stop)
		}
	}
}
