package targets

import "context"

// Store is a small key-value store of a fleet's own, kept across restarts: for
// first-seen and readiness times, counts that no platform keeps, operations
// under way. Keys are not empty. It is safe for concurrent use.
type Store interface {
	// Load returns the value of a key, and nil when there is none. The caller
	// owns the result.
	Load(ctx context.Context, key string) ([]byte, error)
	// Save sets the value of a key; once it returns nil a crash does not lose it.
	Save(ctx context.Context, key string, value []byte) error
	// Delete removes a key; a missing one is no error.
	Delete(ctx context.Context, key string) error
	// List returns all entries whose keys start with prefix.
	List(ctx context.Context, prefix string) (map[string][]byte, error)
}
