package etcd

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/test/etcd/etcdtest"
	"github.com/hpad/hpad/test/internal/parallel"
	"github.com/hpad/hpad/test/internal/program"
	"github.com/hpad/hpad/test/internal/wait"
	"github.com/hpad/hpad/test/internal/world"
	"github.com/hpad/hpad/test/scale/sim"
)

func TestMain(m *testing.M) {
	code := parallel.Run(m, len(faults)) // which wait most of the time
	program.Clean()
	os.Exit(code)
}

// ttl is the lease of the members.
const ttl = 5 * time.Second

// jobs is how many each fleet has.
const jobs = 4

// fleets are those that the members share.
var fleets = []string{"alpha", "beta", "gamma"}

// shop is a cluster of hpads with what it scales: simulated Nomad clusters.
type shop struct {
	t       *testing.T
	store   *etcdtest.Cluster
	worlds  map[string]*sim.World
	members []*member
	// shared is what all members' configurations have.
	shared string
	dir    string
	// ha is what [ha] of all members has besides, a line for each key.
	ha string
	// secure has etcd and members speak TLS and know each other; nil for neither.
	secure *etcdtest.Secure
	// watched, if not nil, sees the calls to a fleet.
	watched func(fleet string, next http.Handler) http.Handler
}

type member struct {
	*program.Program
	name string
	// relays lead to the servers of etcd.
	relays []*etcdtest.Relay
	// front leads the other members to this one.
	front *etcdtest.Relay
}

// open runs so many members over so many servers of etcd, and returns once each fleet
// has an owner.
func open(t *testing.T, members, servers int) *shop {
	t.Helper()
	s := &shop{t: t, store: etcdtest.Start(t, servers), dir: t.TempDir()}
	s.begin(members)
	return s
}

// begin runs so many members, and returns once each fleet has an owner.
func (s *shop) begin(members int) {
	s.t.Helper()
	s.platforms()
	for i := range members {
		s.members = append(s.members, s.prepare(fmt.Sprint("hpad-", i)))
	}
	for _, m := range s.members {
		m.Launch()
	}
	s.await("an owner of each fleet", func() (string, bool) {
		owners := s.owners(s.members[0])
		return fmt.Sprint(owners), len(owners) == len(fleets)
	})
}

// platforms runs what is scaled, and writes the part of the configuration that is of it.
func (s *shop) platforms() {
	s.t.Helper()
	t := s.t
	s.worlds = map[string]*sim.World{}
	var text strings.Builder
	for _, fleet := range fleets {
		w := sim.New(sim.Options{Jobs: jobs})
		s.worlds[fleet] = w
		ctx, cancel := context.WithCancel(context.Background())
		go w.Run(ctx)
		calls := w.Nomad()
		if s.watched != nil {
			calls = s.watched(fleet, calls)
		}
		nomad, prometheus := serve(t, calls), serve(t, w.Prometheus())
		t.Cleanup(cancel)
		fmt.Fprintf(&text, "[fleets.%[1]s]\nkind = \"nomad\"\naddress = %[2]q\ntoken_file = \"/proc/self/cwd/token\"\n[sources.%[1]s]\nkind = \"prometheus\"\nurl = %[3]q\n", fleet, nomad, prometheus)
		for i := range jobs {
			window := "1h"
			if i == growing && s.watched != nil {
				window = "0s"
			}
			fmt.Fprintf(&text, `[autoscalers.%[1]s-%[3]d]
target = { fleet = %[1]q, job = %[2]q, group = "app" }
min_replicas = 1
max_replicas = 20
metrics = [{ type = "External", name = "load", source = %[1]q, query = '%[4]s', average_value = "%[5]d" }]
behavior = { scale_down = { stabilization_window = %[6]q } }
`, fleet, sim.JobID(i), i, sim.Load(i), sim.PerInstance, window)
		}
	}
	s.shared = text.String()
}

func serve(t *testing.T, handler http.Handler) string {
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server.URL
}

