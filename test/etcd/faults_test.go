package etcd

import (
	"testing"

	"github.com/hpad/hpad/test/etcd/etcdtest"
	"github.com/hpad/hpad/test/internal/members"
)

// TestLeaderKilled kills the etcd leader. The fleets must keep their owners and follow their load.
func TestLeaderKilled(t *testing.T) {
	t.Parallel()
	store := etcdtest.Start(t, 3)
	s := open(t, store, members.Options{})
	s.Start(2)
	s.Spread()
	before := s.Owners(s.Members[0])
	leader := store.Leader()
	store.Kill(leader)
	for _, fleet := range members.Fleets {
		s.Follows(fleet, 0, 5)
	}
	for fleet, owner := range s.Owners(s.Members[0]) {
		if owner != before[fleet] {
			t.Errorf("owner of fleet %s = %s, want %s as before the leader was killed", fleet, owner, before[fleet])
		}
	}
	store.Restart(leader)
}
