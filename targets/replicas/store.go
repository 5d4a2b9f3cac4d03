// Package replicas stores data about a fleet's targets that the platform does not store:
// replica counts, members, and containers that are being removed.
package replicas

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/hpad/hpad/targets"
)

// Store stores one value for each target of a fleet, keyed by the target's name. Values are
// cached in memory and stored as JSON in the fleet's store, so that they survive a restart. A
// value that encodes as "null" or "{}" is deleted from the fleet's store. A value must not be
// modified after it was passed to the Store. It is safe for concurrent use.
type Store[V any] struct {
	backend targets.Store
	prefix  string

	mu      sync.Mutex
	entries map[string]*entry[V]
}

type entry[V any] struct {
	// saving is locked during a write, so that writes keep their order.
	saving chan struct{}
	value  V
	// known reports whether value was read or set.
	known bool
	// stored is the encoded value in the backend, or nil if the backend has no entry.
	stored []byte
}

// New returns an empty Store. The keys of its entries in the backend start with prefix. If the
// backend is nil, values do not survive a restart.
func New[V any](backend targets.Store, prefix string) *Store[V] {
	return &Store[V]{backend: backend, prefix: prefix, entries: map[string]*entry[V]{}}
}

// CorruptError reports that a stored entry cannot be decoded.
type CorruptError struct {
	Text []byte
	Err  error
}

func (e *CorruptError) Error() string { return e.Err.Error() }
func (e *CorruptError) Unwrap() error { return e.Err }

// Read returns the value in the backend. It does not change the value in memory. The error is a
// [CorruptError] or comes from the backend.
func (s *Store[V]) Read(ctx context.Context, name string) (value V, found bool, err error) {
	if s.backend == nil {
		return value, false, nil
	}
	text, err := s.backend.Load(ctx, s.prefix+name)
	if err != nil || text == nil {
		return value, false, err
	}
	if err := json.Unmarshal(text, &value); err != nil {
		return value, false, &CorruptError{Text: text, Err: err}
	}
	return value, true, nil
}

// Load replaces all values in memory with the values in the backend. Its error is an
// ErrTransient.
func (s *Store[V]) Load(ctx context.Context) error {
	stored, err := s.backend.List(ctx, s.prefix)
	if err != nil {
		return fmt.Errorf("%w: load %q from the fleet's store: %w", targets.ErrTransient, s.prefix, err)
	}
	entries := make(map[string]*entry[V], len(stored))
	for key, text := range stored {
		e := newEntry[V]()
		if err := json.Unmarshal(text, &e.value); err != nil {
			return fmt.Errorf("%w: load entry %q of the fleet's store: %w", targets.ErrTransient, key, err)
		}
		e.known, e.stored = true, text
		entries[key[len(s.prefix):]] = e
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.entries = entries
	return nil
}

// Get returns the value for a name, or false if it was neither read nor set.
func (s *Store[V]) Get(name string) (V, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.entries[name]; e != nil {
		return e.value, e.known
	}
	var zero V
	return zero, false
}

// Names returns the names whose values were read or set, in order.
func (s *Store[V]) Names() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	names := slices.Sorted(maps.Keys(s.entries))
	return slices.DeleteFunc(names, func(name string) bool { return !s.entries[name].known })
}

// Set sets a value that is already in the backend or need not be written to it.
func (s *Store[V]) Set(name string, value V) {
	text, _ := encode(value) // Save would return the same error
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entryLocked(name)
	e.value, e.known, e.stored = value, true, text
}

// Change replaces a value, which is the zero V if it was not set, with the result of change.
// Save writes it to the backend.
func (s *Store[V]) Change(name string, change func(before V) V) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entryLocked(name)
	e.value, e.known = change(e.value), true
}

// Inherit copies a value from an older Store.
func (s *Store[V]) Inherit(older *Store[V], name string) {
	e := newEntry[V]()
	older.mu.Lock()
	if before := older.entries[name]; before != nil {
		e.value, e.known, e.stored = before.value, before.known, before.stored
	}
	older.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.entries[name] = e
}

// Save writes a value to the backend unless it is already there. After an error the value
// remains in memory, and a later Save writes it.
func (s *Store[V]) Save(ctx context.Context, name string) error {
	if _, known := s.Get(name); !known {
		return nil
	}
	return s.Commit(ctx, name, func(before V) V { return before })
}

// Commit writes the result of change to the backend, and then sets it in memory. After an error
// the value is unchanged. If the value changes during the write, change is applied again to the
// new value, and the next Save writes the result.
func (s *Store[V]) Commit(ctx context.Context, name string, change func(before V) V) error {
	s.mu.Lock()
	e := s.entryLocked(name)
	s.mu.Unlock()
	select {
	case e.saving <- struct{}{}:
		defer func() { <-e.saving }()
	case <-ctx.Done():
		return ctx.Err()
	}
	s.mu.Lock()
	value, stored := change(e.value), e.stored
	s.mu.Unlock()
	text, err := encode(value)
	switch {
	case err != nil:
		return err
	case s.backend == nil || bytes.Equal(text, stored):
	case text == nil:
		err = s.backend.Delete(ctx, s.prefix+name)
	default:
		err = s.backend.Save(ctx, s.prefix+name, text)
	}
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	e.value, e.known, e.stored = change(e.value), true, text
	return nil
}

// encode returns nil if the value is empty.
func encode(value any) ([]byte, error) {
	text, err := json.Marshal(value)
	if string(text) == "null" || string(text) == "{}" {
		return nil, err
	}
	return text, err
}

func (s *Store[V]) entryLocked(name string) *entry[V] {
	e := s.entries[name]
	if e == nil {
		e = newEntry[V]()
		s.entries[name] = e
	}
	return e
}

func newEntry[V any]() *entry[V] { return &entry[V]{saving: make(chan struct{}, 1)} }
