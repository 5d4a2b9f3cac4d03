package etcd

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/hpad/hpad/daemon/cluster"
	"github.com/hpad/hpad/daemon/cluster/etcd"
	"github.com/hpad/hpad/settings/webtest"
	"github.com/hpad/hpad/test/etcd/etcdtest"
	"github.com/hpad/hpad/test/internal/members"
	"github.com/hpad/hpad/test/wait"
)

func TestRounds(t *testing.T) {
	t.Parallel()
	shared := etcdtest.Start(t, 3)
	prepare := map[string]func(t *testing.T, cluster string) (members.Fault, members.Options){
		"etcd is full": full, "certificate expired": expired,
	}
	for name, fault := range members.Faults {
		prepare[name] = func(t *testing.T, cluster string) (members.Fault, members.Options) {
			return fault, viewed(t, shared, cluster)
		}
	}
	for name, fault := range prepare {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			members.Rounds(t, fault)
		})
	}
}

func viewed(t *testing.T, store *etcdtest.Cluster, name string) members.Options {
	t.Helper()
	viewer := etcd.Options{Cluster: name, Endpoints: store.Endpoints}
	if secure := store.Secure; secure != nil {
		cert, key := secure.Authority.Issue(t, "test")
		viewer.TLS = secure.Authority.ClientConfig(t, cert, key)
		viewer.Username, viewer.PasswordFile = secure.Username, secure.PasswordFile
	}
	view := func(ctx context.Context) (cluster.View, error) {
		c := etcd.New(viewer)
		defer func() { _ = c.Close() }()
		return c.View(ctx)
	}
	return over(t, store, members.Options{Cluster: name, View: view})
}

func full(t *testing.T, cluster string) (members.Fault, members.Options) {
	store := etcdtest.Start(t, 3, "--quota-backend-bytes", fmt.Sprint(quota))
	client := store.Client(0)
	return members.Fault{
		Refusal: "quota",
		Begin:   func(*members.Cluster, *members.Member, int) { fill(t, client) },
		End:     func(*members.Cluster, *members.Member, int) { empty(t, client, store.Endpoints) },
	}, viewed(t, store, cluster)
}

func expired(t *testing.T, cluster string) (members.Fault, members.Options) {
	secure := etcdtest.Secure{Authority: webtest.NewCA(t, t.TempDir(), "ca"), Username: "hpad", Password: "secret"}
	return members.Fault{
		Moves: true,
		Begin: func(c *members.Cluster, owner *members.Member, _ int) {
			secure.Authority.IssueExpired(t, owner.Name)
			c.Reset(owner)
		},
		End: func(_ *members.Cluster, owner *members.Member, _ int) { secure.Authority.Issue(t, owner.Name) },
	}, viewed(t, etcdtest.StartSecure(t, secure), cluster)
}

const quota = 4 << 20

func fill(t *testing.T, client *clientv3.Client) {
	t.Helper()
	value := strings.Repeat("x", 1<<20)
	for i := range 10 * quota >> 20 {
		full := false
		etcdtest.Do(t, "fill etcd", func() error {
			_, err := client.Put(t.Context(), fmt.Sprint("/junk/", i), value)
			if full = errors.Is(err, rpctypes.ErrNoSpace); full {
				return nil
			}
			return err
		})
		if full {
			return
		}
	}
	t.Fatal("etcd did not become full")
}

func empty(t *testing.T, client *clientv3.Client, endpoints []string) {
	t.Helper()
	ctx, revision := t.Context(), int64(0)
	etcdtest.Do(t, "delete", func() error {
		deleted, err := client.Delete(ctx, "/junk/", clientv3.WithPrefix())
		if err == nil {
			revision = deleted.Header.Revision
		}
		return err
	})
	etcdtest.Do(t, "compact", func() error {
		_, err := client.Compact(ctx, revision, clientv3.WithCompactPhysical())
		if errors.Is(err, rpctypes.ErrCompacted) {
			return nil
		}
		return err
	})
	for _, endpoint := range endpoints {
		wait.For(t, time.Minute, "a small database of "+endpoint, func() (string, bool) {
			etcdtest.Do(t, "defragment", func() error { _, err := client.Defragment(ctx, endpoint); return err })
			status, err := client.Status(ctx, endpoint)
			if err != nil {
				return err.Error(), false
			}
			return fmt.Sprintf("the database has %d bytes", status.DbSize), status.DbSize < quota/2
		})
	}
	etcdtest.Do(t, "disarm", func() error { _, err := client.AlarmDisarm(ctx, new(clientv3.AlarmMember)); return err })
}
