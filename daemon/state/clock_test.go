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
	commit(t, s, Changes{LastRound: epoch.Add(time.Second)}) // says nothing of the clock
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
	record.Restore = &Restoration{Restoration: policy.Restoration{Replicas: 3, Since: epoch}}
	record.Hindrance = &Hindrance{Since: epoch}
	record.Memory.Missing = []policy.MissingMetric{{FirstFailureTime: epoch}, {FirstFailureTime: epoch.Add(-time.Hour)}, {}}
	record.Status.Metrics = []policy.MetricStatus{{FirstFailureTime: epoch}}
	snapshot := Snapshot{LastRound: epoch, Autoscalers: map[string]Record{"a": record}}
	got := snapshot.WithoutFuture(epoch.Add(-time.Minute))
	if at := got.Autoscalers["a"].Intention.Time; !at.Equal(epoch.Add(-time.Minute)) {
		t.Errorf("an intention of the future is of %s", at)
	}
	missing := got.Autoscalers["a"].Memory.Missing
	if !missing[1].FirstFailureTime.Equal(epoch.Add(-time.Hour)) || !missing[2].FirstFailureTime.IsZero() || !record.Memory.Missing[0].FirstFailureTime.Equal(epoch) {
		t.Errorf("failures of the past have changed: %v, and %v in the record", missing, record.Memory.Missing)
	}
	for what, since := range map[string]time.Time{
		"restoration": got.Autoscalers["a"].Restore.Since, "hindrance": got.Autoscalers["a"].Hindrance.Since,
		"failure": missing[0].FirstFailureTime, "failure shown": got.Autoscalers["a"].Status.Metrics[0].FirstFailureTime,
	} {
		if !since.Equal(epoch.Add(-time.Minute)) {
			t.Errorf("a %s of the future is of %s", what, since)
		}
	}
	if at := record.Intention.Time; !at.Equal(epoch.Add(time.Minute)) {
		t.Errorf("the record itself has changed: its intention is of %s", at)
	}
	changed := 0
	for i, entry := range got.Autoscalers["a"].Memory.Recommendations {
		before := record.Memory.Recommendations[i]
		if entry.Replicas != before.Replicas || entry.Time.After(epoch.Add(-time.Minute)) {
			t.Errorf("%+v became %+v", before, entry)
		}
		if !entry.Time.Equal(before.Time) {
			changed++
		}
	}
	if changed == 0 || changed == len(record.Memory.Recommendations) {
		t.Errorf("%d of %d recommendations changed", changed, len(record.Memory.Recommendations))
	}
}
