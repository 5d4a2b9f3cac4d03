package state

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets/clock"
)

func TestClockIsKept(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	if got := load(t, s).Clock; !got.Time.IsZero() {
		t.Errorf("a new store has a clock: %+v", got)
	}
	want := clock.State{
		Time: epoch, Boot: "one", Reading: time.Hour + 1,
		Offsets: []clock.Offset{{From: epoch.Add(-time.Minute), Ahead: -time.Hour}},
	}
	commit(t, s, Changes{LastRound: epoch, Clock: want})
	commit(t, s, Changes{LastRound: epoch.Add(time.Second)})
	closeStore(t, s)
	s = open(t, dir)
	defer closeStore(t, s)
	if diff := cmp.Diff(want, load(t, s).Clock); diff != "" {
		t.Errorf("the clock after a restart (-want +got):\n%s", diff)
	}
}

func TestWithoutFuture(t *testing.T) {
	record := sampleRecord(1)
	record.Intention = &Intention{Intention: policy.Intention{From: 1, To: 2, Time: epoch.Add(time.Minute)}}
	record.Memory.Missing = []policy.MissingMetric{{FirstFailureTime: epoch}, {FirstFailureTime: epoch.Add(-time.Hour)}, {}}
	now := epoch.Add(-time.Minute)
	got := Snapshot{LastRound: epoch, Autoscalers: map[string]Record{"a": record}}.WithoutFuture(now).Autoscalers["a"]
	if missing := got.Memory.Missing; !got.Intention.Time.Equal(now) || !missing[0].FirstFailureTime.Equal(now) ||
		!missing[1].FirstFailureTime.Equal(epoch.Add(-time.Hour)) || !missing[2].FirstFailureTime.IsZero() {
		t.Errorf("the intention is of %s, and metrics fail since %v", got.Intention.Time, missing)
	}
	if !record.Intention.Time.Equal(epoch.Add(time.Minute)) || !record.Memory.Missing[0].FirstFailureTime.Equal(epoch) {
		t.Errorf("the record itself has changed: %+v", record)
	}
	for i, entry := range got.Memory.Recommendations {
		if before := record.Memory.Recommendations[i]; entry.Replicas != before.Replicas || !entry.Time.Equal(notAfter(before.Time, now)) {
			t.Errorf("%+v became %+v", before, entry)
		}
	}
}
