package round

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/policy"
)

// TestJoinEvents checks that two joined lists equal a list of all events.
func TestJoinEvents(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 1000 {
		kinds := 1 + random.IntN(2*MaxEvents)
		var all, earlier, later []api.Event
		split := random.IntN(30)
		for i := range 30 {
			event, at := []policy.Event{{Reason: fmt.Sprint(random.IntN(kinds))}}, time.Unix(int64(i), 0)
			all = addEvents(all, event, at)
			if i < split {
				earlier = addEvents(earlier, event, at)
			} else {
				later = addEvents(later, event, at)
			}
		}
		if kinds > MaxEvents {
			// Events that a list has dropped are not counted.
			continue
		}
		if diff := cmp.Diff(all, joinEvents(earlier, later)); diff != "" {
			t.Fatalf("joined (-all +joined):\n%s", diff)
		}
	}
}

// TestEventsAgain checks that warnings that differ only in numbers are one event, and that two
// rescales are two events.
func TestEventsAgain(t *testing.T) {
	at := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	list := addEvents(nil, nil, at)
	for i := range 30 {
		at = at.Add(time.Second)
		list = addEvents(list, []policy.Event{
			{Kind: policy.WarningEvent, Reason: "FailedGetExternalMetric", Message: fmt.Sprintf("result is of 12:00:%02d, %dms after", i, i)},
			{Kind: policy.NormalEvent, Reason: "SuccessfulRescale", Message: fmt.Sprintf("New size: %d", 2+i%3)},
		}, at)
	}
	counts := map[string]int{}
	for _, event := range list {
		counts[event.Message] = int(event.Count)
	}
	want := map[string]int{"result is of 12:00:29, 29ms after": 30, "New size: 2": 10, "New size: 3": 10, "New size: 4": 10}
	if len(list) != 4 || fmt.Sprint(counts) != fmt.Sprint(want) {
		t.Errorf("%v, want %v", counts, want)
	}
	other := addEvents(list, []policy.Event{{Kind: policy.WarningEvent, Reason: "FailedGetExternalMetric", Message: "connection refused"}}, at)
	if joined := joinEvents(list, other); len(other) != 5 || len(joined) != 5 {
		t.Errorf("another failure makes %d and %d events of 4", len(other), len(joined))
	}
}