// prepare returns a member that does not run yet.
func (s *shop) prepare(name string) *member {
	s.t.Helper()
	if s.secure == nil {
		return s.prepareWith(name, "", "")
	}
	cert, key := s.secure.Authority.Issue(s.t, name)
	return s.prepareWith(name, cert, key)
}

// prepareWith is prepare of one that shows a certificate to etcd, where that wants one.
func (s *shop) prepareWith(name, cert, key string) *member {
	s.t.Helper()
	m := &member{name: name}
	var endpoints []string
	for _, endpoint := range s.store.Endpoints {
		relay := etcdtest.NewRelay(s.t, endpoint)
		m.relays, endpoints = append(m.relays, relay), append(endpoints, fmt.Sprintf("%q", relay.URL))
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		s.t.Fatal(err)
	}
	address := listener.Addr().String()
	_ = listener.Close()
	m.front = etcdtest.NewRelay(s.t, "http://"+address)
	hash, err := bcrypt.GenerateFromPassword([]byte("secret"), bcrypt.MinCost)
	if err != nil {
		s.t.Fatal(err)
	}
	web, password := filepath.Join(s.dir, "web.yml"), filepath.Join(s.dir, "password")
	scheme, serving, store, trust := "http", "", "", ""
	if s.secure != nil {
		own, ownKey := s.secure.Authority.Issue(s.t, name+"-web")
		scheme, serving = "https", fmt.Sprintf("tls_server_config:\n  cert_file: %q\n  key_file: %q\n", own, ownKey)
		trust = fmt.Sprintf(", ca_file = %q", s.secure.Authority.File)
		store = fmt.Sprintf(", username = %q, password_file = %q, tls = { ca_file = %q, cert_file = %q, key_file = %q }",
			s.secure.Username, password, s.secure.Authority.File, cert, key)
	}
	for path, text := range map[string]string{web: serving + "basic_auth_users:\n  members: " + string(hash) + "\n", password: "secret\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			s.t.Fatal(err)
		}
	}
	m.Program = program.Prepare(s.t, program.Options{
		Directory: s.token(name), Daemon: fmt.Sprintf("listen = %q\nweb_config = %q\nsync_period = \"1s\"\ntolerance = 0.001\n", address, web),
		Config: fmt.Sprintf(`[ha]
member = %q
address = "%s%s"
ttl = %q
etcd = { endpoints = [%s]%s }
members = { username = "members", password_file = %q%s }
%s`, name, scheme, strings.TrimPrefix(m.front.URL, "http"), ttl, strings.Join(endpoints, ", "), store, password, trust, s.ha) + s.shared,
	})
	return m
}

// await waits until something is so.
func (s *shop) await(what string, is func() (string, bool)) {
	s.t.Helper()
	wait.For(s.t, world.Patience, what, is)
}

// owners returns who owns each fleet that is owned, as a member says.
func (s *shop) owners(m *member) map[string]string {
	owners := map[string]string{}
	found, err := m.Client.Cluster(s.t.Context())
	if err != nil {
		return owners
	}
	for _, fleet := range found.Fleets {
		if fleet.Owner != "" {
			owners[fleet.Name] = fleet.Owner
		}
	}
	return owners
}

// member returns the member of a name.
func (s *shop) member(name string) *member {
	for _, m := range s.members {
		if m.name == name {
			return m
		}
	}
	s.t.Fatalf("there is no member %q", name)
	return nil
}

// follows waits until the count of a job follows a load that asks for so many.
func (s *shop) follows(fleet string, job, count int) {
	s.t.Helper()
	w := s.worlds[fleet]
	w.Ask(job, count)
	s.await(fmt.Sprintf("%d of job %d in fleet %s", count, job, fleet), func() (string, bool) {
		truth := w.Truth(job)
		return fmt.Sprintf("%+v", truth), truth.Count == count
	})
}

