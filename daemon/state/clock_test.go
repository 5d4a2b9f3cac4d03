package state

import (
	"testing"
	"time"

	"github.com/hpad/hpad/policy"
)

func TestWithoutFuture(t *testing.T) {
	record := sampleRecord(1)
	record.Intention = &policy.Intention{From: 1, To: 2, Time: epoch.Add(time.Minute)}
	record.Memory.Missing = []policy.MissingMetric{{FirstFailureTime: epoch}, {FirstFailureTime: epoch.Add(-time.Hour)}, {}}
	now := epoch.Add(-time.Minute)
	got := Snapshot{LastRound: epoch, Autoscalers: map[string]Record{"a": record}}.WithoutFuture(now).Autoscalers["a"]
	if missing := got.Memory.Missing; !got.Intention.Time.Equal(now) || !missing[0].FirstFailureTime.Equal(now) ||
		!missing[1].FirstFailureTime.Equal(epoch.Add(-time.Hour)) || !missing[2].FirstFailureTime.IsZero() {
		t.Errorf("intention time = %s, first failures of metrics = %v", got.Intention.Time, missing)
	}
	if !record.Intention.Time.Equal(epoch.Add(time.Minute)) || !record.Memory.Missing[0].FirstFailureTime.Equal(epoch) {
		t.Errorf("the original record changed: %+v", record)
	}
	for i, entry := range got.Memory.Recommendations {
		if before := record.Memory.Recommendations[i]; entry.Replicas != before.Replicas || !entry.Time.Equal(notAfter(before.Time, now)) {
			t.Errorf("entry %+v became %+v", before, entry)
		}
	}
}
