package clustertest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hpad/hpad/daemon/cluster"
	"github.com/hpad/hpad/daemon/cluster/lease"
	"github.com/hpad/hpad/daemon/state"
)

// Memory is an in-memory store for a cluster. It simulates delays and must be used in a synctest
// bubble.
type Memory struct {
	mu       sync.Mutex
	random   *rand.Rand
	revision uint64
	leases   map[uint64]*granted
	members  map[string]memberKey
	owners   map[string]ownerKey
	fleets   map[string]cluster.Ownership
	records  map[string]map[string][]byte
	writes   []Write
	key      []byte
	// takeovers lists every acquisition under a configuration that differs from the fleet's
	// recorded configuration.
	takeovers []string
}

// Write is an accepted write to a fleet's state.
type Write struct {
	Time          time.Time
	Member, Fleet string
	Term          uint64
	Values        map[string][]byte
	// Owner reports whether the member owned the fleet at that time.
	Owner bool
}

type granted struct {
	ttl     time.Duration
	expires time.Time
}

type memberKey struct {
	cluster.Member
	lease uint64
}

type ownerKey struct {
	name           string
	lease, created uint64
}

// NewMemory returns an empty store with random delays.
func NewMemory(seed uint64) *Memory {
	return &Memory{
		random: rand.New(rand.NewPCG(seed, 1)), leases: map[uint64]*granted{}, members: map[string]memberKey{},
		owners: map[string]ownerKey{}, fleets: map[string]cluster.Ownership{}, records: map[string]map[string][]byte{},
	}
}

// Writes returns all accepted writes.
func (m *Memory) Writes() []Write {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.writes)
}

// Owner returns the owner of a fleet, or "".
func (m *Memory) Owner(fleet string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.expire()
	return m.owners[fleet].name
}

// Owned returns the fleets that a member owns, sorted.
func (m *Memory) Owned(member string) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.expire()
	var fleets []string
	for _, fleet := range slices.Sorted(maps.Keys(m.owners)) {
		if m.owners[fleet].name == member {
			fleets = append(fleets, fleet)
		}
	}
	return fleets
}

// Configuration returns the configuration that the owner of a fleet must have.
func (m *Memory) Configuration(fleet string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.fleets[fleet].Configuration
}

// Takeovers describes every acquisition of a fleet under a configuration that differs from the
// fleet's recorded configuration.
func (m *Memory) Takeovers() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.takeovers)
}

// Records returns a fleet's state.
func (m *Memory) Records(fleet string) map[string][]byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.records[fleet])
}

func (m *Memory) expire() {
	now := time.Now()
	for id, l := range m.leases {
		if now.Before(l.expires) {
			continue
		}
		delete(m.leases, id)
		maps.DeleteFunc(m.members, func(_ string, k memberKey) bool { return k.lease == id })
		for fleet, k := range m.owners {
			if k.lease == id {
				delete(m.owners, fleet)
				o := m.fleets[fleet]
				o.Owner = ""
				m.fleets[fleet] = o
			}
		}
	}
}

// Connection is a cluster.Coordinator that uses a Memory.
type Connection struct {
	memory *Memory

	mu sync.Mutex
	// cut drops requests, and deaf drops responses.
	cut, deaf bool
	// left is the number of calls until the connection is cut; 0 means that it is never cut.
	left int
	// slow is the maximum additional delay in each direction.
	slow time.Duration
	// frozen blocks calls until it is closed. It is nil if the connection is not frozen.
	frozen chan struct{}
}

var _ cluster.Coordinator = (*Connection)(nil)

// Connect returns a new connection.
func (m *Memory) Connect() *Connection { return &Connection{memory: m} }

// Cut sets whether requests and responses are dropped from now on.
func (c *Connection) Cut(requests, answers bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cut, c.deaf = requests, answers
}

// CutAfter cuts the connection at the given call, which is not executed. Calls are counted from 1,
// starting with the next call.
func (c *Connection) CutAfter(call int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.left = call
}

// Slow sets the maximum additional delay in each direction.
func (c *Connection) Slow(most time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.slow = most
}

// Freeze simulates a suspended process: it blocks all calls, and their contexts do not end.
func (c *Connection) Freeze() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.frozen == nil {
		c.frozen = make(chan struct{})
	}
}

// Thaw unblocks the calls after Freeze.
func (c *Connection) Thaw() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.frozen != nil {
		close(c.frozen)
		c.frozen = nil
	}
}

// Stand blocks while the connection is frozen.
func (c *Connection) Stand() {
	c.mu.Lock()
	frozen := c.frozen
	c.mu.Unlock()
	if frozen != nil {
		<-frozen
	}
}

func (c *Connection) isCut() (requests, responses bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cut, c.deaf
}

var errNoResponse = errors.New("the store does not respond")

const lateBy = 500 * time.Millisecond

