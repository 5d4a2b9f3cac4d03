// Package etcd stores the state of a cluster's members in etcd.
//
// Keys below /hpad/CLUSTER/ are:
//
//	members/NAME         a member, under its lease
//	owners/FLEET         the owner of a fleet, under its lease
//	fleets/FLEET         the last owner, the number of its term, and the configuration
//	key                  the cluster's random secret
//	records/FLEET/KEY    the state of the fleet
//
// The creation revision of owners/FLEET identifies the term: every write to the fleet's state is
// a transaction that compares it.
package etcd

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/hpad/hpad/daemon/cluster"
	"github.com/hpad/hpad/daemon/cluster/lease"
	"github.com/hpad/hpad/daemon/state"
	"github.com/hpad/hpad/guard"
	"github.com/hpad/hpad/settings/secret"
)

const (
	// Limits of a transaction. The defaults of etcd are 128 operations and 1.5 MiB.
	maxOps   = 100
	maxBytes = 1 << 20
	// pageSize is the number of records per read.
	pageSize = 500
	// dialTimeout and keepAlive limit the time until a connection without responses is considered
	// broken.
	dialTimeout = 5 * time.Second
	keepAlive   = 5 * time.Second
)

// Options configures the connection to etcd.
type Options struct {
	// Cluster is the name of the cluster, which all members share.
	Cluster string
	// Endpoints lists the addresses of the servers, such as "https://10.0.0.1:2379".
	Endpoints []string
	// TLS applies to https endpoints; nil means the system's CAs.
	TLS *tls.Config
	// Username and PasswordFile are optional.
	Username, PasswordFile string
}

// Coordinator implements [cluster.Coordinator] with etcd.
type Coordinator struct {
	options Options
	prefix  string

	mu     sync.Mutex
	client *clientv3.Client
}

var _ cluster.Coordinator = (*Coordinator)(nil)

// New returns a Coordinator that connects at the first call.
func New(options Options) *Coordinator {
	return &Coordinator{options: options, prefix: "/hpad/" + options.Cluster + "/"}
}

// connected returns the client, and creates it if necessary. If a username is configured, the
// client logs in when it is created, which may fail.
func (c *Coordinator) connected() (*clientv3.Client, error) {
	client, err := c.connect()
	if err != nil {
		return nil, c.explained(err) // must not hold the lock, because this can take a second
	}
	return client, nil
}

func (c *Coordinator) connect() (*clientv3.Client, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.client != nil {
		return c.client, nil
	}
	config := clientv3.Config{
		Endpoints: c.options.Endpoints, TLS: c.options.TLS, Username: c.options.Username, Logger: zap.NewNop(),
		DialTimeout: dialTimeout, DialKeepAliveTime: keepAlive, DialKeepAliveTimeout: keepAlive, PermitWithoutStream: true,
	}
	if c.options.PasswordFile != "" {
		password, err := c.password()
		if err != nil {
			return nil, err
		}
		config.Password, config.DialOptions = password, []grpc.DialOption{grpc.WithChainUnaryInterceptor(c.login)}
	}
	client, err := clientv3.New(config)
	if err != nil {
		return nil, err
	}
	c.client = client
	return client, nil
}

func (c *Coordinator) password() (string, error) {
	password, err := secret.Read(c.options.PasswordFile)
	if err != nil {
		return "", fmt.Errorf("read its password: %w", err)
	}
	return password, nil
}

// login is called for each request. It sets the password in login requests, because the client
// reads the password only when it is created. The client adds its token to login requests too, and
// etcd 3.4 rejects a login with an expired token. In this case, login discards the client, because
// a new client has no token.
func (c *Coordinator) login(ctx context.Context, method string, request, response any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
	login, ok := request.(*etcdserverpb.AuthenticateRequest)
	if !ok {
		return invoke(ctx, method, request, response, conn, options...)
	}
	password, err := c.password()
	if err != nil {
		return err
	}
	login.Password = password
	err = invoke(ctx, method, request, response, conn, options...)
	if !errors.Is(rpctypes.Error(err), rpctypes.ErrInvalidAuthToken) {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.client != nil && c.client.ActiveConnection() == conn {
		client := c.client
		guard.Go(func() { _ = client.Close() }) // Close also ends this request
		c.client = nil
	}
	return errors.New("the login token has expired")
}

// Close implements [cluster.Coordinator].
func (c *Coordinator) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.client == nil {
		return nil
	}
	return c.client.Close()
}

