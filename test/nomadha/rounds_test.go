package nomadha

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/hpad/hpad/daemon/cluster"
	"github.com/hpad/hpad/daemon/cluster/nomad"
	"github.com/hpad/hpad/settings/webtest"
	nomadfleet "github.com/hpad/hpad/targets/nomad"
	"github.com/hpad/hpad/test/internal/members"
	"github.com/hpad/hpad/test/internal/world"
	"github.com/hpad/hpad/test/nomad/nomadtest"
)

func TestRounds(t *testing.T) {
	t.Parallel()
	shared := nomadtest.StartServers(t, 3, nomadtest.Options{ACL: true})
	prepare := map[string]func(t *testing.T, cluster string) (members.Fault, members.Options){
		"most servers suspended": halted, "server disks full": full,
		"token revoked": func(t *testing.T, cluster string) (members.Fault, members.Options) {
			return revoked(t, shared, cluster)
		},
	}
	for name, fault := range members.Faults {
		prepare[name] = func(t *testing.T, cluster string) (members.Fault, members.Options) {
			return fault, over(t, shared, cluster, newTokens(t, shared))
		}
	}
	for name, fault := range prepare {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			members.Rounds(t, fault)
		})
	}
}

// over returns the options for a cluster that uses Nomad servers as its store. The members are
// distributed over the servers. Each member has its own token unless k is nil.
func over(t *testing.T, servers *nomadtest.Cluster, cluster string, k *tokens) members.Options {
	t.Helper()
	next := 0
	return members.Options{
		Cluster: cluster, Servers: urls(servers),
		Store: func(name string, urls []string) string {
			next++
			return fmt.Sprintf("store = \"nomad\"\nnomad = { address = %q%s }", urls[next%len(urls)], k.login(name))
		},
		View: viewer(t, servers, cluster),
	}
}

func viewer(t *testing.T, servers *nomadtest.Cluster, name string) func(ctx context.Context) (cluster.View, error) {
	agent := nomadfleet.Config{Address: servers.URL}
	if servers.Token != "" {
		agent.TokenFile = webtest.Write(t, t.TempDir(), "token", servers.Token)
	}
	return func(ctx context.Context) (cluster.View, error) {
		c, err := nomad.New(nomad.Options{Cluster: name, Path: "hpad", Agent: agent})
		if err != nil {
			return cluster.View{}, err
		}
		defer func() { _ = c.Close() }()
		return c.View(ctx)
	}
}

type tokens struct {
	t       *testing.T
	servers *nomadtest.Cluster
	dir     string
	issued  map[string]string
}

func newTokens(t *testing.T, servers *nomadtest.Cluster) *tokens {
	t.Helper()
	return &tokens{t: t, servers: servers, dir: t.TempDir(), issued: map[string]string{}}
}

func (k *tokens) login(member string) string {
	if k == nil {
		return ""
	}
	k.t.Helper()
	token := tokenOf(k.t, k.servers.Agent, "hpad", documented(k.t))
	k.issued[member] = token.AccessorID
	return fmt.Sprintf(", token_file = %q", webtest.Write(k.t, k.dir, member, token.SecretID))
}

func revoked(t *testing.T, servers *nomadtest.Cluster, cluster string) (members.Fault, members.Options) {
	k := newTokens(t, servers)
	return members.Fault{
		Moves: true,
		Begin: func(_ *members.Cluster, owner *members.Member, _ int) {
			if _, err := servers.Client.ACLTokens().Delete(k.issued[owner.Name], nil); err != nil {
				t.Fatal(err)
			}
		},
		End: func(_ *members.Cluster, owner *members.Member, _ int) { k.login(owner.Name) },
	}, over(t, servers, cluster, k)
}

func ailing(t *testing.T, options nomadtest.Options) *nomadtest.Cluster {
	t.Helper()
	servers := nomadtest.StartServers(t, 3, options)
	t.Cleanup(func() {
		for _, server := range servers.Servers {
			server.Kill()
		}
	})
	return servers
}

func halted(t *testing.T, cluster string) (members.Fault, members.Options) {
	servers := ailing(t, nomadtest.Options{})
	return members.Fault{
		Refusal: "NotOwner",
		Begin: func(_ *members.Cluster, _ *members.Member, n int) {
			for i, server := range servers.Servers {
				if i != n%len(servers.Servers) {
					server.Freeze()
				}
			}
		},
		End: func(*members.Cluster, *members.Member, int) {
			for _, server := range servers.Servers {
				server.Thaw()
			}
		},
	}, over(t, servers, cluster, nil)
}

func full(t *testing.T, cluster string) (members.Fault, members.Options) {
	const disk = 128
	servers := ailing(t, nomadtest.Options{Disk: disk})
	var end func()
	return members.Fault{
		Refusal: "NotOwner",
		Begin: func(*members.Cluster, *members.Member, int) {
			for _, server := range servers.Servers {
				server.Fill()
			}
			end = stuff(t, servers)
		},
		End: func(*members.Cluster, *members.Member, int) {
			end()
			for _, server := range servers.Servers {
				server.Empty()
			}
		},
	}, over(t, servers, cluster, nil)
}

func stuff(t *testing.T, servers *nomadtest.Cluster) (end func()) {
	t.Helper()
	const timeout, enough = 500 * time.Millisecond, 3
	ctx, cancel := context.WithCancel(t.Context())
	refused, ended := make(chan struct{}), make(chan struct{})
	full := sync.OnceFunc(func() { close(refused) })
	write := func() error {
		call, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		junk := &api.Variable{Path: "junk", Items: api.VariableItems{"content": "x"}}
		_, _, err := servers.Client.Variables().Update(junk, new(api.WriteOptions).WithContext(call))
		return err
	}
	go func() {
		defer close(ended)
		for n := 0; ctx.Err() == nil; {
			if n++; write() == nil {
				n = 0
			}
			if n == enough {
				full()
			}
		}
	}()
	select {
	case <-refused:
	case <-time.After(world.Patience):
		t.Error("the disks of Nomad's servers did not become full")
	}
	return func() {
		cancel()
		<-ended
	}
}
