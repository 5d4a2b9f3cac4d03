package world

import (
	"fmt"
	"strings"

	"github.com/hpad/hpad/test/wait"
)

// Restores changes the configuration of an autoscaler by [Queued], so that it reverts manual
// changes and never scales down.
func Restores(name, text string) string {
	return strings.NewReplacer(
		"[autoscalers."+name+"]\n", "[autoscalers."+name+"]\non_foreign_change = \"restore\"\n",
		`stabilization_window = "2s"`, `select_policy = "Disabled"`,
	).Replace(text)
}

// AwaitRestore waits until hpad shows a count to restore.
func (w *World) AwaitRestore(name string, replicas, foreign int32) {
	w.t.Helper()
	wait.For(w.t, Patience, fmt.Sprintf("%d replicas of %q to be put back in place of %d", replicas, name, foreign), func() (string, bool) {
		restore := w.View(name).Restore
		return fmt.Sprintf("it is %+v", restore), restore != nil && restore.Replicas == replicas && restore.Foreign == foreign
	})
}

// AwaitRestored waits until the count is restored.
func (w *World) AwaitRestored(name string) {
	w.t.Helper()
	wait.For(w.t, Patience, fmt.Sprintf("nothing of %q to be put back any more", name), func() (string, bool) {
		restore := w.View(name).Restore
		return fmt.Sprintf("it is %+v", restore), restore == nil
	})
}
