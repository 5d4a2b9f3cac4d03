package cluster_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hpad/hpad/daemon"
	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/cluster"
	"github.com/hpad/hpad/policy"
)

// isPaused reports whether a daemon has a pause of all autoscalers.
func isPaused(d *daemon.Daemon) bool {
	return slices.ContainsFunc(d.Pauses(), func(p policy.Pause) bool { return p.Scope == policy.Scope{} })
}

// TestPauseOfAll checks that a pause of all autoscalers applies to the daemons of all members when
// the command returns, to a member that joins or starts later, to a member that was cut off when the
// pause was issued, and after takeovers and restarts; and that a resumption ends it on all of them.
func TestPauseOfAll(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		m := newModel(t, 1, dir)
		m.calm = true
		m.begin(2)
		first, second := m.nodes[0], m.nodes[1]
		all := first.cluster.ClusterAPI()
		daemons := func(want bool, nodes ...*node) {
			t.Helper()
			for _, n := range nodes {
				for _, fleet := range []string{cluster.Own, "alpha", "beta", "gamma", "delta"} {
					if d := n.cluster.Daemon(fleet); d != nil && isPaused(d) != want {
						t.Errorf("%s, fleet %q: paused %t, want %t", n.name, fleet, !want, want)
					}
				}
			}
		}
		paused, err := all.Pause(t.Context(), policy.Pause{Reason: "move", Author: "alice"}, 0)
		if err != nil || paused.Message != "paused for all autoscalers by alice: move" || paused.Direction != policy.BothDirections {
			t.Errorf("Pause() = %q, %s, %v", paused.Message, paused.Direction, err)
		}
		daemons(true, first, second)
		if _, err := all.Pause(t.Context(), policy.Pause{Direction: "sideways"}, 0); !errors.Is(err, api.ErrRefused) {
			t.Errorf("a pause with an invalid direction: %v, want %v", err, api.ErrRefused)
		}
		m.add().start(true)
		time.Sleep(patience)
		second.end(true)
		time.Sleep(patience)
		second.start(true)
		time.Sleep(patience)
		daemons(true, m.nodes...)
		for fleet := range m.fleets {
			m.setLoad(fleet, 20)
		}
		time.Sleep(patience)
		for fleet, memory := range m.fleets {
			if got := memory.Replicas("web"); got != 3 {
				t.Errorf("count of %s during a pause = %d, want 3", fleet, got)
			}
		}

		second.connection.Cut(true, true)
		if _, err := second.cluster.ClusterAPI().Resume(t.Context(), policy.Scope{}, "bob"); !errors.Is(err, api.ErrRefused) {
			t.Errorf("Resume() without the store = %v, want %v", err, api.ErrRefused)
		}
		ctx := api.WithWarnings(httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", nil)).Context()
		if _, err := all.Resume(ctx, policy.Scope{}, "bob"); err != nil {
			t.Error(err)
		}
		if text := fmt.Sprint(api.Warnings(ctx)); !strings.Contains(text, "member hpad-1 left the cluster before it confirmed the change") {
			t.Errorf("warnings of a resumption without hpad-1 = %s", text)
		}
		daemons(true, second)
		daemons(false, first, m.nodes[2])
		second.connection.Cut(false, false)
		time.Sleep(patience)
		daemons(false, m.nodes...)
		if _, err := all.Resume(t.Context(), policy.Scope{}, "bob"); !errors.Is(err, api.ErrNotPaused) {
			t.Errorf("a second resumption: %v, want %v", err, api.ErrNotPaused)
		}

		m.nodes[2].connection.Cut(true, true) // so that both commands wait for its lease to end
		var replaced error
		var pausing sync.WaitGroup
		pausing.Go(func() { _, replaced = all.Pause(t.Context(), policy.Pause{Author: "alice"}, 0) })
		time.Sleep(4 * time.Second)
		if _, err := second.cluster.ClusterAPI().Pause(t.Context(), policy.Pause{Direction: policy.Down, Author: "bob"}, time.Minute); err != nil {
			t.Error(err)
		}
		pausing.Wait()
		if want := "a later pause or resumption of all autoscalers by bob replaces this one"; !strings.Contains(fmt.Sprint(replaced), want) {
			t.Errorf("a pause that another one replaces: %v, want %q", replaced, want)
		}
		m.nodes[2].connection.Cut(false, false)
		time.Sleep(time.Minute + period)
		daemons(false, m.nodes...)
		second.end(false)
		second.start(true)
		time.Sleep(patience)
		daemons(false, m.nodes...)
		for _, n := range m.nodes {
			n.end(false)
		}
	})
}

// TestPauseWithoutConfirmation checks that a pause of all autoscalers returns an error that names a
// member that does not confirm it, such as a member with a version that does not read commands.
func TestPauseWithoutConfirmation(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		m := newModel(t, 1, dir)
		m.calm = true
		m.begin(1)
		n := m.nodes[0]
		defer n.end(false)
		session, err := m.store.Connect().Join(t.Context(), cluster.Member{Name: "old"}, ttl)
		if err != nil {
			t.Fatal(err)
		}
		_, err = n.cluster.ClusterAPI().Pause(t.Context(), policy.Pause{}, 0)
		if want := "members have not confirmed it: old (check that they respond, and that they have the version of hpad-0)"; !errors.Is(err, api.ErrUnknownOutcome) || !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("Pause() = %v, want %q", err, want)
		}
		if !isPaused(n.cluster.Daemon(cluster.Own)) {
			t.Error("the other members are not paused")
		}
		if err := session.Leave(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}

// TestPauseBeforeFirstPass checks that a pause of all autoscalers applies to the first pass after a
// takeover from a member that has not applied it, and to the first pass of a member that was cut off
// and continues its own term.
func TestPauseBeforeFirstPass(t *testing.T) {
	for _, test := range []struct {
		name  string
		leave func(*node)
		back  func(*node)
	}{
		{"takeover", func(n *node) { n.end(true) }, func(*node) {}},
		{
			"regained", func(n *node) { n.connection.Cut(true, true) },
			func(n *node) { n.connection.Cut(false, false) },
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				m := newModel(t, 1, dir)
				m.calm = true
				m.begin(1)
				former, other := m.nodes[0], m.add()
				if test.name == "regained" {
					other.tolerance = 0.01 // it cannot take over
				}
				test.leave(former)
				other.start(true)
				for fleet := range m.fleets {
					m.setLoad(fleet, 20)
				}
				if _, err := other.cluster.ClusterAPI().Pause(t.Context(), policy.Pause{}, 0); err != nil {
					t.Error(err)
				}
				time.Sleep(patience)
				test.back(former)
				time.Sleep(2 * patience)
				if !m.isSettled() {
					t.Error("a fleet has no owner")
				}
				for fleet, memory := range m.fleets {
					if got := memory.Replicas("web"); got != 3 {
						t.Errorf("count of %s = %d, want 3", fleet, got)
					}
				}
				for _, n := range m.nodes {
					n.end(false)
				}
			})
		})
	}
}
