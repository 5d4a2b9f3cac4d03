package state

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	bolt "go.etcd.io/bbolt"
)

// ErrFenced is returned if another member owns the state, or might own it.
var ErrFenced = errors.New("another member may own it")

// Records stores the state of one fleet for the members of a cluster. Keys have at most about
// 300 bytes. Implementations are safe for concurrent use.
type Records interface {
	// Load calls keep for each key and value.
	Load(ctx context.Context, keep func(key string, value []byte) error) error
	// Write replaces values; a nil value removes its key. After an error, each key has either its
	// old or its new value. The error is ErrFenced if the member no longer owns the fleet. It is
	// a RejectedError if values are too large; in that case, nothing is written.
	Write(ctx context.Context, values map[string][]byte) error
}

// Shared is a Store that stores its state in [Records]. Its directory contains only a copy of the
// state, and the history.
type Shared interface {
	Store
	// Continue switches to the records of a later term of the same member. The caller ensures
	// that no other member owned the fleet in between.
	Continue(records Records)
}

// Continue implements [Shared].
func (s *store) Continue(records Records) { s.records.Store(&records) }

// OpenShared opens a store in a local directory and loads its state from records. A write to the
// records fails after timeout. OpenShared returns the same errors as [Open], and a *damagedError
// for an invalid value in the records.
func OpenShared(ctx context.Context, dir string, records Records, timeout time.Duration, options Options) (Shared, error) {
	// The records are at least as new as the local state.
	options.refilled = true
	opened, err := Open(dir, options)
	if err != nil {
		return nil, err
	}
	s := opened.(*store)
	if err := s.fill(ctx, records); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	s.timeout = timeout
	s.Continue(records)
	return s, nil
}

// fill copies the records into state.db.
func (s *store) fill(ctx context.Context, records Records) error {
	values := map[slot][]byte{}
	err := records.Load(ctx, func(key string, value []byte) error {
		at, ok := slotOf(key)
		if !ok {
			return &formatError{Path: key, Version: formatVersion + 1}
		}
		values[at] = value
		return nil
	})
	if err != nil {
		return fmt.Errorf("load the shared state: %w", err)
	}
	return s.state.update(func(tx *bolt.Tx) error { return putValues(tx, values) })
}

// writeShared writes values to the cluster's records.
func writeShared(records Records, timeout time.Duration, values map[slot][]byte) error {
	named := make(map[string][]byte, len(values))
	for at, value := range values {
		named[at.String()] = value
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return records.Write(ctx, named)
}

// String returns the key in Records for this slot.
func (at slot) String() string {
	if at.fleet != "" {
		return at.bucket + "/" + at.fleet + "/" + at.key
	}
	return at.bucket + "/" + at.key
}

// slotOf parses a key of Records.
func slotOf(key string) (slot, bool) {
	bucket, rest, _ := strings.Cut(key, "/")
	at := slot{bucket: bucket, key: rest}
	if bucket == string(fleetsBucket) {
		at.fleet, at.key, _ = strings.Cut(rest, "/")
	}
	known := bucket == string(metaBucket) || bucket == string(autoscalersBucket) || at.fleet != ""
	return at, known && at.key != ""
}
