package state

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	bolt "go.etcd.io/bbolt"
)

// ErrFenced is that the state belongs to another member by now, or may: nothing is
// written any more.
var ErrFenced = errors.New("another member may own it by now")

// Records is where the members of a cluster keep the state of one fleet, for the time
// that one of them owns it. Keys are text of at most some 300 bytes, values are sealed by
// this package and have some kilobytes. It is safe for concurrent use.
type Records interface {
	// Load calls keep with each key and its value.
	Load(ctx context.Context, keep func(key string, value []byte) error) error
	// Write replaces values, and removes those that are nil. Once it returns nil all are
	// written; after an error each key has its value of before or the new one. It is an
	// ErrFenced once the member does not own the fleet any more: then nothing is written
	// that the next owner does not load. It is a RejectedError if values are too large.
	Write(ctx context.Context, values map[string][]byte) error
}

// shared writes what state.db gets to the records of all members, too.
type shared struct {
	records atomic.Pointer[Records]
	timeout time.Duration
}

// Shared is a Store whose state is in [Records], and in its directory only for as long as
// it is open; the history is the directory's own.
type Shared interface {
	Store
	// Continue goes on with the records of a later term, which must have what the earlier
	// ones had: nobody else owned the fleet in between.
	Continue(records Records)
}

// sharedStore is a store with its records.
type sharedStore struct{ *store }

// Continue is as [Shared] has it.
func (s *sharedStore) Continue(records Records) { s.shared.records.Store(&records) }

// OpenShared opens a store in a directory of this machine, and fills it from records. A
// write to them that takes longer than timeout fails. Errors are those of [Open], and a
// *DamagedError where a value of the records cannot be trusted.
func OpenShared(ctx context.Context, dir string, records Records, timeout time.Duration, options Options) (Shared, error) {
	// What an earlier term left in the directory is not looked at: the records have it, or
	// something newer.
	options.refilled = true
	opened, err := Open(dir, options)
	if err != nil {
		return nil, err
	}
	s := opened.(*store)
	if err := s.fill(ctx, records); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	s.shared = &shared{timeout: timeout}
	both := &sharedStore{s}
	both.Continue(records)
	return both, nil
}

// fill puts records into state.db.
func (s *store) fill(ctx context.Context, records Records) error {
	values := map[slot][]byte{}
	err := records.Load(ctx, func(key string, value []byte) error {
		at, ok := slotOf(key)
		if !ok {
			return &FormatError{Path: key, Version: formatVersion + 1}
		}
		values[at] = value
		return nil
	})
	if err != nil {
		return fmt.Errorf("load the shared state: %w", err)
	}
	return s.state.update(func(tx *bolt.Tx) error { return putValues(tx, values) })
}

// write writes to the records what state.db is to have.
func (s *shared) write(values map[slot][]byte) error {
	named := make(map[string][]byte, len(values))
	for at, value := range values {
		named[at.String()] = value
	}
	ctx, cancel := context.WithTimeout(context.Background(), s.timeout)
	defer cancel()
	if err := (*s.records.Load()).Write(ctx, named); err != nil {
		return fmt.Errorf("write the shared state: %w", err)
	}
	return nil
}

// String returns the key that records have a value under.
func (at slot) String() string {
	if at.fleet != "" {
		return at.bucket + "/" + at.fleet + "/" + at.key
	}
	return at.bucket + "/" + at.key
}

// slotOf returns what String made a key of; false where it did not.
func slotOf(key string) (slot, bool) {
	bucket, rest, _ := strings.Cut(key, "/")
	at := slot{bucket: bucket, key: rest}
	if bucket == string(fleetsBucket) {
		at.fleet, at.key, _ = strings.Cut(rest, "/")
	}
	known := bucket == string(metaBucket) || bucket == string(autoscalersBucket) || at.fleet != ""
	return at, known && at.key != ""
}
