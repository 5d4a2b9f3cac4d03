// Package members runs clusters of hpads for tests: real processes, over any store, that
// share simulated Nomad clusters.
package members

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
	"github.com/hpad/hpad/daemon/web/webtest"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/test/internal/program"
	"github.com/hpad/hpad/test/internal/wait"
	"github.com/hpad/hpad/test/internal/world"
	"github.com/hpad/hpad/test/scale/sim"
)

// Jobs is how many each fleet has.
const Jobs = 4

// Fleets are those that the members share.
var Fleets = []string{"alpha", "beta", "gamma"}

// Options are what clusters differ in.
type Options struct {
	// Store returns what [ha] says of the store for a member of that name, as
	// `etcd = { … }`.
	Store func(name string) string
	// TTL is the lease of the members.
	TTL time.Duration
	// Authority vouches for members, which speak TLS with each other; nil has them not.
	Authority *webtest.Authority
}

// Cluster is some members with what they scale. Its methods are for the test's own
// goroutine.
type Cluster struct {
	// Worlds are what is scaled, by fleet.
	Worlds  map[string]*sim.World
	Members []*Member

	t       *testing.T
	options Options
	dir     string
	// shared is what all members' configurations have.
	shared string
}

// Member is one hpad.
type Member struct {
	*program.Program
	Name string
}

// Start runs so many members, and returns once each fleet has an owner.
func Start(t *testing.T, members int, options Options) *Cluster {
	t.Helper()
	c := &Cluster{Worlds: map[string]*sim.World{}, t: t, options: options, dir: t.TempDir()}
	var text strings.Builder
	for _, fleet := range Fleets {
		w := sim.New(sim.Options{Jobs: Jobs})
		c.Worlds[fleet] = w
		ctx, cancel := context.WithCancel(context.Background())
		go w.Run(ctx)
		nomad, prometheus := serve(t, w.Nomad()), serve(t, w.Prometheus())
		t.Cleanup(cancel)
		fmt.Fprintf(&text, "[fleets.%[1]s]\nkind = \"nomad\"\naddress = %[2]q\n[sources.%[1]s]\nkind = \"prometheus\"\nurl = %[3]q\n", fleet, nomad, prometheus)
		for i := range Jobs {
			fmt.Fprintf(&text, `[autoscalers.%[1]s-%[3]d]
target = { fleet = %[1]q, job = %[2]q, group = "app" }
min_replicas = 1
max_replicas = 20
metrics = [{ type = "External", name = "load", source = %[1]q, query = '%[4]s', average_value = "%[5]d" }]
behavior = { scale_down = { stabilization_window = "10m" } }
`, fleet, sim.JobID(i), i, sim.Load(i), sim.PerInstance)
		}
	}
	c.shared = text.String()
	for i := range members {
		name := fmt.Sprint("hpad-", i)
		c.Members = append(c.Members, c.Prepare(name, options.Store(name)))
	}
	for _, m := range c.Members {
		m.Launch()
	}
	c.Await("an owner of each fleet", func() (string, bool) {
		owners := c.Owners(c.Members[0])
		return fmt.Sprint(owners), len(owners) == len(Fleets)
	})
	return c
}

func serve(t *testing.T, handler http.Handler) string {
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server.URL
}

// Prepare returns a member that does not run yet, with what [ha] says of its store.
func (c *Cluster) Prepare(name, store string) *Member {
	c.t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		c.t.Fatal(err)
	}
	address := listener.Addr().String()
	_ = listener.Close()
	hash, err := bcrypt.GenerateFromPassword([]byte("secret"), bcrypt.MinCost)
	if err != nil {
		c.t.Fatal(err)
	}
	web, password := filepath.Join(c.dir, name+"-web.yml"), filepath.Join(c.dir, "password")
	scheme, serving, trust := "http", "", ""
	if authority := c.options.Authority; authority != nil {
		cert, key := authority.Issue(c.t, name+"-web")
		scheme, serving = "https", fmt.Sprintf("tls_server_config:\n  cert_file: %q\n  key_file: %q\n", cert, key)
		trust = fmt.Sprintf(", ca_file = %q", authority.File)
	}
	for path, text := range map[string]string{web: serving + "basic_auth_users:\n  members: " + string(hash) + "\n", password: "secret\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			c.t.Fatal(err)
		}
	}
	return &Member{Name: name, Program: program.Prepare(c.t, program.Options{
		Daemon: fmt.Sprintf("listen = %q\nweb_config = %q\nsync_period = \"1s\"\n", address, web),
		Config: fmt.Sprintf(`[ha]
member = %q
address = "%s://%s"
ttl = %q
%s
members = { username = "members", password_file = %q%s }
`, name, scheme, address, c.options.TTL, store, password, trust) + c.shared,
	})}
}

// Await waits until something is so.
func (c *Cluster) Await(what string, is func() (string, bool)) {
	c.t.Helper()
	wait.For(c.t, world.Patience, what, is)
}

// Owners returns who owns each fleet that is owned, as a member says.
func (c *Cluster) Owners(m *Member) map[string]string {
	owners := map[string]string{}
	found, err := m.Client.Cluster(c.t.Context())
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

// Spread waits until every member has its share.
func (c *Cluster) Spread() {
	c.t.Helper()
	c.Await("a share for each member", func() (string, bool) {
		owners, busy := c.Owners(c.Members[0]), map[string]bool{}
		for _, owner := range owners {
			busy[owner] = true
		}
		return fmt.Sprint(owners), len(owners) == len(Fleets) && len(busy) == min(len(Fleets), len(c.Members))
	})
}

// OwnerOf returns the owner of a fleet, and some other member.
func (c *Cluster) OwnerOf(fleet string) (owner, other *Member) {
	c.t.Helper()
	name := c.Owners(c.Members[0])[fleet]
	for _, m := range c.Members {
		if m.Name == name {
			owner = m
		} else {
			other = m
		}
	}
	if owner == nil {
		c.t.Fatalf("fleet %s is %q's", fleet, name)
	}
	return owner, other
}

// TakenOver waits until another member than one owns a fleet, as a third one says.
func (c *Cluster) TakenOver(fleet string, from, says *Member) {
	c.t.Helper()
	c.Await("another owner", func() (string, bool) {
		now := c.Owners(says)[fleet]
		return now, now != "" && now != from.Name
	})
}

// Follows waits until the count of a job follows a load that asks for so many.
func (c *Cluster) Follows(fleet string, job, count int) {
	c.t.Helper()
	w := c.Worlds[fleet]
	w.Ask(job, count)
	c.Await(fmt.Sprintf("%d of job %d in fleet %s", count, job, fleet), func() (string, bool) {
		truth := w.Truth(job)
		return fmt.Sprintf("%+v", truth), truth.Count == count
	})
}

// Evaluated waits until an autoscaler is evaluated after now, as a member shows it.
func (c *Cluster) Evaluated(m *Member, name string) api.Autoscaler {
	c.t.Helper()
	asked := time.Now()
	var view api.Autoscaler
	c.Await("a pass of "+name, func() (string, bool) {
		var err error
		view, err = m.Client.Autoscaler(c.t.Context(), name)
		return fmt.Sprintf("%+v, %v", view.Evaluation, err), err == nil && view.Evaluation.Last.After(asked)
	})
	return view
}

// Paused has an autoscaler paused, as a member is asked to.
func (c *Cluster) Paused(m *Member, name string) {
	c.t.Helper()
	if _, err := m.Client.Pause(c.t.Context(), policy.Scope{Autoscaler: name}, api.PauseRequest{Reason: "moving house"}); err != nil {
		c.t.Fatal(err)
	}
}
