package etcd

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/hpad/hpad/test/etcd/etcdtest"
	"github.com/hpad/hpad/test/internal/members"
	"github.com/hpad/hpad/test/internal/parallel"
	"github.com/hpad/hpad/test/internal/program"
)

func TestMain(m *testing.M) {
	code := parallel.Run(m, len(faults)) // which wait most of the time
	program.Clean()
	os.Exit(code)
}

// shop is a cluster of hpads over etcd.
type shop struct {
	*members.Cluster
	t     *testing.T
	store *etcdtest.Cluster
	// relays lead a member to the servers of etcd, and fronts the other members to it, by
	// its name.
	relays map[string][]*etcdtest.Relay
	fronts map[string]*etcdtest.Relay
}

// open returns a cluster over etcd that has no members yet, with options but for those
// that the store decides.
func open(t *testing.T, store *etcdtest.Cluster, options members.Options) *shop {
	t.Helper()
	s := &shop{t: t, store: store, relays: map[string][]*etcdtest.Relay{}, fronts: map[string]*etcdtest.Relay{}}
	options.Store = func(name string) string {
		if store.Secure == nil {
			return s.etcd(name, "")
		}
		return s.etcd(name, s.login(store.Secure.Authority.Issue(t, name)))
	}
	options.Front = func(name, url string) string {
		s.fronts[name] = etcdtest.NewRelay(t, url)
		return s.fronts[name].URL
	}
	if store.Secure != nil {
		options.Authority = store.Secure.Authority
	}
	s.Cluster = members.New(t, options)
	return s
}

// start runs so many members over so many servers of etcd, and returns once each fleet
// has an owner.
func start(t *testing.T, count, servers int) *shop {
	t.Helper()
	s := open(t, etcdtest.Start(t, servers), members.Options{})
	s.Start(count)
	return s
}

// etcd returns what [ha] of a member says of etcd, which is reached by relays of the
// member's own. Login is empty, or as login returns it.
func (s *shop) etcd(name, login string) string {
	s.t.Helper()
	var endpoints []string
	for _, endpoint := range s.store.Endpoints {
		relay := etcdtest.NewRelay(s.t, endpoint)
		s.relays[name], endpoints = append(s.relays[name], relay), append(endpoints, fmt.Sprintf("%q", relay.URL))
	}
	return fmt.Sprintf("etcd = { endpoints = [%s]%s }", strings.Join(endpoints, ", "), login)
}

// login returns what [ha] says besides of an etcd that wants a user and a certificate.
func (s *shop) login(cert, key string) string {
	return fmt.Sprintf(", username = %q, password_file = %q, tls = { ca_file = %q, cert_file = %q, key_file = %q }",
		s.store.Secure.Username, s.Password, s.store.Secure.Authority.File, cert, key)
}

// cut has calls of a member to etcd not arrive, or etcd's answers, until it is called
// with neither.
func (s *shop) cut(m *members.Member, calls, answers bool) {
	for _, relay := range s.relays[m.Name] {
		relay.Drop(calls, answers)
	}
}

// TestMembers shows and steers fleets by any member, and moves them as members come and
// go: with what was remembered, and what was paused.
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

	// Steered by one that does not own it.
	s.Follows("alpha", 0, 7)
	s.Paused(other, "alpha-1")
	before := s.Evaluated(owner, "alpha-1")
	if len(before.Pauses) != 1 || before.Pauses[0].Reason != "moving house" || before.Pauses[0].Author == "members" {
		t.Errorf("the owner has the pauses %+v", before.Pauses)
	}
	if _, err := other.Client.Scale(t.Context(), "alpha-2", 9, false); err != nil {
		t.Fatal(err)
	}
	if got := s.Worlds["alpha"].Truth(2).Count; got != 9 {
		t.Errorf("%d replicas after a person asked for 9", got)
	}
	remembered := s.Evaluated(other, "alpha-0")

	// The owner is gone without a word.
	owner.Kill()
	began := time.Now()
	s.TakenOver("alpha", owner, other)
	after := s.Evaluated(other, "alpha-0")
	if took := time.Since(began); took > members.TTL+8*time.Second {
		t.Errorf("taken over after %s", took)
	}
	if !after.Created.Equal(remembered.Created) || !after.Status.LastScaleTime.Equal(remembered.Status.LastScaleTime) {
		t.Errorf("what was remembered is not: created %s and scaled %s, before %s and %s",
			after.Created, after.Status.LastScaleTime, remembered.Created, remembered.Status.LastScaleTime)
	}
	if paused := s.Evaluated(other, "alpha-1"); len(paused.Pauses) != 1 || paused.Pauses[0].Reason != "moving house" {
		t.Errorf("the next owner has the pauses %+v", paused.Pauses)
	}
	s.Worlds["alpha"].Ask(0, 2) // which the window of before holds
	if held := s.Evaluated(other, "alpha-0"); held.Status.DesiredReplicas < 7 || s.Worlds["alpha"].Truth(0).Count < 7 {
		t.Errorf("the window is forgotten: %+v", held.Status)
	}

	// And back, and asked to leave.
	owner.Launch()
	s.Spread()
	leaving, other := s.OwnerOf("beta")
	leaving.Stop()
	began = time.Now()
	s.TakenOver("beta", leaving, other)
	s.Evaluated(other, "beta-0")
	if took := time.Since(began); took > members.TTL {
		t.Errorf("a planned stop is taken over after %s, want sooner than a lease of %s", took, members.TTL)
	}
	s.Follows("beta", 0, 19)
}