// callTimeout is the time limit for a call.
const callTimeout = 10 * time.Second

func (c *Connection) call(ctx context.Context, do func(*Memory) error) error {
	_, err := fetch(ctx, c, func(m *Memory) (struct{}, error) { return struct{}{}, do(m) })
	return err
}

// fetch makes a call with a result. A call without a response may be executed later, when its result
// is dropped.
func fetch[R any](ctx context.Context, c *Connection, do func(*Memory) (R, error)) (result R, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	c.count()
	if err := c.travel(ctx); err != nil {
		time.AfterFunc(lateBy, func() {
			if cut, _ := c.isCut(); !cut {
				_, _ = execute(c.memory, do)
			}
		})
		return result, err
	}
	if cut, _ := c.isCut(); cut {
		<-ctx.Done()
		return result, fmt.Errorf("%w: %w", errNoResponse, context.Cause(ctx))
	}
	done, err := execute(c.memory, do)
	if travel := c.travel(ctx); travel != nil {
		return result, travel
	}
	if _, deaf := c.isCut(); deaf {
		<-ctx.Done()
		return result, fmt.Errorf("%w: %w", errNoResponse, context.Cause(ctx))
	}
	return done, err
}

func (c *Connection) count() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.left == 1 {
		c.cut, c.deaf = true, true
	}
	c.left = max(0, c.left-1)
}

func execute[R any](m *Memory, what func(*Memory) (R, error)) (R, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.expire()
	m.revision++
	return what(m)
}

func (c *Connection) travel(ctx context.Context) error {
	c.memory.mu.Lock()
	takes := time.Duration(c.memory.random.Int64N(int64(5 * time.Millisecond)))
	if c.memory.random.IntN(50) == 0 {
		takes *= 40
	}
	c.mu.Lock()
	if c.slow > 0 {
		takes += time.Duration(c.memory.random.Int64N(int64(c.slow)))
	}
	c.mu.Unlock()
	c.memory.mu.Unlock()
	timer := time.NewTimer(takes)
	defer timer.Stop()
	select {
	case <-timer.C:
		c.Stand()
		return nil
	case <-ctx.Done():
		c.Stand()
		return fmt.Errorf("%w: %w", errNoResponse, context.Cause(ctx))
	}
}

// Close implements [cluster.Coordinator].
func (c *Connection) Close() error { return nil }

// View implements [cluster.Coordinator].
func (c *Connection) View(ctx context.Context) (cluster.View, error) {
	return fetch(ctx, c, func(m *Memory) (cluster.View, error) {
		view := cluster.View{Members: map[string]cluster.Member{}, Fleets: maps.Clone(m.fleets)}
		for name, k := range m.members {
			view.Members[name] = k.Member
		}
		return view, nil
	})
}

// Configure implements [cluster.Coordinator].
func (c *Connection) Configure(ctx context.Context, fleet, configuration, adopter string) error {
	return c.call(ctx, func(m *Memory) error {
		o := m.fleets[fleet]
		o.Configuration, o.Adopter = configuration, adopter
		m.fleets[fleet] = o
		return nil
	})
}

// Forget implements [cluster.Coordinator].
func (c *Connection) Forget(ctx context.Context, fleet, configuration string) error {
	return c.call(ctx, func(m *Memory) error {
		if o := m.fleets[fleet]; len(m.members) == 0 && o.Owner == "" && o.Configuration == configuration {
			o.Configuration = ""
			m.fleets[fleet] = o
		}
		return nil
	})
}

// Key implements [cluster.Coordinator].
func (c *Connection) Key(ctx context.Context) ([]byte, error) {
	return fetch(ctx, c, func(m *Memory) ([]byte, error) {
		if m.key == nil {
			m.key = cluster.NewKey()
		}
		return m.key, nil
	})
}

// Join implements [cluster.Coordinator].
func (c *Connection) Join(ctx context.Context, member cluster.Member, ttl time.Duration) (cluster.Session, error) {
	s := &session{Connection: c, Lease: lease.New(lease.Now(), ttl), name: member.Name, ttl: ttl}
	err := c.call(ctx, func(m *Memory) error {
		if _, taken := m.members[member.Name]; taken {
			return cluster.ErrTaken
		}
		s.lease = m.revision
		m.leases[s.lease] = &granted{ttl: ttl, expires: time.Now().Add(ttl)}
		m.members[member.Name] = memberKey{member, s.lease}
		return nil
	})
	if err != nil {
		return nil, err
	}
	go s.Keep(ttl, s.renew)
	return s, nil
}

type session struct {
	*Connection
	*lease.Lease
	name  string
	lease uint64
	ttl   time.Duration
}

