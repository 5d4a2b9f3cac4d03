package nomad

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/hpad/hpad/daemon/cluster"
	"github.com/hpad/hpad/daemon/cluster/lease"
	"github.com/hpad/hpad/daemon/state"
)

// Join is as [cluster.Coordinator] has it.
func (c *Coordinator) Join(ctx context.Context, member cluster.Member, ttl time.Duration) (cluster.Session, error) {
	record := memberRecord{Member: member, TTL: ttl, Nonce: rand.Text()}
	if _, _, err := c.look(ctx); err != nil { // which removes one of that name whose ttl is over
		return nil, err
	}
	sent := time.Now()
	created, err := c.change(ctx, c.member(member.Name), &api.Variable{}, func(found *api.Variable) (api.VariableItems, error) {
		if found == nil {
			return itemsOf(record), nil
		}
		var other memberRecord
		if err := valueOf(found, &other); err != nil {
			return nil, err
		}
		if other.Nonce != record.Nonce {
			return nil, cluster.ErrTaken
		}
		return nil, nil
	})
	if err != nil {
		return nil, err
	}
	s := &session{
		Coordinator: c, Lease: lease.New(sent.Add(ttl)), created: created.CreateIndex, name: member.Name,
		record: record, variable: created,
	}
	// After an answer that was lost the index is an old one, which renews nothing more.
	go s.Keep(ttl, func(ctx context.Context, _ bool) error { return s.write(ctx, nil) })
	return s, nil
}

// session is a [cluster.Session].
type session struct {
	*Coordinator
	*lease.Lease
	// What the session began with: when its variable was created, and the member's name.
	created uint64
	name    string

	// writing is held by who writes the variable, and guards record and variable.
	writing  sync.Mutex
	record   memberRecord
	variable *api.Variable
}

// id is that of the session; it never changes.
func (s *session) id() uint64 { return s.created }

// write writes the member's variable, with another member where that is not nil, and so
// renews the session.
func (s *session) write(ctx context.Context, member *cluster.Member) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	record := s.record
	if member != nil {
		record.Member = *member
	}
	sent := time.Now()
	written, err := s.change(ctx, s.variable.Path, s.variable, func(found *api.Variable) (api.VariableItems, error) {
		if found == nil || found.CreateIndex != s.id() {
			return nil, lease.ErrOver
		}
		return itemsOf(record), nil
	})
	if errors.Is(err, lease.ErrOver) {
		s.End()
	}
	if err != nil {
		return err
	}
	s.record, s.variable = record, written
	s.Renewed(sent.Add(record.TTL))
	return nil
}

// Update is as [cluster.Session] has it.
func (s *session) Update(ctx context.Context, member cluster.Member) error {
	return s.write(ctx, &member)
}

// Leave is as [cluster.Session] has it.
func (s *session) Leave(ctx context.Context) error {
	if !s.Lease.Leave() {
		return nil
	}
	s.writing.Lock()
	defer s.writing.Unlock()
	defer s.End()
	for again, index := begin(), s.variable.ModifyIndex; ; {
		err := s.remove(ctx, s.variable.Path, index)
		if err == nil {
			return nil
		}
		if conflict, ok := errors.AsType[*conflictError](err); ok {
			if conflict.found.CreateIndex != s.id() {
				return nil // it was over before
			}
			index = conflict.found.ModifyIndex
		}
		if !again.after(ctx, err) {
			return err
		}
	}
}

// Acquire is as [cluster.Session] has it.
func (s *session) Acquire(ctx context.Context, fleet, configuration string) (cluster.Term, error) {
	if s.IsOver() {
		return nil, lease.ErrOver
	}
	record, _, err := s.changeFleet(ctx, fleet, func(r fleetRecord, from *api.Variable) (fleetRecord, error) {
		if r.Session == s.id() {
			return r, nil
		}
		if r.Session != 0 {
			if owned, err := s.isThere(ctx, r.Session, from.ModifyIndex); err != nil {
				return r, err
			} else if owned {
				return r, fmt.Errorf("fleet %q is %s's: %w", fleet, r.Owner, cluster.ErrTaken)
			}
		}
		if r.Configuration != "" && r.Configuration != configuration {
			return r, fmt.Errorf("fleet %q: %w", fleet, cluster.ErrOtherwise)
		}
		if r.Term == 0 {
			if err := s.createFirst(ctx, fleet); err != nil {
				return r, err
			}
		}
		next := r.ownership().Next(s.name, configuration, time.Now())
		return fleetRecord{
			Name: r.Name, Owner: s.name, Session: s.id(), Last: next.Last, Past: next.Past, Term: next.Term, Configuration: configuration, Pages: r.Pages,
		}, nil
	})
	if err != nil {
		return nil, err
	}
	return &term{
		session: s, name: fleet, number: record.Term, token: claimOf(record.Term, rand.Text()), over: make(chan struct{}),
	}, nil
}

// isThere reports whether a session is not over, as of an index or later.
func (s *session) isThere(ctx context.Context, id, index uint64) (bool, error) {
	for again := begin(); ; {
		there, _, err := s.look(ctx)
		if err != nil {
			return false, err
		}
		if _, is := there.members[id]; is || there.index >= index {
			return is, nil
		}
		if !again.wait(ctx) {
			return false, s.explained(ctx, errStale)
		}
	}
}

// term is a [cluster.Term].
type term struct {
	*session
	name   string
	number uint64
	// token is the claim of its pages.
	token string

	// writing is held while pages are written, and guards pages as they were last read or
	// written: nil until all are claimed.
	writing sync.Mutex
	pages   []*api.Variable
	ending  sync.Once
	// over is closed once another term has begun, or this one was released.
	over chan struct{}
}

// Number is as [cluster.Term] has it.
func (t *term) Number() uint64 { return t.number }

// finish refuses all writes from now on.
func (t *term) finish() { t.ending.Do(func() { close(t.over) }) }

// lost notes that another term has begun.
func (t *term) lost() error {
	t.finish()
	return t.fenced()
}

// fenced is the error of what comes after the term.
func (t *term) fenced() error {
	return fmt.Errorf("term %d of fleet %q is over: %w", t.number, t.name, state.ErrFenced)
}

// check returns an error once the term is over, or may be.
func (t *term) check() error {
	select {
	case <-t.over:
		return t.fenced()
	default:
	}
	if t.IsOver() {
		return t.fenced()
	}
	return nil
}

// ours is changeFleet while the member owns the fleet. It returns the variable of the record.
func (t *term) ours(ctx context.Context, change func(r *fleetRecord) error) (*api.Variable, error) {
	_, now, err := t.changeFleet(ctx, t.name, func(r fleetRecord, _ *api.Variable) (fleetRecord, error) {
		if r.Session != t.id() || r.Term != t.number {
			return r, t.fenced()
		}
		err := change(&r)
		return r, err
	})
	return now, err
}

// Configure is as [cluster.Term] has it.
func (t *term) Configure(ctx context.Context, configuration string) error {
	_, err := t.ours(ctx, func(r *fleetRecord) error {
		r.Configuration = configuration
		return t.check() // each time that it is sent
	})
	return err
}

// Release is as [cluster.Term] has it.
func (t *term) Release(ctx context.Context) error {
	t.finish()
	_, err := t.ours(ctx, func(r *fleetRecord) error {
		r.Owner, r.Session = "", 0
		return nil
	})
	if errors.Is(err, state.ErrFenced) {
		return nil
	}
	return err
}
