package daemon

import (
	"testing"
	"time"
)

// A metric that wobbles beside its goal gives two reasons in turns: each is recorded
// once, and then how often they took turns, with the reason that stays.
func TestReasonsThatTakeTurns(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.fed("q", 3, 3)
		w.start()
		w.advance(6 * time.Minute)
		begun := len(w.historyOf("q"))
		for i := range 40 {
			w.source().value("q", float64(2+i%2))
			w.advance(15 * time.Second)
		}
		if entries := w.historyOf("q")[begun:]; len(entries) > 4 {
			t.Errorf("%d entries of two reasons in ten minutes, want few: %+v", len(entries), entries)
		}
		w.advance(5 * time.Minute)
		entries := w.historyOf("q")
		last := entries[len(entries)-1]
		if last.Untold == nil || last.Untold.Changes < 10 {
			t.Errorf("untold = %+v, want the turns counted", last.Untold)
		}
		if got := last.Reason; got != "MetricsAtTarget" {
			t.Errorf("the last entry has reason %s, want the one that stayed", got)
		}
		w.source().value("q", 6)
		w.advance(15 * time.Second)
		if all := w.historyOf("q"); len(all) != len(entries)+1 || all[len(all)-1].Written == nil {
			t.Errorf("history = %+v, want the write at once", all[len(entries):])
		}
		w.stop()
	})
}
