// Package etcd has the members of a cluster share what they know through etcd.
//
// Below /hpad/CLUSTER/ are:
//
//	members/NAME          who is a member, under the member's lease
//	owners/FLEET          who owns a fleet, under the owner's lease
//	fleets/FLEET          the last owner, the number of its term, and the configuration
//	records/FLEET/KEY     the fleet's state
//
// The revision at which owners/FLEET was created is the term's: every write of the fleet
// is a transaction that compares it.
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

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/hpad/hpad/daemon/cluster"
	"github.com/hpad/hpad/daemon/cluster/lease"
	"github.com/hpad/hpad/daemon/state"
)

const (
	// A transaction has at most so many operations and bytes: etcd allows 128 and 1.5 MiB
	// unless it is told otherwise.
	maxOps   = 100
	maxBytes = 1 << 20
	// pageSize is how many records are read at once.
	pageSize = 500
	// dialTimeout and keepAlive bound how long a connection that went silent is believed.
	dialTimeout = 5 * time.Second
	keepAlive   = 5 * time.Second
)

// Options are how etcd is reached.
type Options struct {
	// Cluster is the name that all members have in common.
	Cluster string
	// Endpoints are the addresses of the servers, as "https://10.0.0.1:2379".
	Endpoints []string
	// TLS applies to https; nil means the system's authorities.
	TLS *tls.Config
	// Username and the password in PasswordFile are who hpad is; empty means that the
	// certificate says, or that nobody asks.
	Username, PasswordFile string
}

// Coordinator is a [cluster.Coordinator].
type Coordinator struct {
	options Options
	prefix  string

	mu     sync.Mutex
	client *clientv3.Client
}

var _ cluster.Coordinator = (*Coordinator)(nil)

// New returns a Coordinator, which connects when it is first asked.
func New(options Options) *Coordinator {
	return &Coordinator{options: options, prefix: "/hpad/" + options.Cluster + "/"}
}

// connected returns the client. With a username it is etcd that makes one, which may fail.
func (c *Coordinator) connected() (*clientv3.Client, error) {
	client, err := c.connect()
	if err != nil {
		return nil, c.explained(err) // which takes time, and so not while others wait
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
		password, err := os.ReadFile(c.options.PasswordFile)
		if err != nil {
			return nil, fmt.Errorf("read its password: %w", err)
		}
		config.Password = strings.TrimRight(string(password), "\r\n")
	}
	client, err := clientv3.New(config)
	if err != nil {
		return nil, err
	}
	c.client = client
	return client, nil
}

// Close lets go of connections.
func (c *Coordinator) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.client == nil {
		return nil
	}
	return c.client.Close()
}

// explained names the servers, and the remedy where it is known.
func (c *Coordinator) explained(err error) error {
	remedy := ""
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		remedy = ": no answer in time; are most of its servers up, and reached from here?"
		if refused := c.refusal(); refused != nil {
			remedy = ": " + refused.Error()
		}
	case errors.Is(err, rpctypes.ErrNoSpace):
		remedy = `: its quota is used up; compact and defragment it, then "etcdctl alarm disarm", and have it compact by itself (--auto-compaction-retention=1h)`
	case errors.Is(err, rpctypes.ErrRequestTooLarge):
		remedy = "; raise its --max-request-bytes"
	case errors.Is(err, rpctypes.ErrAuthFailed), errors.Is(err, rpctypes.ErrUserEmpty), errors.Is(err, rpctypes.ErrPermissionDenied):
		remedy = "; ha.etcd.username needs to read and write all below " + c.prefix
	}
	return fmt.Errorf("etcd at %s: %w%s", strings.Join(c.options.Endpoints, ", "), err, remedy)
}

// refusal returns why a server does not take a connection, which etcd's client keeps for
// itself; nil where all that answer within a second take it.
func (c *Coordinator) refusal() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	for _, endpoint := range c.options.Endpoints {
		if err := c.knock(ctx, endpoint); err != nil && ctx.Err() == nil {
			return err
		}
	}
	return nil
}

