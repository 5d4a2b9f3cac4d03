package cluster

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"github.com/hpad/hpad/daemon/state"
)

// Coordinator is the store that all members share. It contains the members, and each fleet's
// owner and state. It is linearizable: after a call has returned nil, every later call by any
// member sees its effect. Each request has a time limit of several seconds, so that a lost
// response does not block the call until ctx ends. It is safe for concurrent use.
//
// The coordinator measures leases by its own clock. Members must rely only on [Session.Expires].
type Coordinator interface {
	// Join adds a member. The member is removed when its session ends, or when the session has
	// not been renewed for ttl. The error is ErrTaken if a member with the same name exists.
	Join(ctx context.Context, member Member, ttl time.Duration) (Session, error)
	// View returns all members and all fleets that have or had an owner.
	View(ctx context.Context) (View, error)
	// Configure sets the configuration that the owner of a fleet must have, and its adopter, for
	// "hpad cluster adopt". It does not change the owner. Members with a different configuration do
	// not take over the fleet.
	Configure(ctx context.Context, fleet, configuration, adopter string) error
	// Forget removes the configuration that the owner of a fleet must have if it still equals the
	// given configuration, the fleet has no owner, and the cluster has no members. Any member may
	// then own the fleet.
	Forget(ctx context.Context, fleet, configuration string) error
	// Key returns the random secret of the cluster. The first call of any member creates it.
	Key(ctx context.Context) ([]byte, error)
	// Load calls keep for each key and value in a fleet's state, regardless of the fleet's owner.
	// The result may or may not include concurrent writes.
	Load(ctx context.Context, fleet string, keep func(key string, value []byte) error) error
	// Close closes connections. The caller must end all sessions first.
	Close() error
}

// Session is a member's membership in the cluster. It renews itself. If the response to a renewal
// is lost, it waits for any response from the coordinator before it sends the next renewal.
// Otherwise, a member that receives no responses would own its fleets forever. Package lease
// implements the timing.
type Session interface {
	// Expires returns the earliest time when the session can end, by Go's monotonic clock.
	// This is the ttl after the last successful renewal was sent.
	Expires() time.Time
	// Ended is closed when the member detects that the session has ended.
	Ended() <-chan struct{}
	// Update replaces the description of the member.
	Update(ctx context.Context, member Member) error
	// Acquire makes the member the owner of a fleet that has no owner. The argument configuration
	// is the member's configuration of the fleet. If this session already owns the fleet, for
	// example after a lost response, Acquire returns the existing term. The error is ErrTaken if
	// another member owns the fleet, and ErrConfigurationDiffers if the fleet has a different
	// configuration. If the fleet's configuration is empty, every configuration matches.
	Acquire(ctx context.Context, fleet, configuration string) (Term, error)
	// Leave ends the session and the member's ownership of all its fleets.
	Leave(ctx context.Context) error
}

// Term is one member's ownership of a fleet, with access to the fleet's state. After the term has
// ended, writes fail with state.ErrFenced, even if the fleet has no new owner. A write in
// progress may still take effect until the next owner loads the state.
type Term interface {
	state.Records
	// Number returns the number of the term. The first term of a fleet has number 1.
	Number() uint64
	// Configure changes the configuration that the fleet's owner must have, after a reload. The
	// error is state.ErrFenced if the term has ended.
	Configure(ctx context.Context, configuration string) error
	Release(ctx context.Context) error
}

// NewKey returns a random key for [Coordinator.Key].
func NewKey() []byte {
	key := make([]byte, 32)
	_, _ = rand.Read(key) // never fails
	return key
}

var (
	// ErrTaken is returned if the name or the fleet belongs to another member.
	ErrTaken = errors.New("it belongs to another member")
	// ErrConfigurationDiffers is returned if the owner of a fleet must have a different
	// configuration.
	ErrConfigurationDiffers = errors.New("it has a different configuration")
)

// Member describes a member.
type Member struct {
	Name string `json:"name"`
	// Address is the URL of the member's API, such as "https://10.0.0.1:4720".
	Address string `json:"address"`
	Version string `json:"version"`
	// Fleets maps each fleet to the identity of its configuration on this member.
	Fleets map[string]string `json:"fleets,omitempty"`
	// Reserve is like Fleets, for fleets that the member runs only if no member that has the fleet in
	// Fleets can, because of Problem. A fleet is in at most one of them. Versions that do not support
	// Reserve do not hand over such a fleet to the member.
	Reserve map[string]string `json:"reserve,omitempty"`
	// Problem describes why the member cannot run fleets or has them in Reserve, or is empty.
	Problem string `json:"problem,omitempty"`
	// Command is the ID of the last pause or resumption of all autoscalers that the member has applied,
	// or empty.
	Command string `json:"command,omitempty"`
}

// identity returns the identity of a fleet's configuration, and false if the member cannot run the
// fleet.
func (m Member) identity(fleet string) (string, bool) {
	if has, ok := m.Fleets[fleet]; ok {
		return has, true
	}
	has, ok := m.Reserve[fleet]
	return has, ok
}

// View is a snapshot of the members and owners in a Coordinator.
type View struct {
	Members map[string]Member
	Fleets  map[string]Ownership
}

// Ownership describes the current and the last owner of a fleet.
type Ownership struct {
	// Owner is the name of the owner, or empty if there is none.
	Owner string `json:"-"`
	// Last is the name of the last owner. It equals Owner unless Owner is empty.
	Last string `json:"last"`
	// Term is the number of the last term.
	Term uint64 `json:"term"`
	// Configuration is a hash that the owner's configuration must match. If it is empty, any member
	// may own the fleet.
	Configuration string `json:"configuration"`
	// Adopter is the user who set the configuration with "hpad cluster adopt" since the term began,
	// or empty.
	Adopter string `json:"adopter,omitempty"`
}

// Next returns the ownership of the next term.
func (o Ownership) Next(owner, configuration string) Ownership {
	return Ownership{Owner: owner, Last: owner, Term: o.Term + 1, Configuration: configuration}
}
