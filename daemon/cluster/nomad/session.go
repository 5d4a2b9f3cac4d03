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
	"github.com/hpad/hpad/guard"
)

// Join implements [cluster.Coordinator].
func (c *Coordinator) Join(ctx context.Context, member cluster.Member, ttl time.Duration) (cluster.Session, error) {
	record := memberRecord{Member: member, TTL: ttl, Nonce: rand.Text()}
	if _, _, err := c.listAll(ctx); err != nil { // removes an expired member with the same name
		return nil, err
	}
	sent := lease.Now()
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
		c: c, Lease: lease.New(sent, ttl), created: created.CreateIndex, name: member.Name,
		record: record, variable: created,
	}
	// The parameter lost is not needed here: after a lost response the index is outdated, so a
	// repeated renewal fails.
	guard.Go(func() {
		s.Keep(ttl, func(ctx context.Context, _ bool) error { return s.write(ctx, nil) })
	})
	return s, nil
}

type session struct {
	*lease.Lease
	c *Coordinator
	// created is the create index of the variable.
	created uint64
	name    string

	// writing is locked while the variable is written. It guards record and variable.
	writing  sync.Mutex
	record   memberRecord
	variable *api.Variable
}

// write writes the member's variable, which renews the session. If member is not nil, it replaces
// the member's description.
func (s *session) write(ctx context.Context, member *cluster.Member) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	record := s.record
	if member != nil {
		record.Member = *member
	}
	sent := lease.Now()
	written, err := s.c.change(ctx, s.variable.Path, s.variable, func(found *api.Variable) (api.VariableItems, error) {
		if found == nil || found.CreateIndex != s.created {
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
	s.Renewed(sent, record.TTL)
	return nil
}

func (s *session) Update(ctx context.Context, member cluster.Member) error {
	return s.write(ctx, &member)
}

func (s *session) Leave(ctx context.Context) error {
	if !s.Lease.Leave() {
		return nil
	}
	s.writing.Lock()
	defer s.writing.Unlock()
	defer s.End()
	for again, index := newRetry(), s.variable.ModifyIndex; ; {
		err := s.c.remove(ctx, s.variable.Path, index)
		if err == nil {
			return nil
		}
		if conflict, ok := errors.AsType[*conflictError](err); ok {
			if conflict.found.CreateIndex != s.created {
				return nil // the session has already ended
			}
			index = conflict.found.ModifyIndex
		}
		if !again.sleepAfter(ctx, err) {
			return err
		}
	}
}

func (s *session) Acquire(ctx context.Context, fleet, configuration string) (cluster.Term, error) {
	if s.IsOver() {
		return nil, lease.ErrOver
	}
	record, _, err := s.c.changeFleet(ctx, fleet, func(r fleetRecord, from *api.Variable) (fleetRecord, error) {
		if r.Session == s.created {
			return r, nil
		}
		if r.Session != 0 {
			if owned, err := s.isThere(ctx, r.Session, from.ModifyIndex); err != nil {
				return r, err
			} else if owned {
				return r, fmt.Errorf("fleet %q is owned by %s: %w", fleet, r.Owner, cluster.ErrTaken)
			}
		}
		if r.Configuration != "" && r.Configuration != configuration {
			return r, fmt.Errorf("fleet %q: %w", fleet, cluster.ErrConfigurationDiffers)
		}
		if r.Term == 0 {
			if err := s.c.createFirst(ctx, fleet); err != nil {
				return r, err
			}
		}
		next := r.ownership().Next(s.name, configuration)
		return fleetRecord{
			Name: r.Name, Owner: s.name, Session: s.created, Last: next.Last, Term: next.Term, Configuration: configuration, Pages: r.Pages,
		}, nil
	})
	if err != nil {
		return nil, err
	}
	return &term{
		s: s, name: fleet, number: record.Term, token: claimOf(record.Term, rand.Text()), over: make(chan struct{}),
	}, nil
}

// isThere reports whether a session exists at the given index or later.
func (s *session) isThere(ctx context.Context, id, index uint64) (bool, error) {
	for again := newRetry(); ; {
		there, _, err := s.c.listAll(ctx)
		if err != nil {
			return false, err
		}
		if _, is := there.members[id]; is || there.index >= index {
			return is, nil
		}
		if !again.sleep(ctx) {
			return false, s.c.explained(ctx, errStale)
		}
	}
}

type term struct {
	s      *session
	name   string
	number uint64
	// token is the term's claim on the pages.
	token string

	// writing is locked while pages are written. It guards pages, which is the last known content
	// of all pages, or nil until all are claimed.
	writing sync.Mutex
	pages   []*api.Variable
	ending  sync.Once
	// over is closed when the term ends.
	over chan struct{}
}

func (t *term) Number() uint64 { return t.number }

// finish makes all later writes fail.
func (t *term) finish() { t.ending.Do(func() { close(t.over) }) }

// lost ends the term because a later term has started, and returns the error for the current call.
func (t *term) lost() error {
	t.finish()
	return t.fenced()
}

// fenced returns the error for a call after the term has ended.
func (t *term) fenced() error {
	return fmt.Errorf("term %d of fleet %q is over: %w", t.number, t.name, state.ErrFenced)
}

// errLapsed means that a lease may have ended. If all servers were unreachable, no member has
// removed the session, so the next renewal can succeed.
var errLapsed = errors.New("the lease has not been renewed in time")

// check returns an error if the term has ended or may have ended.
func (t *term) check() error {
	select {
	case <-t.over:
		return t.fenced()
	case <-t.s.Ended():
		return t.fenced()
	default:
	}
	if t.s.IsOver() {
		return fmt.Errorf("term %d of fleet %q: %w", t.number, t.name, errLapsed)
	}
	return nil
}

// changeOwned is like changeFleet, but returns an error unless the member owns the fleet. It
// returns the variable that contains the record.
func (t *term) changeOwned(ctx context.Context, change func(r *fleetRecord) error) (*api.Variable, error) {
	_, now, err := t.s.c.changeFleet(ctx, t.name, func(r fleetRecord, _ *api.Variable) (fleetRecord, error) {
		if r.Session != t.s.created || r.Term != t.number {
			return r, t.fenced()
		}
		err := change(&r)
		return r, err
	})
	return now, err
}

func (t *term) Configure(ctx context.Context, configuration string) error {
	_, err := t.changeOwned(ctx, func(r *fleetRecord) error {
		r.Configuration = configuration
		return t.check() // called before each attempt
	})
	return err
}

func (t *term) Release(ctx context.Context) error {
	t.finish()
	_, err := t.changeOwned(ctx, func(r *fleetRecord) error {
		r.Owner, r.Session = "", 0
		return nil
	})
	if errors.Is(err, state.ErrFenced) {
		return nil
	}
	return err
}