// knock connects to a server. One that speaks TLS 1.3 says only then what it holds of the
// certificate that it was shown.
func (c *Coordinator) knock(ctx context.Context, endpoint string) error {
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

// txn commits a transaction: changes, as long as all conditions hold.
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

// fleetRecord is the value of fleets/FLEET: an ownership without its owner.
type fleetRecord struct {
	Last          string              `json:"last"`
	Past          []cluster.PastOwner `json:"past,omitempty"`
	Term          uint64              `json:"term"`
	Configuration string              `json:"configuration"`
}

func recordOf(o cluster.Ownership) fleetRecord {
	return fleetRecord{Last: o.Last, Past: o.Past, Term: o.Term, Configuration: o.Configuration}
}

func (r fleetRecord) ownership() cluster.Ownership {
	return cluster.Ownership{Last: r.Last, Past: r.Past, Term: r.Term, Configuration: r.Configuration}
}

// encoded returns a value as JSON; those of this package always can be.
func encoded(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// decode reads a value, and names the key of one that cannot be.
func decode(kv *mvccpb.KeyValue, value any) error {
	if err := json.Unmarshal(kv.Value, value); err != nil {
		return fmt.Errorf("the value of %q in etcd is not hpad's: %w", kv.Key, err)
	}
	return nil
}

// View is as [cluster.Coordinator] has it.
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
		var record fleetRecord
		if err := decode(kv, &record); err != nil {
			return view, err
		}
		view.Fleets[strings.TrimPrefix(string(kv.Key), c.fleetKey(""))] = record.ownership()
	}
	for _, kv := range answer.Responses[2].GetResponseRange().Kvs {
		fleet := strings.TrimPrefix(string(kv.Key), c.ownerKey(""))
		ownership := view.Fleets[fleet]
		ownership.Owner = string(kv.Value)
		view.Fleets[fleet] = ownership
	}
	return view, nil
}

// fleet reads who owns a fleet, nil where nobody does, and its record with the revision
// that this was changed at; 0 where there is none.
func (c *Coordinator) fleet(ctx context.Context, fleet string) (owner *mvccpb.KeyValue, record fleetRecord, changed int64, err error) {
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

// Configure is as [cluster.Coordinator] has it.
func (c *Coordinator) Configure(ctx context.Context, fleet, configuration string) error {
	for {
		_, record, changed, err := c.fleet(ctx, fleet)
		if err != nil {
			return err
		}
		record.Configuration = configuration
		answer, err := c.txn(ctx, []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(c.fleetKey(fleet)), "=", changed)},
			clientv3.OpPut(c.fleetKey(fleet), encoded(record)))
		if err != nil || answer.Succeeded {
			return err
		}
	}
}

// Join is as [cluster.Coordinator] has it.
func (c *Coordinator) Join(ctx context.Context, member cluster.Member, ttl time.Duration) (cluster.Session, error) {
	client, err := c.connected()
	if err != nil {
		return nil, err
	}
	sent := time.Now()
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
		_, _ = client.Revoke(revoke, granted.ID) // or it ends by itself
		return nil, err
	}
	ttl = time.Duration(granted.TTL) * time.Second
	s := &session{
		Coordinator: c, Lease: lease.New(sent.Add(ttl)),
		client: client, name: member.Name, id: granted.ID, created: answer.Header.Revision,
	}
	go s.Keep(ttl, s.renew)
	return s, nil
}

// session is a [cluster.Session].
type session struct {
	*Coordinator
	*lease.Lease
	client *clientv3.Client
	name   string
	id     clientv3.LeaseID
	// created is the revision at which the member's key was.
	created int64
}

// renew renews the lease. That the member's key is there is asked after it, of most
// servers: a leader that was replaced may renew, too. Where the last answer was lost it is
// asked first: renewals that arrive while answers do not would keep a lease that the member
// may not act by.
func (s *session) renew(ctx context.Context, lost bool) error {
	if lost {
		if err := s.isThere(ctx); err != nil {
			return err
		}
	}
	sent := time.Now()
	answer, err := s.client.KeepAliveOnce(ctx, s.id)
	if errors.Is(err, rpctypes.ErrLeaseNotFound) || err == nil && answer.TTL <= 0 {
		return lease.ErrOver
	}
	if err != nil {
		return err
	}
	if err := s.isThere(ctx); err != nil {
		return err
	}
	s.Renewed(sent.Add(time.Duration(answer.TTL) * time.Second))
	return nil
}

// isThere returns nil while the member's key is the session's.
func (s *session) isThere(ctx context.Context) error {
	found, err := s.client.Get(ctx, s.memberKey(s.name))
	if err == nil && (len(found.Kvs) == 0 || found.Kvs[0].CreateRevision != s.created) {
		err = lease.ErrOver
	}
	return err
}

// isMember is the condition that the session is not over.
func (s *session) isMember() clientv3.Cmp {
	return clientv3.Compare(clientv3.CreateRevision(s.memberKey(s.name)), "=", s.created)
}

// Update is as [cluster.Session] has it.
func (s *session) Update(ctx context.Context, member cluster.Member) error {
	answer, err := s.txn(ctx, []clientv3.Cmp{s.isMember()}, clientv3.OpPut(s.memberKey(s.name), encoded(member), clientv3.WithLease(s.id)))
	if err == nil && !answer.Succeeded {
		s.End()
		err = lease.ErrOver
	}
	return err
}