// evaluated waits until an autoscaler is evaluated after now, as a member shows it.
func (s *shop) evaluated(m *member, name string) api.Autoscaler {
	s.t.Helper()
	asked := time.Now()
	var view api.Autoscaler
	s.await("a pass of "+name, func() (string, bool) {
		var err error
		view, err = m.Client.Autoscaler(s.t.Context(), name)
		return fmt.Sprintf("%+v, %v", view.Evaluation, err), err == nil && view.Evaluation.Last.After(asked)
	})
	return view
}

// TestMembers shows and steers fleets by any member, and moves them as members come and
// go: with what was remembered, and what was paused.
func TestMembers(t *testing.T) {
	t.Parallel()
	s := open(t, 3, 1)
	s.spread()
	for _, m := range s.members {
		s.await("all autoscalers at "+m.name, func() (string, bool) {
			views, err := m.Client.Autoscalers(t.Context())
			return fmt.Sprintf("%d, %v", len(views), err), len(views) == len(fleets)*jobs
		})
	}
	owner := s.member(s.owners(s.members[0])["alpha"])
	other := s.members[0]
	if other == owner {
		other = s.members[1]
	}

	// Steered by one that does not own it.
	s.follows("alpha", 0, 7)
	if _, err := other.Client.Pause(t.Context(), policy.Scope{Autoscaler: "alpha-1"}, api.PauseRequest{Reason: "moving house"}); err != nil {
		t.Fatal(err)
	}
	before := s.evaluated(owner, "alpha-1")
	if len(before.Pauses) != 1 || before.Pauses[0].Reason != "moving house" || before.Pauses[0].Author == "members" {
		t.Errorf("the owner has the pauses %+v", before.Pauses)
	}
	if _, err := other.Client.Scale(t.Context(), "alpha-2", 9, false); err != nil {
		t.Fatal(err)
	}
	if got := s.worlds["alpha"].Truth(2).Count; got != 9 {
		t.Errorf("%d replicas after a person asked for 9", got)
	}
	remembered := s.evaluated(other, "alpha-0")

	// The owner is gone without a word.
	owner.Kill()
	began := time.Now()
	s.await("another owner", func() (string, bool) {
		now := s.owners(other)["alpha"]
		return now, now != "" && now != owner.name
	})
	after := s.evaluated(other, "alpha-0")
	if took := time.Since(began); took > ttl+8*time.Second {
		t.Errorf("taken over after %s", took)
	}
	if !after.Created.Equal(remembered.Created) || !after.Status.LastScaleTime.Equal(remembered.Status.LastScaleTime) {
		t.Errorf("what was remembered is not: created %s and scaled %s, before %s and %s",
			after.Created, after.Status.LastScaleTime, remembered.Created, remembered.Status.LastScaleTime)
	}
	if paused := s.evaluated(other, "alpha-1"); len(paused.Pauses) != 1 || paused.Pauses[0].Reason != "moving house" {
		t.Errorf("the next owner has the pauses %+v", paused.Pauses)
	}
	s.worlds["alpha"].Ask(0, 2) // which the window of before holds
	if held := s.evaluated(other, "alpha-0"); held.Status.DesiredReplicas < 7 || s.worlds["alpha"].Truth(0).Count < 7 {
		t.Errorf("the window is forgotten: %+v", held.Status)
	}

	// And back, and asked to leave.
	owner.Launch()
	s.await("the member again, with its share", func() (string, bool) {
		owners := s.owners(other)
		for _, name := range owners {
			if name == owner.name {
				return "", true
			}
		}
		return fmt.Sprint(owners), false
	})
	leaving := s.member(s.owners(other)["beta"])
	if leaving == other {
		other = owner
	}
	leaving.Stop()
	began = time.Now()
	s.await("another owner", func() (string, bool) {
		now := s.owners(other)["beta"]
		return now, now != "" && now != leaving.name
	})
	s.evaluated(other, "beta-0")
	if took := time.Since(began); took > ttl {
		t.Errorf("a planned stop is taken over after %s, want sooner than a lease of %s", took, ttl)
	}
	s.follows("beta", 0, 19)
}