// explained adds the endpoints to an error, and a remedy if the cause is known.
func (c *Coordinator) explained(err error) error {
	remedy := ""
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		remedy = ": timeout; check that a majority of its servers are running and reachable"
		if rejected := c.rejection(); rejected != nil {
			remedy = ": " + rejected.Error()
		}
	case errors.Is(err, rpctypes.ErrNoSpace):
		remedy = `: its quota is exhausted; compact and defragment it, run "etcdctl alarm disarm", and enable --auto-compaction-retention=1h`
	case errors.Is(err, rpctypes.ErrRequestTooLarge):
		remedy = "; raise its --max-request-bytes"
	case errors.Is(err, rpctypes.ErrAuthFailed), errors.Is(err, rpctypes.ErrUserEmpty), errors.Is(err, rpctypes.ErrPermissionDenied):
		remedy = "; ha.etcd.username needs read and write access to all keys below " + c.prefix
	}
	return fmt.Errorf("etcd at %s: %w%s", strings.Join(c.options.Endpoints, ", "), err, remedy)
}

// rejection returns the reason why a server rejects connections, or nil if no server rejects one
// within a second. etcd's client reports only a timeout.
func (c *Coordinator) rejection() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	for _, endpoint := range c.options.Endpoints {
		if err := c.dial(ctx, endpoint); err != nil && ctx.Err() == nil {
			return err
		}
	}
	return nil
}

// dial connects to a server. It also reads from the connection, because with TLS 1.3 a server
// rejects a client certificate only after the handshake.
func (c *Coordinator) dial(ctx context.Context, endpoint string) error {
	address, err := url.Parse(endpoint)
	if err != nil {
		return err
	}
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address.Host)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	if address.Scheme != "https" {
		return nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.options.TLS != nil {
		config = c.options.TLS.Clone()
	}
	config.NextProtos = []string{"h2"}
	if config.ServerName == "" {
		config.ServerName = address.Hostname()
	}
	secured := tls.Client(conn, config)
	if err := secured.HandshakeContext(ctx); err != nil {
		return fmt.Errorf("%s: %w", address.Host, err)
	}
	if err := secured.SetReadDeadline(time.Now().Add(time.Second / 4)); err != nil {
		return err
	}
	if _, err := secured.Read(make([]byte, 1)); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) && !errors.Is(err, io.EOF) {
		return fmt.Errorf("%s: %w", address.Host, err)
	}
	return nil
}

// txn commits changes if all conditions are true.
func (c *Coordinator) txn(ctx context.Context, conditions []clientv3.Cmp, changes ...clientv3.Op) (*clientv3.TxnResponse, error) {
	client, err := c.connected()
	if err != nil {
		return nil, err
	}
	answer, err := client.Txn(ctx).If(conditions...).Then(changes...).Commit()
	if err != nil {
		return nil, c.explained(err)
	}
	return answer, nil
}

func (c *Coordinator) memberKey(name string) string { return c.prefix + "members/" + name }
func (c *Coordinator) ownerKey(fleet string) string { return c.prefix + "owners/" + fleet }
func (c *Coordinator) fleetKey(fleet string) string { return c.prefix + "fleets/" + fleet }
func (c *Coordinator) recordsKey(fleet string) string {
	return c.prefix + "records/" + fleet + "/"
}

func encoded(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return string(text)
}

func decode(kv *mvccpb.KeyValue, value any) error {
	if err := json.Unmarshal(kv.Value, value); err != nil {
		return fmt.Errorf("decode the value of %q in etcd: %w", kv.Key, err)
	}
	return nil
}