// Acquire is as [cluster.Session] has it.
func (s *session) Acquire(ctx context.Context, fleet, configuration string) (cluster.Term, error) {
	owner, record, changed, err := s.fleet(ctx, fleet)
	switch {
	case err != nil:
		return nil, err
	case owner != nil && clientv3.LeaseID(owner.Lease) == s.id:
		return &term{session: s, fleet: fleet, record: record, created: owner.CreateRevision}, nil
	case owner != nil:
		return nil, fmt.Errorf("fleet %q is %s's: %w", fleet, owner.Value, cluster.ErrTaken)
	case record.Configuration != "" && record.Configuration != configuration:
		return nil, fmt.Errorf("fleet %q: %w", fleet, cluster.ErrOtherwise)
	}
	next := recordOf(record.ownership().Next(s.name, configuration, time.Now()))
	answer, err := s.txn(ctx, []clientv3.Cmp{
		s.isMember(),
		clientv3.Compare(clientv3.CreateRevision(s.ownerKey(fleet)), "=", 0),
		clientv3.Compare(clientv3.ModRevision(s.fleetKey(fleet)), "=", changed),
	},
		clientv3.OpPut(s.ownerKey(fleet), s.name, clientv3.WithLease(s.id)),
		clientv3.OpPut(s.fleetKey(fleet), encoded(next)),
	)
	switch {
	case err != nil:
		return nil, err
	case !answer.Succeeded:
		return nil, fmt.Errorf("fleet %q changed meanwhile: %w", fleet, cluster.ErrTaken)
	}
	return &term{session: s, fleet: fleet, record: next, created: answer.Header.Revision}, nil
}

// Leave is as [cluster.Session] has it.
func (s *session) Leave(ctx context.Context) error {
	if !s.Lease.Leave() {
		return nil
	}
	_, err := s.client.Revoke(ctx, s.id)
	s.End()
	if err != nil && !errors.Is(err, rpctypes.ErrLeaseNotFound) {
		return s.explained(err)
	}
	return nil
}

// term is a [cluster.Term].
type term struct {
	*session
	fleet string
	// record is the fleet's as it was acquired.
	record fleetRecord
	// created is the revision at which the owner's key was.
	created int64
}

// Number is as [cluster.Term] has it.
func (t *term) Number() uint64 { return t.record.Term }

// fenced commits changes as long as the term is not over.
func (t *term) fenced(ctx context.Context, changes ...clientv3.Op) error {
	answer, err := t.txn(ctx, []clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(t.ownerKey(t.fleet)), "=", t.created)}, changes...)
	if err == nil && !answer.Succeeded {
		return fmt.Errorf("term %d of fleet %q is over: %w", t.record.Term, t.fleet, state.ErrFenced)
	}
	return err
}

// Load is as [state.Records] has it.
func (t *term) Load(ctx context.Context, keep func(key string, value []byte) error) error {
	return t.Coordinator.Load(ctx, t.fleet, keep)
}

// Load is as [cluster.Coordinator] has it.
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
		if revision == 0 { // later pages have the header of their own time
			revision = page.Header.Revision
		}
	}
}

// Write is as [state.Records] has it.
func (t *term) Write(ctx context.Context, values map[string][]byte) error {
	rejected := state.RejectedError{}
	for key, value := range values {
		if size := len(value); size > maxBytes {
			rejected[key] = fmt.Errorf("it has %d bytes, and etcd takes %d", size, maxBytes)
		}
	}
	if len(rejected) > 0 {
		return rejected
	}
	var keys []string
	size := 0
	for key, value := range values {
		length := len(t.recordsKey(t.fleet)) + len(key) + len(value)
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

// put writes the values of some keys: in one transaction, or in smaller ones if a server
// has a lower limit than usual.
func (t *term) put(ctx context.Context, keys []string, values map[string][]byte) error {
	if len(keys) == 0 {
		return nil
	}
	var changes []clientv3.Op
	for _, key := range keys {
		at := t.recordsKey(t.fleet) + key
		if values[key] == nil {
			changes = append(changes, clientv3.OpDelete(at))
		} else {
			changes = append(changes, clientv3.OpPut(at, string(values[key])))
		}
	}
	err := t.fenced(ctx, changes...)
	switch half := len(keys) / 2; {
	case !errors.Is(err, rpctypes.ErrRequestTooLarge):
		return err
	case half == 0:
		return state.RejectedError{keys[0]: err}
	default:
		return errors.Join(t.put(ctx, keys[:half], values), t.put(ctx, keys[half:], values))
	}
}

// Configure is as [cluster.Term] has it.
func (t *term) Configure(ctx context.Context, configuration string) error {
	record := t.record
	record.Configuration = configuration
	return t.fenced(ctx, clientv3.OpPut(t.fleetKey(t.fleet), encoded(record)))
}

// Release is as [cluster.Term] has it.
func (t *term) Release(ctx context.Context) error {
	err := t.fenced(ctx, clientv3.OpDelete(t.ownerKey(t.fleet)))
	if errors.Is(err, state.ErrFenced) {
		return nil
	}
	return err
}
