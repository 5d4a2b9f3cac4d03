package daemon

import (
	"testing"
	"time"
)

// TestHistory checks that decisions can be read back, limited by time and number.
func TestHistory(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.fed("q", 3, 4)
		w.start()
		begin := time.Now()
		w.advance(time.Minute)
		w.source().value("q", 6)
		w.advance(time.Minute)
		entries, err := w.daemon.History(t.Context(), "q", time.Time{}, time.Time{}, 0)
		if err != nil {
			t.Fatal(err)
		}
		var written []int32
		for _, entry := range entries {
			if !entry.Time.Equal(entry.Decision.Time) {
				t.Errorf("an entry of %v has a decision of %v", entry.Time, entry.Decision.Time)
			}
			if entry.Written != nil {
				written = append(written, *entry.Written)
			}
		}
		if len(written) != 2 || written[0] != 4 || written[1] != 6 {
			t.Errorf("written %v, want 4 and 6", written)
		}
		if all, err := w.daemon.History(t.Context(), "", time.Time{}, time.Time{}, 0); err != nil || len(all) != len(entries) || all[0].Autoscaler != "q" {
			t.Errorf("history of all: %+v, %v", all, err)
		}
		late, err := w.daemon.History(t.Context(), "q", begin.Add(time.Minute), time.Time{}, 1)
		if err != nil || len(late) != 1 || !late[0].Time.Equal(entries[len(entries)-1].Time) {
			t.Errorf("the newest entry: %+v, %v", late, err)
		}
		if none, err := w.daemon.History(t.Context(), "other", time.Time{}, time.Time{}, 0); err != nil || len(none) != 0 {
			t.Errorf("history of another name: %+v, %v", none, err)
		}
		w.stop()
	})
}
