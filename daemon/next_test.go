package daemon

import (
	"testing"

	"github.com/hpad/hpad/daemon/reason"
)

// TestNextWaits checks reasons outside of the algorithm that delay a change: an unsettled write, a
// quarantine, a dry run, and a hold that was only detected by the write.
func TestNextWaits(t *testing.T) {
	for word, code := range map[string]reason.Code{
		"UnknownOutcome": reason.UnknownOutcome, "Quarantined": reason.Quarantined, "DryRun": reason.DryRun, "Busy": reason.Held,
	} {
		t.Run(word, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				endings[code](w, &told{w: w, shown: map[string]bool{}})
				next := w.view("web").Next
				if next == nil {
					t.Fatal("nothing is said")
				}
				found := false
				for _, wait := range next.Waits {
					found = found || wait.Reason == word
				}
				if !found {
					t.Errorf("waits %+v, want %s", next.Waits, word)
				}
				w.stop()
			})
		})
	}
}
