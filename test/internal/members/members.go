// Package members runs clusters of real hpad processes that share simulated Nomad clusters. The
// clusters can use any store.
package members

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/cluster"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/settings/webtest"
	"github.com/hpad/hpad/test/internal/ports"
	"github.com/hpad/hpad/test/internal/program"
	"github.com/hpad/hpad/test/internal/relay"
	"github.com/hpad/hpad/test/internal/world"
	"github.com/hpad/hpad/test/scale/sim"
	"github.com/hpad/hpad/test/wait"
)

// TTL is the lease duration of the members.
const TTL = 5 * time.Second

// Jobs is the number of jobs of each fleet.
const Jobs = 4

// Fleets are the names of the shared fleets.
var Fleets = []string{"alpha", "beta", "gamma"}

// Options contains the settings that differ between clusters.
type Options struct {
	// Cluster is the name of the cluster. Empty means "hpad".
	Cluster string
	// Servers are the URLs of the store's servers. Each member connects to them through its
	// own relays.
	Servers []string
	// Store returns the store configuration in [ha], such as `etcd = { … }`, for a member and its
	// server URLs.
	Store func(name string, servers []string) string
	// View returns the members and fleets according to the store. It may be nil.
	View func(ctx context.Context) (cluster.View, error)
	// Authority issues certificates for TLS between members. nil means plain HTTP.
	Authority *webtest.CA
	// Watch, if not nil, wraps the handler of a fleet's platform. The token in a call is the name
	// of the member that sent it.
	Watch func(fleet string, next http.Handler) http.Handler
	// SyncPeriod is the sync period of all members. 0 means that it is 1 or 2 seconds.
	SyncPeriod time.Duration
	// TTL is the lease duration. 0 means the constant.
	TTL time.Duration
	// Windows maps jobs to scale-down stabilization windows. The default is "1h".
	Windows map[int]string
}

// Cluster is a set of members and the fleets that they scale. Its methods must be called from the
// test's goroutine.
type Cluster struct {
	// Worlds maps fleets to their simulated platforms.
	Worlds  map[string]*sim.World
	Members []*Member

	t       *testing.T
	options Options
	dir     string
	// password is the path of a file that contains the members' password, "secret".
	password string
	// relays maps member names to the relays through which the member connects to the store's
	// servers. fronts maps them to the relays through which other members connect to the member.
	relays map[string][]*relay.Relay
	fronts map[string]*relay.Relay
	// shared is the part of the configuration that all members have in common.
	shared string
}

// Member is one hpad process.
type Member struct {
	*program.Program
	Name string
}

// New starts the simulated platforms and returns a cluster without members.
func New(t *testing.T, options Options) *Cluster {
	t.Helper()
	c := &Cluster{
		Worlds: map[string]*sim.World{}, t: t, options: options, dir: t.TempDir(),
		relays: map[string][]*relay.Relay{}, fronts: map[string]*relay.Relay{},
	}
	c.password = webtest.Write(t, c.dir, "password", "secret\n")
	var text strings.Builder
	for _, fleet := range Fleets {
		w := sim.New(sim.Options{Jobs: Jobs})
		c.Worlds[fleet] = w
		ctx, cancel := context.WithCancel(context.Background())
		go w.Run(ctx)
		calls := w.Nomad()
		if options.Watch != nil {
			calls = options.Watch(fleet, calls)
		}
		nomad, prometheus := Serve(t, calls), Serve(t, w.Prometheus())
		t.Cleanup(cancel)
		fmt.Fprintf(&text, "[fleets.%[1]s]\nkind = \"nomad\"\naddress = %[2]q\ntoken_file = \"/proc/self/cwd/token\"\n[sources.%[1]s]\nkind = \"prometheus\"\nurl = %[3]q\n", fleet, nomad, prometheus)
		for i := range Jobs {
			fmt.Fprintf(&text, `[autoscalers.%[1]s-%[3]d]
target = { fleet = %[1]q, job = %[2]q, group = "app" }
min_replicas = 1
max_replicas = 20
metrics = [{ type = "External", name = "load", source = %[1]q, query = '%[4]s', average_value = "%[5]d" }]
behavior = { scale_down = { stabilization_window = %[6]q } }
`, fleet, sim.JobID(i), i, sim.Load(i), sim.PerInstance, cmp.Or(options.Windows[i], "1h"))
		}
	}
	c.shared = text.String()
	return c
}

