package round

import (
	"fmt"
	"testing"
	"time"

	"github.com/hpad/hpad/policy"
)

// TestRepeatedEvents checks that warnings that differ only in numbers are merged into one event,
// and that two rescales remain two events.
func TestRepeatedEvents(t *testing.T) {
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
		t.Errorf("counts = %v, want %v", counts, want)
	}
	other := addEvents(list, []policy.Event{{Kind: policy.WarningEvent, Reason: "FailedGetExternalMetric", Message: "connection refused"}}, at)
	if len(other) != 5 {
		t.Errorf("events after another failure = %d, want 5", len(other))
	}
}
