package world

import (
	"fmt"
	"slices"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/test/wait"
)

// AwaitOff waits until an autoscaler is off, or is not.
func (w *World) AwaitOff(name string, off bool) {
	w.t.Helper()
	told := api.Problem{Subject: "autoscaler " + name, Message: api.Disabled}
	wait.For(w.t, Patience, fmt.Sprintf("word that %q is off: %v", name, off), func() (string, bool) {
		r := w.Readiness()
		return fmt.Sprintf("it is %+v", r), r.Ready && slices.Contains(r.Problems, told) == off
	})
}