func (s *session) renew(ctx context.Context, lost bool) error {
	renewal := func(renew bool) error {
		return s.call(ctx, func(m *Memory) error {
			l := m.leases[s.lease]
			if l == nil {
				return lease.ErrOver
			}
			if renew {
				l.expires = time.Now().Add(l.ttl)
			}
			return nil
		})
	}
	if lost {
		if err := renewal(false); err != nil {
			return err
		}
	}
	sent := lease.Now()
	if err := renewal(true); err != nil {
		return err
	}
	s.Renewed(sent, s.ttl)
	return nil
}

func (s *session) member(ctx context.Context, do func(*Memory) error) error {
	return s.call(ctx, func(m *Memory) error {
		if m.leases[s.lease] == nil {
			return lease.ErrOver
		}
		return do(m)
	})
}

func (s *session) Update(ctx context.Context, member cluster.Member) error {
	return s.member(ctx, func(m *Memory) error {
		m.members[s.name] = memberKey{member, s.lease}
		return nil
	})
}

func (s *session) Acquire(ctx context.Context, fleet, configuration string) (cluster.Term, error) {
	t := &term{session: s, fleet: fleet}
	err := s.member(ctx, func(m *Memory) error {
		o := m.fleets[fleet]
		owner, owned := m.owners[fleet]
		switch {
		case owned && owner.lease == s.lease:
			t.created, t.number = owner.created, o.Term
			return nil
		case owned:
			return cluster.ErrTaken
		case o.Configuration != "" && o.Configuration != configuration:
			return cluster.ErrConfigurationDiffers
		}
		if o.Configuration != "" && o.Configuration != configuration {
			m.takeovers = append(m.takeovers, fmt.Sprintf("%s acquired %s under %q, recorded is %q", s.name, fleet, configuration, o.Configuration))
		}
		t.created, t.number = m.revision, o.Term+1
		m.owners[fleet] = ownerKey{s.name, s.lease, m.revision}
		m.fleets[fleet] = o.Next(s.name, configuration)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return t, nil
}

func (s *session) Leave(ctx context.Context) error {
	if !s.Lease.Leave() {
		return nil
	}
	defer s.End()
	return s.call(ctx, func(m *Memory) error {
		if l := m.leases[s.lease]; l != nil {
			l.expires = time.Now()
			m.expire()
		}
		return nil
	})
}

type term struct {
	*session
	fleet           string
	created, number uint64
}

func (t *term) fenced(ctx context.Context, do func(*Memory) error) error {
	return t.call(ctx, func(m *Memory) error {
		if m.owners[t.fleet].created != t.created {
			return fmt.Errorf("term %d: %w", t.number, state.ErrFenced)
		}
		return do(m)
	})
}

func (t *term) Number() uint64 { return t.number }

func (t *term) Load(ctx context.Context, keep func(string, []byte) error) error {
	return t.Connection.Load(ctx, t.fleet, keep)
}

// Load implements [cluster.Coordinator].
func (c *Connection) Load(ctx context.Context, fleet string, keep func(string, []byte) error) error {
	var records map[string][]byte
	if err := c.call(ctx, func(m *Memory) error {
		records = maps.Clone(m.records[fleet])
		return nil
	}); err != nil {
		return err
	}
	for key, value := range records {
		if err := keep(key, slices.Clone(value)); err != nil {
			return err
		}
	}
	return nil
}

const largest = 1 << 20

func (t *term) Write(ctx context.Context, values map[string][]byte) error {
	rejected := state.RejectedError{}
	for key, value := range values {
		if len(value) > largest {
			rejected[key] = fmt.Errorf("it has %d bytes, but the limit is %d", len(value), largest)
		}
	}
	if len(rejected) > 0 {
		return rejected
	}
	return t.fenced(ctx, func(m *Memory) error {
		if m.records[t.fleet] == nil {
			m.records[t.fleet] = map[string][]byte{}
		}
		for key, value := range values {
			if value == nil {
				delete(m.records[t.fleet], key)
			} else {
				m.records[t.fleet][strings.Clone(key)] = slices.Clone(value)
			}
		}
		m.writes = append(m.writes, Write{
			Time: time.Now(), Member: t.name, Fleet: t.fleet, Term: t.number, Values: maps.Clone(values),
			Owner: m.owners[t.fleet].name == t.name && m.leases[t.lease] != nil,
		})
		return nil
	})
}

func (t *term) Configure(ctx context.Context, configuration string) error {
	return t.fenced(ctx, func(m *Memory) error {
		o := m.fleets[t.fleet]
		o.Configuration = configuration
		m.fleets[t.fleet] = o
		return nil
	})
}

func (t *term) Release(ctx context.Context) error {
	err := t.fenced(ctx, func(m *Memory) error {
		delete(m.owners, t.fleet)
		o := m.fleets[t.fleet]
		o.Owner = ""
		m.fleets[t.fleet] = o
		return nil
	})
	if errors.Is(err, state.ErrFenced) {
		return nil
	}
	return err
}