// View implements [cluster.Coordinator].
func (c *Coordinator) View(ctx context.Context) (cluster.View, error) {
	view := cluster.View{Members: map[string]cluster.Member{}, Fleets: map[string]cluster.Ownership{}}
	answer, err := c.txn(ctx, nil,
		clientv3.OpGet(c.memberKey(""), clientv3.WithPrefix()),
		clientv3.OpGet(c.fleetKey(""), clientv3.WithPrefix()),
		clientv3.OpGet(c.ownerKey(""), clientv3.WithPrefix()),
	)
	if err != nil {
		return view, err
	}
	for _, kv := range answer.Responses[0].GetResponseRange().Kvs {
		var member cluster.Member
		if err := decode(kv, &member); err != nil {
			return view, err
		}
		view.Members[member.Name] = member
	}
	for _, kv := range answer.Responses[1].GetResponseRange().Kvs {
		var record cluster.Ownership
		if err := decode(kv, &record); err != nil {
			return view, err
		}
		view.Fleets[strings.TrimPrefix(string(kv.Key), c.fleetKey(""))] = record
	}
	for _, kv := range answer.Responses[2].GetResponseRange().Kvs {
		fleet := strings.TrimPrefix(string(kv.Key), c.ownerKey(""))
		ownership := view.Fleets[fleet]
		ownership.Owner = string(kv.Value)
		view.Fleets[fleet] = ownership
	}
	return view, nil
}

// fleet reads a fleet. owner is nil if the fleet has no owner. changed is the revision of the
// record's last change, or 0 if there is no record.
func (c *Coordinator) fleet(ctx context.Context, fleet string) (owner *mvccpb.KeyValue, record cluster.Ownership, changed int64, err error) {
	answer, err := c.txn(ctx, nil, clientv3.OpGet(c.ownerKey(fleet)), clientv3.OpGet(c.fleetKey(fleet)))
	if err != nil {
		return nil, record, 0, err
	}
	for _, kv := range answer.Responses[0].GetResponseRange().Kvs {
		owner = kv
	}
	for _, kv := range answer.Responses[1].GetResponseRange().Kvs {
		changed = kv.ModRevision
		if err := decode(kv, &record); err != nil {
			return nil, record, 0, err
		}
	}
	return owner, record, changed, nil
}

// Configure implements [cluster.Coordinator].
func (c *Coordinator) Configure(ctx context.Context, fleet, configuration, adopter string) error {
	for {
		_, record, changed, err := c.fleet(ctx, fleet)
		if err != nil {
			return err
		}
		record.Configuration, record.Adopter = configuration, adopter
		answer, err := c.txn(ctx, []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(c.fleetKey(fleet)), "=", changed)},
			clientv3.OpPut(c.fleetKey(fleet), encoded(record)))
		if err != nil || answer.Succeeded {
			return err
		}
	}
}

// Forget implements [cluster.Coordinator].
func (c *Coordinator) Forget(ctx context.Context, fleet, configuration string) error {
	_, record, changed, err := c.fleet(ctx, fleet)
	if err != nil || record.Configuration != configuration {
		return err
	}
	record.Configuration = ""
	_, err = c.txn(ctx, []clientv3.Cmp{
		clientv3.Compare(clientv3.CreateRevision(c.memberKey("")), "=", 0).WithPrefix(), // there is no member
		clientv3.Compare(clientv3.CreateRevision(c.ownerKey(fleet)), "=", 0),
		clientv3.Compare(clientv3.ModRevision(c.fleetKey(fleet)), "=", changed),
	}, clientv3.OpPut(c.fleetKey(fleet), encoded(record)))
	return err
}

// Key implements [cluster.Coordinator].
func (c *Coordinator) Key(ctx context.Context) ([]byte, error) {
	at, created := c.prefix+"key", cluster.NewKey()
	if _, err := c.txn(ctx, []clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(at), "=", 0)}, clientv3.OpPut(at, string(created))); err != nil {
		return nil, err
	}
	answer, err := c.txn(ctx, nil, clientv3.OpGet(at))
	if err != nil {
		return nil, err
	}
	for _, kv := range answer.Responses[0].GetResponseRange().Kvs {
		created = kv.Value
	}
	return created, nil
}

