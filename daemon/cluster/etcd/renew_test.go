package etcd

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/grpc"

	"github.com/hpad/hpad/daemon/cluster/lease"
)

// server is a fake etcd that renews every lease, like a replaced leader.
type server struct {
	etcdserverpb.UnimplementedKVServer
	etcdserverpb.UnimplementedLeaseServer
	// member is the key of the member, or nil. err is the error of reads.
	member   *mvccpb.KeyValue
	err      error
	renewals atomic.Int64
}

func (s *server) Range(context.Context, *etcdserverpb.RangeRequest) (*etcdserverpb.RangeResponse, error) {
	response := &etcdserverpb.RangeResponse{Header: &etcdserverpb.ResponseHeader{}}
	if s.member != nil {
		response.Kvs = []*mvccpb.KeyValue{s.member}
	}
	return response, s.err
}

func (s *server) LeaseKeepAlive(stream etcdserverpb.Lease_LeaseKeepAliveServer) error {
	request, err := stream.Recv()
	if err != nil {
		return err
	}
	s.renewals.Add(1)
	return stream.Send(&etcdserverpb.LeaseKeepAliveResponse{Header: &etcdserverpb.ResponseHeader{}, ID: request.ID, TTL: 60})
}

// TestRenew checks that a session is renewed only while a read returns the member's own key, and
// that after a lost response the read comes first.
func TestRenew(t *testing.T) {
	const created = 3
	unreadable := errors.New("no quorum")
	for name, test := range map[string]struct {
		server        *server
		lost          bool
		over, renewed bool
		renewals      int64
	}{
		"a member":                          {server: &server{member: &mvccpb.KeyValue{CreateRevision: created}}, renewed: true, renewals: 1},
		"a member, after a loss":            {server: &server{member: &mvccpb.KeyValue{CreateRevision: created}}, lost: true, renewed: true, renewals: 1},
		"a removed member":                  {server: &server{}, over: true, renewals: 1},
		"another member with the same name": {server: &server{member: &mvccpb.KeyValue{CreateRevision: created + 1}}, over: true, renewals: 1},
		"a removed member, after a loss":    {server: &server{}, lost: true, over: true},
		"an unreadable store":               {server: &server{err: unreadable}, renewals: 1},
		"an unreadable store, after a loss": {server: &server{err: unreadable}, lost: true},
	} {
		t.Run(name, func(t *testing.T) {
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			store := grpc.NewServer()
			etcdserverpb.RegisterKVServer(store, test.server)
			etcdserverpb.RegisterLeaseServer(store, test.server)
			go func() { _ = store.Serve(listener) }() // ends with Stop
			defer store.Stop()
			c := New(Options{Cluster: "test", Endpoints: []string{"http://" + listener.Addr().String()}})
			defer func() { _ = c.Close() }()
			s := &session{c: c, Lease: lease.New(lease.Now(), time.Second), name: "a", id: 7, created: created}
			before := s.Expires()
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			err = s.renew(ctx, test.lost)
			if test.renewed != (err == nil) || test.over != errors.Is(err, lease.ErrOver) || test.renewed != s.Expires().After(before) {
				t.Errorf("renew() = %v, and the expiry of the session changed by %s", err, s.Expires().Sub(before))
			}
			if got := test.server.renewals.Load(); got != test.renewals {
				t.Errorf("renewals of the lease = %d, want %d", got, test.renewals)
			}
		})
	}
}
