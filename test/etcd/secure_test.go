package etcd

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/metadata"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/cluster"
	"github.com/hpad/hpad/daemon/cluster/etcd"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/settings/webtest"
	"github.com/hpad/hpad/test/etcd/etcdtest"
	"github.com/hpad/hpad/test/internal/members"
)

func TestSecure(t *testing.T) {
	t.Parallel()
	secure := etcdtest.Secure{Authority: webtest.NewCA(t, t.TempDir(), "ca"), Username: "hpad", Password: "secret"}
	s := open(t, etcdtest.StartSecure(t, secure), members.Options{})
	s.Start(2)
	s.Spread()
	s.Follows("alpha", 0, 5)
	for _, m := range s.Members {
		if _, err := api.Post[policy.Pause](t.Context(), m.Client, api.PathOf(policy.Scope{Autoscaler: "alpha-1"}, "pause"), api.PauseRequest{Reason: m.Name}); err != nil {
			t.Errorf("pause by %s: %v", m.Name, err)
		}
	}

	late := s.Prepare("late")
	secure.Authority.IssueExpired(t, "late")
	late.Launch()
	s.Await("the reason for the rejected member", func() (string, bool) {
		found, err := api.Get[api.Cluster](t.Context(), late.Client, api.Path("cluster"), nil)
		if err != nil {
			return err.Error(), false
		}
		return found.Problem, strings.Contains(found.Problem, "certificate")
	})
	s.Follows("alpha", 0, 6)
}

// TestPassword changes the password of a connected user. The client must use the new password at
// its next login.
func TestPassword(t *testing.T) {
	t.Parallel()
	secure := etcdtest.Secure{Authority: webtest.NewCA(t, t.TempDir(), "ca"), Username: "hpad", Password: "secret"}
	store := etcdtest.StartSecure(t, secure)
	cert, key := secure.Authority.Issue(t, "test")
	c := etcd.New(etcd.Options{
		Cluster: "test", Endpoints: store.Endpoints, TLS: secure.Authority.ClientConfig(t, cert, key),
		Username: secure.Username, PasswordFile: store.Secure.PasswordFile,
	})
	t.Cleanup(func() { _ = c.Close() })
	const ttl = 10 * time.Second
	session, err := c.Join(t.Context(), cluster.Member{Name: "a"}, ttl)
	if err != nil {
		t.Fatal(err)
	}
	root := store.Client(0)
	login, err := root.Authenticate(t.Context(), "root", secure.Password)
	if err != nil {
		t.Fatal(err)
	}
	ctx := metadata.AppendToOutgoingContext(t.Context(), rpctypes.TokenFieldNameGRPC, login.Token)
	webtest.Write(t, filepath.Dir(store.Secure.PasswordFile), "password", "another")
	etcdtest.Do(t, "change the password", func() error {
		_, err := root.UserChangePassword(ctx, secure.Username, "another")
		return err
	})
	changed := time.Now()
	for time.Since(changed) < 2*ttl {
		if _, err := c.View(t.Context()); err != nil && time.Since(changed) > ttl/2 { // the first call may fail
			t.Fatalf("error %s after the change = %v", time.Since(changed), err)
		}
		time.Sleep(ttl / 10)
	}
	if time.Until(session.Expires()) <= 0 {
		t.Error("the lease was not renewed with the new password")
	}
}