// Join implements [cluster.Coordinator].
func (c *Coordinator) Join(ctx context.Context, member cluster.Member, ttl time.Duration) (cluster.Session, error) {
	client, err := c.connected()
	if err != nil {
		return nil, err
	}
	sent := lease.Now()
	granted, err := client.Grant(ctx, int64(ttl/time.Second))
	if err != nil {
		return nil, c.explained(err)
	}
	key := c.memberKey(member.Name)
	answer, err := c.txn(ctx, []clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(key), "=", 0)},
		clientv3.OpPut(key, encoded(member), clientv3.WithLease(granted.ID)))
	if err == nil && !answer.Succeeded {
		err = cluster.ErrTaken
	}
	if err != nil {
		revoke, cancel := context.WithTimeout(context.WithoutCancel(ctx), dialTimeout)
		defer cancel()
		_, _ = client.Revoke(revoke, granted.ID) // if this fails, the lease expires
		return nil, err
	}
	ttl = time.Duration(granted.TTL) * time.Second
	s := &session{
		c: c, Lease: lease.New(sent, ttl),
		name: member.Name, id: granted.ID, created: answer.Header.Revision,
	}
	guard.Go(func() { s.Keep(ttl, s.renew) })
	return s, nil
}

type session struct {
	*lease.Lease
	c    *Coordinator
	name string
	id   clientv3.LeaseID
	// created is the create revision of the member's key.
	created int64
}

// renew renews the lease. It then reads the member's key with a quorum, because even a replaced
// leader may accept the renewal. After a lost response it reads the key first. Otherwise, if
// requests arrive but responses are lost, the lease would be renewed forever although the member
// may no longer scale.
func (s *session) renew(ctx context.Context, lost bool) error {
	if lost {
		if err := s.isThere(ctx); err != nil {
			return err
		}
	}
	client, err := s.c.connected()
	if err != nil {
		return err
	}
	sent := lease.Now()
	answer, err := client.KeepAliveOnce(ctx, s.id)
	if errors.Is(err, rpctypes.ErrLeaseNotFound) || err == nil && answer.TTL <= 0 {
		return lease.ErrOver
	}
	if err != nil {
		return err
	}
	if err := s.isThere(ctx); err != nil {
		return err
	}
	s.Renewed(sent, time.Duration(answer.TTL)*time.Second)
	return nil
}

// isThere returns nil if the member's key exists and belongs to this session.
func (s *session) isThere(ctx context.Context) error {
	client, err := s.c.connected()
	if err != nil {
		return err
	}
	found, err := client.Get(ctx, s.c.memberKey(s.name))
	if err == nil && (len(found.Kvs) == 0 || found.Kvs[0].CreateRevision != s.created) {
		err = lease.ErrOver
	}
	return err
}

// isMember returns a transaction condition that holds while the session exists.
func (s *session) isMember() clientv3.Cmp {
	return clientv3.Compare(clientv3.CreateRevision(s.c.memberKey(s.name)), "=", s.created)
}

func (s *session) Update(ctx context.Context, member cluster.Member) error {
	answer, err := s.c.txn(ctx, []clientv3.Cmp{s.isMember()}, clientv3.OpPut(s.c.memberKey(s.name), encoded(member), clientv3.WithLease(s.id)))
	if err == nil && !answer.Succeeded {
		s.End()
		err = lease.ErrOver
	}
	return err
}

func (s *session) Acquire(ctx context.Context, fleet, configuration string) (cluster.Term, error) {
	owner, record, changed, err := s.c.fleet(ctx, fleet)
	switch {
	case err != nil:
		return nil, err
	case owner != nil && clientv3.LeaseID(owner.Lease) == s.id:
		return &term{s: s, fleet: fleet, record: record, created: owner.CreateRevision}, nil
	case owner != nil:
		return nil, fmt.Errorf("fleet %q is owned by %s: %w", fleet, owner.Value, cluster.ErrTaken)
	case record.Configuration != "" && record.Configuration != configuration:
		return nil, fmt.Errorf("fleet %q: %w", fleet, cluster.ErrConfigurationDiffers)
	}
	next := record.Next(s.name, configuration)
	answer, err := s.c.txn(ctx, []clientv3.Cmp{
		s.isMember(),
		clientv3.Compare(clientv3.CreateRevision(s.c.ownerKey(fleet)), "=", 0),
		clientv3.Compare(clientv3.ModRevision(s.c.fleetKey(fleet)), "=", changed),
	},
		clientv3.OpPut(s.c.ownerKey(fleet), s.name, clientv3.WithLease(s.id)),
		clientv3.OpPut(s.c.fleetKey(fleet), encoded(next)),
	)
	switch {
	case err != nil:
		return nil, err
	case !answer.Succeeded:
		return nil, fmt.Errorf("fleet %q was changed concurrently: %w", fleet, cluster.ErrTaken)
	}
	return &term{s: s, fleet: fleet, record: next, created: answer.Header.Revision}, nil
}

