package contract

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/hpad/hpad/targets"
)

var _ targets.Store = (*Store)(nil)

// Store is an in-memory targets.Store. The zero Store is empty and ready to use. It is safe for
// concurrent use.
type Store struct {
	mu      sync.Mutex
	entries map[string][]byte
	err     error
}

// Fail makes every call fail with err until it is called with nil.
func (s *Store) Fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

// Load returns the value of a key, or nil.
func (s *Store) Load(ctx context.Context, key string) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(ctx); err != nil {
		return nil, err
	}
	return slices.Clone(s.entries[key]), nil
}

// Save sets the value of a key.
func (s *Store) Save(ctx context.Context, key string, value []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(ctx); err != nil {
		return err
	}
	if s.entries == nil {
		s.entries = map[string][]byte{}
	}
	s.entries[key] = append([]byte{}, value...)
	return nil
}

// Delete removes a key.
func (s *Store) Delete(ctx context.Context, key string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(ctx); err != nil {
		return err
	}
	delete(s.entries, key)
	return nil
}

// List returns all entries whose key starts with prefix.
func (s *Store) List(ctx context.Context, prefix string) (map[string][]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(ctx); err != nil {
		return nil, err
	}
	found := maps.Clone(s.entries)
	maps.DeleteFunc(found, func(key string, _ []byte) bool { return !strings.HasPrefix(key, prefix) })
	for key, value := range found {
		found[key] = slices.Clone(value)
	}
	return found, nil
}

func (s *Store) usable(ctx context.Context) error {
	if s.err != nil {
		return s.err
	}
	return ctx.Err()
}
