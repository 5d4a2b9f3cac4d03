package etcd

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/hpad/hpad/test/etcd/etcdtest"
	"github.com/hpad/hpad/test/internal/members"
)

// TestOwnerComesBack has an owner stand still, or lose etcd's answers, for longer than
// its lease. When it comes back it does nothing that the next owner was told not to do.
func TestOwnerComesBack(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]struct {
		begin, end func(*members.Cluster, *members.Member)
	}{
		"stopped": {
			begin: func(_ *members.Cluster, m *members.Member) { m.Signal(syscall.SIGSTOP) },
			end:   func(_ *members.Cluster, m *members.Member) { m.Signal(syscall.SIGCONT) },
		},
		"answers lost": {
			begin: func(s *members.Cluster, m *members.Member) { s.Cut(m, false, true) },
			end:   func(s *members.Cluster, m *members.Member) { s.Cut(m, false, false) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t, 2, 1)
			s.Spread()
			s.Follows("alpha", 1, 5)
			owner, other := s.OwnerOf("alpha")
			fault.begin(s, owner)
			s.TakenOver("alpha", owner, other)
			s.Evaluated(other, "alpha-1")
			s.Paused(other, "alpha-1")
			s.Worlds["alpha"].Ask(1, 9) // which the owner of before knows of no reason to refuse
			s.Follows("alpha", 0, 5)
			fault.end(s, owner)
			for end := time.Now().Add(2 * members.TTL); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
				if got := s.Worlds["alpha"].Truth(1).Count; got != 5 {
					t.Fatalf("%d replicas of what is paused, want 5", got)
				}
			}
			s.Await("the member again", func() (string, bool) {
				found, err := owner.Client.Cluster(t.Context())
				return fmt.Sprint(err), err == nil && len(found.Members) == 2
			})
		})
	}
}

// TestLeaderEnds kills the server of etcd that leads: fleets keep their owners, and follow
// their load.
func TestLeaderEnds(t *testing.T) {
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
			t.Errorf("fleet %s is %s's, before the leader's end %s's", fleet, owner, before[fleet])
		}
	}
	store.Restart(leader)
}
