package round_test

import (
	"testing"

	"github.com/hpad/hpad/daemon/daemontest"
	"github.com/hpad/hpad/daemon/reason"
)

// TestNextWaits checks the delays that are not part of the algorithm: an unsettled write, a
// quarantine, a dry run, and a hold that only the write detected.
func TestNextWaits(t *testing.T) {
	for word, code := range map[string]reason.Code{
		"UnknownOutcome": reason.UnknownOutcome, "Quarantined": reason.Quarantined, "DryRun": reason.DryRun, "Busy": reason.Held,
	} {
		t.Run(word, func(t *testing.T) {
			daemontest.Run(t, func(t *testing.T, w *daemontest.World) {
				scenarios[code](w, &collectedCodes{w: w, shown: map[string]bool{}})
				next := w.View("web").Next
				if next == nil {
					t.Fatal("Next is missing")
				}
				found := false
				for _, wait := range next.Waits {
					found = found || wait.Reason == word
				}
				if !found {
					t.Errorf("waits = %+v, want %s", next.Waits, word)
				}
				w.Stop()
			})
		})
	}
}
