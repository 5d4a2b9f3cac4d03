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

// PartedStore is the Store of a fleet whose targets are divided among the members of a
// cluster. What a key has of one target ends with the target's part, so that it goes with
// it; what ends with none may be missing after a while.
type PartedStore interface {
	Store
	// Part returns the end of the keys that have what is known of a target.
	Part(target string) string
}

// Divider is a Config of a kind whose fleets can be divided among the members of a cluster:
// what they keep is in keys that end as [PartedStore] says, and any number of members may
// read all of the platform.
type Divider interface{ Divides() bool }

// Divides reports whether the fleet of a configuration can be divided.
func Divides(c Config) bool {
	divider, may := c.(Divider)
	return may && divider.Divides()
}
