package live

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/hpad/hpad/targets"
)

// store lends a fleet a store for the length of a check: what the fleet would
// keep is forgotten afterwards, so that checking changes nothing.
type store struct {
	mu     sync.Mutex
	values map[string][]byte
}

func newStore() targets.Store { return &store{values: map[string][]byte{}} }

// Load returns a copy of the value of a key, nil when there is none.
func (s *store) Load(_ context.Context, key string) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.values[key]), nil
}

// Save sets the value of a key.
func (s *store) Save(_ context.Context, key string, value []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.values[key] = slices.Clone(value)
	return nil
}

// Delete removes a key.
func (s *store) Delete(_ context.Context, key string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.values, key)
	return nil
}

// List returns the entries whose key starts with prefix.
func (s *store) List(_ context.Context, prefix string) (map[string][]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := maps.Clone(s.values)
	maps.DeleteFunc(found, func(key string, _ []byte) bool { return !strings.HasPrefix(key, prefix) })
	return found, nil
}
