package cluster_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hpad/hpad/settings"
)

// TestTakeoverInHistory checks that the history of an autoscaler has one entry for each takeover of
// its fleet, after a crash and after a planned hand-over, and none for a restart of the same member.
func TestTakeoverInHistory(t *testing.T) {
	for _, killed := range []bool{true, false} {
		dir := t.TempDir()
		synctest.Test(t, func(t *testing.T) {
			m := newModel(t, 1, dir)
			m.calm = true
			m.begin(2)
			former := m.store.Owner("alpha")
			next := m.nodes[0]
			for _, n := range m.nodes {
				if n.name == former {
					n.end(killed)
				} else {
					next = n
				}
			}
			time.Sleep(2 * patience)
			takeovers := func() (all []settings.Takeover) {
				entries, err := next.cluster.MemberAPI().History(t.Context(), "alpha-web", time.Time{}, time.Time{}, 0)
				if err != nil {
					t.Error(err)
				}
				for _, entry := range entries {
					if entry.Reload != nil && entry.Reload.Takeover != nil {
						all = append(all, *entry.Reload.Takeover)
					}
				}
				return all
			}
			want := []settings.Takeover{{Member: next.name, From: former}}
			if got := takeovers(); !slices.Equal(got, want) {
				t.Errorf("takeovers = %v, want %v, killed: %t", got, want, killed)
			}
			if found, err := next.cluster.MemberAPI().VerifyHistory(t.Context(), "alpha-web", time.Time{}, time.Time{}); err != nil || found.Different+found.NotVerifiable > 0 {
				t.Errorf("VerifyHistory() = %+v, %v", found, err)
			}
			next.end(false)
			next.start(false)
			time.Sleep(2 * patience)
			if got := takeovers(); !slices.Equal(got, want) {
				t.Errorf("takeovers after a restart of the owner = %v, want %v", got, want)
			}
			next.end(false)
		})
	}
}
