package daemontest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/hpad/hpad/daemon/state"
	"github.com/hpad/hpad/daemon/ticks"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/targettest"
)

// Store is an in-memory state store.
type Store struct {
	mu       sync.Mutex
	snapshot state.Snapshot
	entries  []state.Entry
	written  int
	failing  error
	// slow is the duration of each commit.
	slow time.Duration
	// Largest is the maximum size of a record in bytes of JSON; 0 means no limit.
	Largest   int
	fleetKeep map[string]targets.Store
	lost      []state.Loss
}

// NewStore returns an empty store.
func NewStore() *Store {
	return &Store{snapshot: state.Snapshot{Autoscalers: map[string]state.Record{}}, fleetKeep: map[string]targets.Store{}}
}

// Load implements state.Store.
func (s *Store) Load(context.Context) (state.Snapshot, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	loaded := state.Snapshot{LastRound: s.snapshot.LastRound, Clock: s.snapshot.Clock, Autoscalers: map[string]state.Record{}}
	for name, record := range s.snapshot.Autoscalers {
		if replay := record.Replay; replay != nil {
			for tick := ticks.Next(record.Through, replay.Period); !tick.After(loaded.LastRound); tick = ticks.Next(tick, replay.Period) {
				record.Memory.Recommendations = policy.Remember(replay.Rules, record.Memory.Recommendations, policy.Recommendation{Replicas: replay.Replicas, Held: replay.Held, Time: tick})
				record.Through = tick
			}
		}
		loaded.Autoscalers[name] = record
	}
	loaded.Pauses, loaded.Removals = slices.Clone(s.snapshot.Pauses), maps.Clone(s.snapshot.Removals)
	return loaded, nil
}

// Export is unsupported.
func (s *Store) Export(context.Context, io.Writer, bool) error { return errors.ErrUnsupported }

// Commit implements state.Store.
func (s *Store) Commit(_ context.Context, changes state.Changes) error {
	s.mu.Lock()
	slow := s.slow
	s.mu.Unlock()
	time.Sleep(slow)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failing != nil {
		return s.failing
	}
	rejected := state.RejectedError{}
	for name, record := range changes.Records {
		if text, _ := json.Marshal(record); s.Largest > 0 && len(text) > s.Largest {
			rejected[name] = fmt.Errorf("it has %d bytes, but the limit is %d", len(text), s.Largest)
		}
	}
	changes.Records = maps.Clone(changes.Records)
	maps.DeleteFunc(changes.Records, func(name string, _ state.Record) bool { return rejected[name] != nil })
	s.written += len(changes.Records)
	for _, name := range changes.Deleted {
		delete(s.snapshot.Autoscalers, name)
	}
	maps.Copy(s.snapshot.Autoscalers, changes.Records)
	for scope, pause := range changes.Pauses {
		s.snapshot.Pauses = slices.DeleteFunc(slices.Clone(s.snapshot.Pauses), func(p policy.Pause) bool { return p.Scope == scope })
		if pause != nil {
			s.snapshot.Pauses = append(s.snapshot.Pauses, *pause)
		}
	}
	if s.snapshot.Removals == nil {
		s.snapshot.Removals = map[string]state.Removals{}
	}
	maps.Copy(s.snapshot.Removals, changes.Removals)
	if !changes.LastRound.IsZero() {
		s.snapshot.LastRound = changes.LastRound
	}
	if !changes.Clock.Time.IsZero() {
		s.snapshot.Clock = changes.Clock
	}
	s.entries = append(s.entries, changes.Entries...)
	if len(rejected) > 0 {
		return rejected
	}
	return nil
}

// Fail makes commits fail with err, or succeed if it is nil.
func (s *Store) Fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failing = err
}

// Copied returns a copy of the store, with the state that a kill at this moment would leave.
func (s *Store) Copied() *Store {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &Store{
		snapshot:  state.Snapshot{LastRound: s.snapshot.LastRound, Clock: s.snapshot.Clock, Autoscalers: maps.Clone(s.snapshot.Autoscalers), Pauses: s.snapshot.Pauses, Removals: maps.Clone(s.snapshot.Removals)},
		entries:   slices.Clone(s.entries),
		fleetKeep: maps.Clone(s.fleetKeep),
		lost:      slices.Clone(s.lost),
	}
}

// Records returns the number of written records.
func (s *Store) Records() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.written
}

// SlowDown sets the duration of each commit.
func (s *Store) SlowDown(commit time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.slow = commit
}

// Record returns the stored record of an autoscaler.
func (s *Store) Record(name string) (state.Record, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	record, ok := s.snapshot.Autoscalers[name]
	return record, ok
}

// Fleet implements state.Store.
func (s *Store) Fleet(name string) targets.Store {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fleetKeep[name] == nil {
		s.fleetKeep[name] = new(targettest.Store)
	}
	return s.fleetKeep[name]
}

// History implements state.Store.
func (s *Store) History(_ context.Context, name string, from, to time.Time, limit int) ([]state.Entry, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []state.Entry
	for _, entry := range s.entries {
		if (name == "" || entry.Autoscaler == name) && !entry.Time.Before(from) && (to.IsZero() || entry.Time.Before(to)) {
			found = append(found, entry)
		}
	}
	if limit > 0 {
		found = found[max(0, len(found)-limit):]
	}
	return found, nil
}

// Verify is unsupported, because verification needs the encoded entries.
func (s *Store) Verify(context.Context, string, time.Time, time.Time) (state.Verification, error) {
	return state.Verification{}, errors.ErrUnsupported
}

// Lose sets the losses that the store reports.
func (s *Store) Lose(losses ...state.Loss) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lost = losses
}

// Losses implements state.Store.
func (s *Store) Losses() []state.Loss {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.lost)
}

// Close implements state.Store.
func (s *Store) Close() error { return nil }

// Forget deletes the recorded history entries.
func (s *Store) Forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.entries = nil
}