// Serve starts a server for the duration of the test and returns its URL.
func Serve(t *testing.T, handler http.Handler) string {
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server.URL
}

// Start starts the given number of members and waits until each fleet has an owner.
func (c *Cluster) Start(count int) {
	c.t.Helper()
	c.Add(count)
	for _, m := range c.Members {
		m.Launch()
	}
	c.Await("an owner of each fleet", func() (string, bool) {
		owners := c.Owners(c.Members[0])
		return fmt.Sprint(owners), len(owners) == len(Fleets)
	})
}

// Add adds the given number of members, named "hpad-0" and so on, without starting them.
func (c *Cluster) Add(count int) {
	c.t.Helper()
	for i := range count {
		c.Members = append(c.Members, c.Prepare(fmt.Sprint("hpad-", i)))
	}
}

// Prepare returns a member that is neither started nor in Members. Every second member has
// different values of the [daemon] keys that may differ between members.
func (c *Cluster) Prepare(name string) *Member {
	c.t.Helper()
	address := ports.Free(c.t)
	url, serving, trust := "http://"+address, "", ""
	if authority := c.options.Authority; authority != nil {
		cert, key := authority.Issue(c.t, name+"-web")
		url, serving = "https://"+address, fmt.Sprintf("tls_server_config:\n  cert_file: %q\n  key_file: %q\n", cert, key)
		trust = fmt.Sprintf(", ca_file = %q", authority.File)
	}
	different := len(c.fronts) % 2
	c.fronts[name] = relay.New(c.t, url)
	var servers []string
	for _, server := range c.options.Servers {
		r := relay.New(c.t, server)
		c.relays[name], servers = append(c.relays[name], r), append(servers, r.URL)
	}
	web := webtest.Write(c.t, c.dir, name+"-web.yml", serving+"basic_auth_users:\n  members: "+webtest.Hash(c.t, "secret")+"\n")
	return &Member{Name: name, Program: program.Prepare(c.t, program.Options{
		Directory: c.directory(name),
		Daemon: fmt.Sprintf("listen = %q\nweb_config = %q\nsync_period = \"%s\"\nconcurrent_syncs = %d\nautoscaler_series = %t\ntolerance = 0.001\n",
			address, web, cmp.Or(c.options.SyncPeriod, time.Duration(1+different)*time.Second), 5+different, different == 0),
		Config: fmt.Sprintf(`[ha]
cluster = %q
member = %q
address = %q
ttl = %q
%s
members = { username = "members", password_file = %q%s }
`, cmp.Or(c.options.Cluster, "hpad"), name, c.fronts[name].URL, cmp.Or(c.options.TTL, TTL), c.options.Store(name, servers), c.password, trust) + c.shared,
	})}
}

// Cut drops a member's calls to the store, the responses, or both. Calling it with false and false
// restores the connection.
func (c *Cluster) Cut(m *Member, calls, answers bool) {
	for _, r := range c.relays[m.Name] {
		r.Drop(calls, answers)
	}
}

// Reset closes all connections between a member and the store. The member can reconnect.
func (c *Cluster) Reset(m *Member) {
	for _, r := range c.relays[m.Name] {
		r.Reset()
	}
}

// Alone returns an hpad that has the same fleets but is not part of the cluster. It is not
// started.
func (c *Cluster) Alone() *Member {
	c.t.Helper()
	return &Member{Name: "alone", Program: program.Prepare(c.t, program.Options{Directory: c.directory("alone"), Config: c.shared})}
}

// directory returns a working directory that contains the token that identifies a member.
func (c *Cluster) directory(name string) string {
	c.t.Helper()
	return filepath.Dir(webtest.Write(c.t, c.t.TempDir(), "token", name))
}

