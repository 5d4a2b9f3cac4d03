package etcd

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/policy"
)

// TestOwnerComesBack has an owner stand still, or lose etcd's answers, for longer than
// its lease. When it comes back it does nothing that the next owner was told not to do.
func TestOwnerComesBack(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]struct{ begin, end func(*member) }{
		"stopped": {
			begin: func(m *member) { m.Signal(syscall.SIGSTOP) },
			end:   func(m *member) { m.Signal(syscall.SIGCONT) },
		},
		"answers lost": {
			begin: func(m *member) { m.drop(true) },
			end:   func(m *member) { m.drop(false) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t, 2, 1)
			s.spread()
			s.follows("alpha", 1, 5)
			owner, other := s.member(s.owners(s.members[0])["alpha"]), s.members[0]
			if owner == other {
				other = s.members[1]
			}
			fault.begin(owner)
			s.await("another owner", func() (string, bool) {
				now := s.owners(other)["alpha"]
				return now, now == other.name
			})
			s.evaluated(other, "alpha-1")
			if _, err := other.Client.Pause(t.Context(), policy.Scope{Autoscaler: "alpha-1"}, api.PauseRequest{Reason: "moving house"}); err != nil {
				t.Fatal(err)
			}
			s.worlds["alpha"].Ask(1, 9) // which the owner of before knows of no reason to refuse
			s.follows("alpha", 0, 5)
			fault.end(owner)
			for end := time.Now().Add(2 * ttl); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
				if got := s.worlds["alpha"].Truth(1).Count; got != 5 {
					t.Fatalf("%d replicas of what is paused, want 5", got)
				}
			}
			s.await("the member again", func() (string, bool) {
				found, err := owner.Client.Cluster(t.Context())
				return fmt.Sprint(err), err == nil && len(found.Members) == 2
			})
		})
	}
}

// drop has answers of etcd not reach the member, or again.
func (m *member) drop(answers bool) {
	for _, relay := range m.relays {
		relay.Drop(false, answers)
	}
}

// TestLeaderEnds kills the server of etcd that leads: fleets keep their owners, and follow
// their load.
func TestLeaderEnds(t *testing.T) {
	t.Parallel()
	s := open(t, 2, 3)
	s.spread()
	before := s.owners(s.members[0])
	leader := s.store.Leader()
	s.store.Kill(leader)
	for _, fleet := range fleets {
		s.follows(fleet, 0, 5)
	}
	for fleet, owner := range s.owners(s.members[0]) {
		if owner != before[fleet] {
			t.Errorf("fleet %s is %s's, before the leader's end %s's", fleet, owner, before[fleet])
		}
	}
	s.store.Restart(leader)
}

// spread waits until every member has its share, and shares move no more.
func (s *shop) spread() {
	s.t.Helper()
	s.await("a share for each member", func() (string, bool) {
		owners, busy := s.owners(s.members[0]), map[string]bool{}
		for _, owner := range owners {
			busy[owner] = true
		}
		return fmt.Sprint(owners), len(owners) == len(fleets) && len(busy) == min(len(fleets), len(s.members))
	})
}
