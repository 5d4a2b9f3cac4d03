package targettest

import (
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/hpad/hpad/targets/contract"
)

// Kind is a fleet kind under test.
type Kind = contract.Kind[*testing.T]

// Platform contains targets, and hooks that create the situations of the suite.
type Platform = contract.Platform[*testing.T]

// Rival simulates an external writer that acts between two calls of a fleet.
type Rival = contract.Rival

// Store is an in-memory targets.Store.
type Store = contract.Store

// Row is one situation of the contract.
type Row = contract.Row

// Table lists the situations of the contract with the cases that test them.
var Table = contract.Table

// Run runs the contract suite for a fleet kind, each case on a platform of its own. Cases whose
// hooks the platform lacks are not run: if kind.Of is set, it must state the reason
// (targets.Kind.Without); otherwise Run logs the missing hooks.
func Run(t *testing.T, kind Kind) {
	if first := kind.New(t, 1); kind.Of != nil {
		kind.Check(t, first)
	} else if absent := first.Absent(); len(absent) > 0 {
		t.Logf("platform without these hooks: %s", strings.Join(absent, ", "))
	}
	for _, c := range contract.Cases[*testing.T]() {
		t.Run(c.Name, func(t *testing.T) {
			running := goleak.IgnoreCurrent()
			t.Cleanup(func() { goleak.VerifyNone(t, running) })
			if platform := kind.New(t, c.Counts...); c.Possible(kind, platform) {
				c.Run(t, kind, platform)
			}
		})
	}
}
