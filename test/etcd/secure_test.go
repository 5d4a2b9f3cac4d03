package etcd

import (
	"strings"
	"testing"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/web/webtest"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/test/etcd/etcdtest"
)

// TestSecure has etcd want certificates and a user, and members speak TLS with each
// other: they share their fleets and steer each other's. One whose certificate has
// expired is no member, and says why.
func TestSecure(t *testing.T) {
	t.Parallel()
	secure := &etcdtest.Secure{Authority: webtest.NewAuthority(t, t.TempDir(), "ca"), Username: "hpad", Password: "secret"}
	s := &shop{t: t, store: etcdtest.StartSecure(t, *secure), dir: t.TempDir(), secure: secure}
	s.begin(2)
	s.spread()
	s.follows("alpha", 0, 5)
	for _, m := range s.members {
		if _, err := m.Client.Pause(t.Context(), policy.Scope{Autoscaler: "alpha-1"}, api.PauseRequest{Reason: m.name}); err != nil {
			t.Errorf("pause by %s: %v", m.name, err)
		}
	}

	cert, key := secure.Authority.IssueExpired(t, "late")
	late := s.prepareWith("late", cert, key)
	late.Launch()
	s.await("why it is no member", func() (string, bool) {
		found, err := late.Client.Cluster(t.Context())
		if err != nil {
			return err.Error(), false
		}
		return found.Problem, strings.Contains(found.Problem, "certificate")
	})
	s.follows("alpha", 0, 6)
}
