package etcd

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/hpad/hpad/daemon/web/webtest"
	"github.com/hpad/hpad/test/etcd/etcdtest"
	"github.com/hpad/hpad/test/internal/members"
	"github.com/hpad/hpad/test/internal/parallel"
	"github.com/hpad/hpad/test/internal/program"
)

func TestMain(m *testing.M) {
	code := parallel.Run(m, 2*(len(members.Faults)+4)) // the tests wait most of the time
	program.Clean()
	os.Exit(code)
}

func over(t *testing.T, store *etcdtest.Cluster, options members.Options) members.Options {
	t.Helper()
	options.Servers = store.Endpoints
	login := func(string) string { return "" }
	if secure := store.Secure; secure != nil {
		options.Authority = secure.Authority
		password := webtest.Write(t, t.TempDir(), "password", secure.Password)
		login = func(name string) string {
			cert, key := secure.Authority.Issue(t, name)
			return fmt.Sprintf(", username = %q, password_file = %q, tls = { ca_file = %q, cert_file = %q, key_file = %q }",
				secure.Username, password, secure.Authority.File, cert, key)
		}
	}
	options.Store = func(name string, servers []string) string {
		return fmt.Sprintf("etcd = { endpoints = [%s]%s }", `"`+strings.Join(servers, `", "`)+`"`, login(name))
	}
	return options
}

func open(t *testing.T, store *etcdtest.Cluster, options members.Options) *members.Cluster {
	t.Helper()
	return members.New(t, over(t, store, options))
}

func start(t *testing.T, count, servers int) *members.Cluster {
	t.Helper()
	c := open(t, etcdtest.Start(t, servers), members.Options{})
	c.Start(count)
	return c
}

func TestMembers(t *testing.T) {
	t.Parallel()
	s := start(t, 3, 1)
	s.Spread()
	for _, m := range s.Members {
		s.Await("all autoscalers at "+m.Name, func() (string, bool) {
			views, err := m.Client.Autoscalers(t.Context())
			return fmt.Sprintf("%d, %v", len(views), err), len(views) == len(members.Fleets)*members.Jobs
		})
	}
	owner, other := s.OwnerOf("alpha")

	// Control the autoscalers through a member that does not own them.
	s.Follows("alpha", 0, 7)
	s.Paused(other, "alpha-1")
	before := s.Evaluated(owner, "alpha-1")
	if len(before.Pauses) != 1 || before.Pauses[0].Reason != "moving house" || before.Pauses[0].Author == "members" {
		t.Errorf("the owner has the pauses %+v", before.Pauses)
	}
	s.Scaled(other, "alpha-2", 9)
	if got := s.Worlds["alpha"].Truth(2).Count; got != 9 {
		t.Errorf("%d replicas after a person asked for 9", got)
	}
	remembered := s.Evaluated(other, "alpha-0")

	// The owner crashes.
	owner.Kill()
	began := time.Now()
	s.TakenOver("alpha", owner, other)
	if took := time.Since(began); took > members.TTL+8*time.Second {
		t.Errorf("taken over after %s", took)
	}
	after := s.Evaluated(other, "alpha-0")
	if !after.Created.Equal(remembered.Created) || !after.Status.LastScaleTime.Equal(remembered.Status.LastScaleTime) {
		t.Errorf("what was remembered is not: created %s and scaled %s, before %s and %s",
			after.Created, after.Status.LastScaleTime, remembered.Created, remembered.Status.LastScaleTime)
	}
	if paused := s.Evaluated(other, "alpha-1"); len(paused.Pauses) != 1 || paused.Pauses[0].Reason != "moving house" {
		t.Errorf("the next owner has the pauses %+v", paused.Pauses)
	}
	s.Worlds["alpha"].Ask(0, 2) // the window of the previous owner must prevent this
	if held := s.Evaluated(other, "alpha-0"); held.Status.DesiredReplicas < 7 || s.Worlds["alpha"].Truth(0).Count < 7 {
		t.Errorf("the window is forgotten: %+v", held.Status)
	}

	owner.Launch()
	s.Spread()
	leaving, other := s.OwnerOf("beta")
	leaving.Stop()
	began = time.Now()
	s.TakenOver("beta", leaving, other)
	if took := time.Since(began); took > members.TTL {
		t.Errorf("a planned stop is taken over after %s, want sooner than a lease of %s", took, members.TTL)
	}
	s.Evaluated(other, "beta-0")
	s.Follows("beta", 0, 19)
}
