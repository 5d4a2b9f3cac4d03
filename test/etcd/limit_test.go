package etcd

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/hpad/hpad/daemon/cluster"
	"github.com/hpad/hpad/daemon/cluster/etcd"
	"github.com/hpad/hpad/daemon/state"
	"github.com/hpad/hpad/test/etcd/etcdtest"
)

// TestRequestLimit checks that a server with a low request limit rejects only the records that
// exceed it.
func TestRequestLimit(t *testing.T) {
	store := etcdtest.Start(t, 1, "--max-request-bytes=65536")
	c := etcd.New(etcd.Options{Cluster: "test", Endpoints: store.Endpoints})
	t.Cleanup(func() { _ = c.Close() })
	session, err := c.Join(t.Context(), cluster.Member{Name: "a"}, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	term, err := session.Acquire(t.Context(), "prod", "")
	if err != nil {
		t.Fatal(err)
	}
	values := map[string][]byte{"large": bytes.Repeat([]byte("x"), 200_000)}
	for n := range 20 {
		values[fmt.Sprint("small", n)] = bytes.Repeat([]byte("x"), 10_000)
	}
	err = term.Write(t.Context(), values)
	if rejected, ok := errors.AsType[state.RejectedError](err); !ok || len(rejected) != 1 || rejected["large"] == nil {
		t.Fatalf("Write() = %v, want only the large record rejected", err)
	}
	var found []string
	if err := term.Load(t.Context(), func(key string, _ []byte) error {
		found = append(found, key)
		return nil
	}); err != nil || len(found) != 20 || slices.Contains(found, "large") {
		t.Errorf("Load() = %q, %v, want the small records", found, err)
	}
	if err := session.Leave(t.Context()); err != nil {
		t.Error(err)
	}
}