// Await calls the function is repeatedly until it returns true.
func (c *Cluster) Await(what string, is func() (string, bool)) {
	c.t.Helper()
	wait.For(c.t, world.Patience, what, is)
}

// View returns the members and fleets according to the store.
func (c *Cluster) View(ctx context.Context) (cluster.View, error) { return c.options.View(ctx) }

// Owners maps each owned fleet to its owner, as reported by a member.
func (c *Cluster) Owners(m *Member) map[string]string {
	owners := map[string]string{}
	found, err := api.Get[api.Cluster](c.t.Context(), m.Client, api.Path("cluster"), nil)
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

// Spread waits until every member lists all members and the fleets are distributed, with no move
// pending.
func (c *Cluster) Spread() {
	c.t.Helper()
	c.Await("all members, and a stable distribution of fleets", func() (string, bool) {
		for _, m := range c.Members {
			found, err := api.Get[api.Cluster](c.t.Context(), m.Client, api.Path("cluster"), nil)
			if err != nil || len(found.Members) != len(c.Members) || found.Problem != "" || len(found.Fleets) != len(Fleets) {
				return fmt.Sprintf("%s has %+v, %v", m.Name, found, err), false
			}
			busy := map[string]bool{}
			for _, fleet := range found.Fleets {
				if fleet.Owner == "" || fleet.Owner != fleet.Next {
					return fmt.Sprintf("%s has %+v", m.Name, fleet), false
				}
				busy[fleet.Owner] = true
			}
			if len(busy) != min(len(Fleets), len(c.Members)) {
				return fmt.Sprintf("%s has %+v", m.Name, found.Fleets), false
			}
		}
		return "", true
	})
}

// OwnerOf waits until a fleet has an owner, and returns the owner and a different member.
func (c *Cluster) OwnerOf(fleet string) (owner, other *Member) {
	c.t.Helper()
	c.Await("an owner of fleet "+fleet, func() (string, bool) {
		name := c.Owners(c.Members[0])[fleet]
		for _, m := range c.Members {
			if m.Name == name {
				owner = m
			} else {
				other = m
			}
		}
		return name, owner != nil
	})
	return owner, other
}

// Follows sets the load of a job so that it requires a count, and waits until the job has that
// count.
func (c *Cluster) Follows(fleet string, job, count int) {
	c.t.Helper()
	w := c.Worlds[fleet]
	w.Ask(job, count)
	c.Await(fmt.Sprintf("count %d of job %d in fleet %s", count, job, fleet), func() (string, bool) {
		truth := w.Truth(job)
		return fmt.Sprintf("%+v", truth), truth.Count == count
	})
}

// Evaluated waits for a new evaluation of an autoscaler, as reported by a member.
func (c *Cluster) Evaluated(m *Member, name string) api.Autoscaler {
	c.t.Helper()
	return c.EvaluatedAfter(m, name, time.Now())
}

// EvaluatedAfter waits for an evaluation later than began.
func (c *Cluster) EvaluatedAfter(m *Member, name string, began time.Time) api.Autoscaler {
	c.t.Helper()
	var view api.Autoscaler
	c.Await("a pass of "+name, func() (string, bool) {
		var err error
		view, err = api.Get[api.Autoscaler](c.t.Context(), m.Client, api.Path("autoscalers", name), nil)
		return fmt.Sprintf("%+v, %v", view.Evaluation, err), err == nil && view.Evaluation.Last.After(began)
	})
	return view
}

// Paused pauses an autoscaler through a member. It retries while the fleet moves to a different
// owner.
func (c *Cluster) Paused(m *Member, name string) {
	c.t.Helper()
	c.Await("a pause of "+name, func() (string, bool) {
		_, err := api.Post[policy.Pause](c.t.Context(), m.Client, api.PathOf(policy.Scope{Autoscaler: name}, "pause"), api.PauseRequest{Reason: "moving house"})
		return fmt.Sprint(err), err == nil
	})
}