func (s *session) Leave(ctx context.Context) error {
	if !s.Lease.Leave() {
		return nil
	}
	defer s.End()
	client, err := s.c.connected()
	if err != nil {
		return err
	}
	if _, err := client.Revoke(ctx, s.id); err != nil && !errors.Is(err, rpctypes.ErrLeaseNotFound) {
		return s.c.explained(err)
	}
	return nil
}

type term struct {
	s     *session
	fleet string
	// record is the fleet's record when it was acquired.
	record cluster.Ownership
	// created is the create revision of the owner's key.
	created int64
}

func (t *term) Number() uint64 { return t.record.Term }

// fenced commits changes unless the term has ended.
func (t *term) fenced(ctx context.Context, changes ...clientv3.Op) error {
	answer, err := t.s.c.txn(ctx, []clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(t.s.c.ownerKey(t.fleet)), "=", t.created)}, changes...)
	if err == nil && !answer.Succeeded {
		return fmt.Errorf("term %d of fleet %q is over: %w", t.record.Term, t.fleet, state.ErrFenced)
	}
	return err
}

func (t *term) Load(ctx context.Context, keep func(key string, value []byte) error) error {
	return t.s.c.Load(ctx, t.fleet, keep)
}

// Load implements [cluster.Coordinator].
func (c *Coordinator) Load(ctx context.Context, fleet string, keep func(key string, value []byte) error) error {
	client, err := c.connected()
	if err != nil {
		return err
	}
	prefix := c.recordsKey(fleet)
	end, from, revision := clientv3.GetPrefixRangeEnd(prefix), prefix, int64(0)
	for {
		page, err := client.Get(ctx, from, clientv3.WithRange(end), clientv3.WithLimit(pageSize), clientv3.WithRev(revision))
		if err != nil {
			return c.explained(err)
		}
		for _, kv := range page.Kvs {
			if err := keep(strings.TrimPrefix(string(kv.Key), prefix), kv.Value); err != nil {
				return err
			}
		}
		if !page.More || len(page.Kvs) == 0 {
			return nil
		}
		from = string(page.Kvs[len(page.Kvs)-1].Key) + "\x00"
		if revision == 0 { // later responses have higher revisions
			revision = page.Header.Revision
		}
	}
}

func (t *term) Write(ctx context.Context, values map[string][]byte) error {
	rejected := state.RejectedError{}
	for key, value := range values {
		if size := len(value); size > maxBytes {
			rejected[key] = fmt.Errorf("it has %d bytes, but etcd's limit is %d", size, maxBytes)
		}
	}
	if len(rejected) > 0 {
		return rejected
	}
	var keys []string
	size := 0
	for key, value := range values {
		length := len(t.s.c.recordsKey(t.fleet)) + len(key) + len(value)
		if len(keys) == maxOps || size+length > maxBytes {
			if err := t.put(ctx, keys, values); err != nil {
				return err
			}
			keys, size = nil, 0
		}
		keys, size = append(keys, key), size+length
	}
	return t.put(ctx, keys, values)
}

// put writes the values of the given keys in one transaction.
func (t *term) put(ctx context.Context, keys []string, values map[string][]byte) error {
	if len(keys) == 0 {
		return nil
	}
	var changes []clientv3.Op
	for _, key := range keys {
		at := t.s.c.recordsKey(t.fleet) + key
		if values[key] == nil {
			changes = append(changes, clientv3.OpDelete(at))
		} else {
			changes = append(changes, clientv3.OpPut(at, string(values[key])))
		}
	}
	return t.fenced(ctx, changes...)
}

func (t *term) Configure(ctx context.Context, configuration string) error {
	record := t.record
	record.Configuration = configuration
	return t.fenced(ctx, clientv3.OpPut(t.s.c.fleetKey(t.fleet), encoded(record)))
}

func (t *term) Release(ctx context.Context) error {
	err := t.fenced(ctx, clientv3.OpDelete(t.s.c.ownerKey(t.fleet)))
	if errors.Is(err, state.ErrFenced) {
		return nil
	}
	return err
}
