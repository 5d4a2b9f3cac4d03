package etcd

import (
	"strings"
	"testing"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/web/webtest"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/test/etcd/etcdtest"
	"github.com/hpad/hpad/test/internal/members"
)

func TestSecure(t *testing.T) {
	t.Parallel()
	secure := etcdtest.Secure{Authority: webtest.NewAuthority(t, t.TempDir(), "ca"), Username: "hpad", Password: "secret"}
	s := open(t, etcdtest.StartSecure(t, secure), members.Options{})
	s.Start(2)
	s.Spread()
	s.Follows("alpha", 0, 5)
	for _, m := range s.Members {
		if _, err := m.Client.Pause(t.Context(), policy.Scope{Autoscaler: "alpha-1"}, api.PauseRequest{Reason: m.Name}); err != nil {
			t.Errorf("pause by %s: %v", m.Name, err)
		}
	}

	late := s.Prepare("late")
	secure.Authority.IssueExpired(t, "late")
	late.Launch()
	s.Await("why it is no member", func() (string, bool) {
		found, err := late.Client.Cluster(t.Context())
		if err != nil {
			return err.Error(), false
		}
		return found.Problem, strings.Contains(found.Problem, "certificate")
	})
	s.Follows("alpha", 0, 6)
}
