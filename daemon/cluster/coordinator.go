package cluster

import (
	"context"
	"errors"
	"time"

	"github.com/hpad/hpad/daemon/state"
)

// Coordinator is the common store of all members: the members, the owner of each fleet, and the
// state of each fleet. It is linearizable: after a call has returned nil, every later call of any
// member sees its effect. Each request of a call has a time limit of some seconds, so that a lost
// response does not block until ctx ends. It is safe for concurrent use.
//
// The coordinator measures leases by its own clock; members use [Session.Expires].
type Coordinator interface {
	// Join adds a member until its session ends. A session ends by itself if it cannot be
	// renewed for ttl. The error is ErrTaken if there is another member with that name.
	Join(ctx context.Context, member Member, ttl time.Duration) (Session, error)
	// View returns all members, and all fleets that ever had an owner.
	View(ctx context.Context) (View, error)
	// Configure sets the configuration that a fleet is owned under, and nothing else, for
	// "hpad cluster adopt". Members with a different configuration do not take the fleet over.
	Configure(ctx context.Context, fleet, configuration string) error
	// Load calls keep with each key and value of a fleet's state. The fleet may have any
	// owner. A concurrent write may be included or not.
	Load(ctx context.Context, fleet string, keep func(key string, value []byte) error) error
	// Close closes connections. The caller ends all sessions before.
	Close() error
}

// Session is the membership of a member. It renews itself. If the response to a renewal is
// lost, it waits for any response of the coordinator before the next renewal. Otherwise a
// member that receives no responses would own its fleets forever. Package lease implements the
// timing.
type Session interface {
	// Expires returns the earliest end of the session, by Go's monotonic clock: its ttl after
	// the last successful renewal was sent. Each renewal moves it.
	Expires() time.Time
	// Ended is closed once the end of the session is known.
	Ended() <-chan struct{}
	// Update replaces the description of the member.
	Update(ctx context.Context, member Member) error
	// Acquire makes the member the owner of a fleet without an owner, under a configuration.
	// If this session owns the fleet already, as after a lost response, it returns that term.
	// The error is ErrTaken if another member owns the fleet, and ErrOtherwise if the fleet
	// has a different configuration; an empty one matches all.
	Acquire(ctx context.Context, fleet, configuration string) (Term, error)
	// Leave ends the session, and the ownership of all its fleets.
	Leave(ctx context.Context) error
}

// Term is the ownership of a fleet by one member, with access to the fleet's state. After its
// end, writes fail with state.ErrFenced, even if the fleet has no other owner. A write in
// progress may still take effect before the next owner loads the state.
type Term interface {
	state.Records
	// Number counts the terms of a fleet, from 1.
	Number() uint64
	// Configure changes the configuration that the fleet is owned under, after a reload. The
	// error is state.ErrFenced after the end of the term.
	Configure(ctx context.Context, configuration string) error
	Release(ctx context.Context) error
}

var (
	// ErrTaken is returned if the name or the fleet belongs to another member.
	ErrTaken = errors.New("it belongs to another member")
	// ErrOtherwise is returned if a fleet is owned under a different configuration.
	ErrOtherwise = errors.New("it has another configuration")
)

// Member describes a member.
type Member struct {
	Name string `json:"name"`
	// Address is the URL of the member's API, as "https://10.0.0.1:4720".
	Address string `json:"address"`
	Version string `json:"version"`
	// Fleets has the hash of the member's configuration of each fleet, by name.
	Fleets map[string]string `json:"fleets,omitempty"`
}

// View is the content of a Coordinator at one moment.
type View struct {
	Members map[string]Member
	Fleets  map[string]Ownership
}

// Ownership is the ownership of a fleet.
type Ownership struct {
	// Owner is the name of the owner; empty if there is none.
	Owner string `json:"-"`
	// Last is the last owner; it equals Owner unless Owner is empty.
	Last string `json:"last"`
	// Term is the number of the last term.
	Term uint64 `json:"term"`
	// Configuration is the configuration of the last term; empty for none.
	Configuration string `json:"configuration"`
}

// Next returns the ownership of the next term.
func (o Ownership) Next(owner, configuration string) Ownership {
	return Ownership{Owner: owner, Last: owner, Term: o.Term + 1, Configuration: configuration}
}
