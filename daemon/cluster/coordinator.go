package cluster

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/hpad/hpad/daemon/state"
)

// Coordinator is what the members of a cluster share: who is a member, who owns which
// fleet, and the state of each fleet. It is linearizable: what a call returned nil for is
// seen by every later call of any member. A call that takes several requests, as reading all
// of a state, gives each of them some seconds: an answer that is lost is not waited for until
// ctx ends. It is safe for concurrent use. A new one is a directory below this one.
//
// Time is the coordinator's own to measure a lease by; members go by [Session.Expires].
type Coordinator interface {
	// Join makes a member known until its session ends, which happens by itself when it
	// could not be kept alive for ttl. The error is an ErrTaken while there is another
	// member of that name.
	Join(ctx context.Context, member Member, ttl time.Duration) (Session, error)
	// View returns all members, and all fleets that ever had an owner.
	View(ctx context.Context) (View, error)
	// Configure sets the configuration that a fleet is owned under, and nothing else of
	// it, for "hpad cluster adopt": members that have another one do not take it over.
	Configure(ctx context.Context, fleet, configuration string) error
	// Load calls keep with each key and value of a fleet's state, whoever owns the fleet. What
	// is written meanwhile may be in it or not.
	Load(ctx context.Context, fleet string, keep func(key string, value []byte) error) error
	// Close lets go of connections. Sessions are ended before.
	Close() error
}

// Session is the time for which a member is one. It keeps itself alive. After a renewal
// whose answer was lost it sends no other one before the coordinator has answered
// something: else a member that does not hear it would own its fleets for ever. Package
// lease has what goes by time of it.
type Session interface {
	// Expires is when it ends at the earliest: at its ttl after the last renewal that
	// succeeded was sent, by Go's monotonic clock. It moves on with each renewal.
	Expires() time.Time
	// Ended is closed once the session is known to have ended.
	Ended() <-chan struct{}
	// Update replaces what others see of the member.
	Update(ctx context.Context, member Member) error
	// Acquire makes the member the owner of a fleet that nobody owns, under a
	// configuration. Where this session owns it already, as after an answer that was lost,
	// it returns that term. The error is an ErrTaken where somebody does, and an ErrOtherwise
	// where the fleet's configuration is another one: an empty one is anybody's.
	Acquire(ctx context.Context, fleet, configuration string) (Term, error)
	// Leave ends the session: all that the member owned is free at once.
	Leave(ctx context.Context) error
}

// Term is the time for which a member owns a fleet, and the fleet's state meanwhile.
// Writes fail with state.ErrFenced once it is over, also where nobody else owns the fleet;
// one that was under way then may still be carried out before the next owner loads.
type Term interface {
	state.Records
	// Number counts the terms of a fleet, from 1.
	Number() uint64
	// Configure changes the configuration that the fleet is owned under, as after a
	// reload. The error is a state.ErrFenced once the term is over.
	Configure(ctx context.Context, configuration string) error
	// Release ends the term. It is no error if that is over.
	Release(ctx context.Context) error
}

// Errors of a Coordinator.
var (
	// ErrTaken is that somebody else has it.
	ErrTaken = errors.New("somebody else has it")
	// ErrOtherwise is that a fleet is owned under another configuration.
	ErrOtherwise = errors.New("it is owned under another configuration")
)

// Member is what others see of a member.
type Member struct {
	Name string `json:"name"`
	// Address is the URL at which others reach its API, as "https://10.0.0.1:4720".
	Address string `json:"address"`
	Version string `json:"version"`
	// Fleets are the configurations that it has of fleets, by their names.
	Fleets map[string]string `json:"fleets,omitempty"`
}

// View is what a Coordinator knows at one moment.
type View struct {
	// Members are by their names.
	Members map[string]Member
	// Fleets are by their names.
	Fleets map[string]Ownership
}

// Ownership is who owns a fleet.
type Ownership struct {
	// Owner is a member's name; empty while nobody owns the fleet.
	Owner string
	// Last is who owned it last, Owner where that is not empty.
	Last string
	// Past are those who owned it before Last, the latest one last, at most keptOwners; nil
	// for none.
	Past []PastOwner
	// Term is the number of the owner's term, or of the last one.
	Term uint64
	// Configuration is the one that it is owned under; empty is any.
	Configuration string
}

// PastOwner is a member that owned a fleet, until the term of another one began by the clock
// of that one.
type PastOwner struct {
	Name  string    `json:"name"`
	Until time.Time `json:"until"`
}

// keptOwners is how many past owners of a fleet are known.
const keptOwners = 16

// Next returns the ownership of the next term, which is a member's from now on.
func (o Ownership) Next(owner, configuration string, now time.Time) Ownership {
	past := slices.Clone(o.Past)
	if o.Last != owner && o.Last != "" {
		past = append(slices.DeleteFunc(past, func(p PastOwner) bool { return p.Name == o.Last }), PastOwner{o.Last, now.UTC()})
	}
	return Ownership{
		Owner: owner, Last: owner, Past: past[max(0, len(past)-keptOwners):], Term: o.Term + 1, Configuration: configuration,
	}
}
