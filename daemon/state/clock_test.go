package state

import (
	"os"
	"path/filepath"
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

// TestStateWithoutClock opens a file of an hpad that kept no clock: of an
// autoscaler with a window of 30 seconds, a scale-up two seconds before it was
// killed, and two before that.
func TestStateWithoutClock(t *testing.T) {
	file, err := os.ReadFile(filepath.Join("testdata", "without-clock.db"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "state.db"), file, 0o600); err != nil {
		t.Fatal(err)
	}
	s := open(t, dir)
	defer closeStore(t, s)
	snapshot := load(t, s)
	last := time.Date(2026, 11, 22, 18, 37, 13, 0, time.UTC)
	record := snapshot.Autoscalers["worker"]
	if !snapshot.LastRound.Equal(last) || !snapshot.Clock.Time.IsZero() || !record.Through.Equal(last) {
		t.Errorf("the last round is %s, the record through %s, the clock %+v", snapshot.LastRound, record.Through, snapshot.Clock)
	}
	up := record.Memory.ScaleUpEvents
	if len(up) == 0 || up[len(up)-1] != (policy.ScaleEvent{Change: 1, Time: last.Add(-3 * time.Second)}) {
		t.Errorf("the scale-up events are %+v", up)
	}
	if diff := cmp.Diff(snapshot, snapshot.WithoutFuture(last)); diff != "" {
		t.Errorf("with the clock where it was (-want +got):\n%s", diff)
	}

	// An hour earlier by the clock all of it happened now, and in order.
	now := last.Add(-time.Hour)
	early := snapshot.WithoutFuture(now)
	record = early.Autoscalers["worker"]
	times := []time.Time{early.LastRound, record.Through, record.Created, record.Status.LastScaleTime}
	for _, list := range [][]policy.ScaleEvent{record.Memory.ScaleUpEvents, record.Memory.ScaleDownEvents} {
		for _, event := range list {
			times = append(times, event.Time)
		}
	}
	for _, entry := range record.Memory.Recommendations {
		times = append(times, entry.Time)
	}
	for _, condition := range record.Status.Conditions {
		times = append(times, condition.Since)
	}
	for _, at := range times {
		if !at.Equal(now) {
			t.Errorf("a time of the future became %s, want %s: %v", at, now, times)
		}
	}
	if diff := cmp.Diff(snapshot, load(t, s)); diff != "" {
		t.Errorf("what was loaded has changed (-want +got):\n%s", diff)
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
