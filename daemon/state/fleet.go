package state

import (
	"context"
	"fmt"
	"slices"
	"strings"

	bolt "go.etcd.io/bbolt"

	"github.com/hpad/hpad/guard"
)

type fleetStore struct {
	store *store
	name  string
}

// Load implements [targets.Store].
func (f *fleetStore) Load(ctx context.Context, key string) ([]byte, error) {
	var value []byte
	err := f.view(ctx, func(bucket *bolt.Bucket) error {
		if key == "" {
			return errNoKey
		}
		sealed := bucket.Get([]byte(key))
		if sealed == nil {
			return nil
		}
		payload, err := unseal(nestedKey(f.name, key), sealed)
		value = append([]byte{}, payload...)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("load %q of fleet %q: %w", key, f.name, err)
	}
	return value, nil
}

// Save implements [targets.Store].
func (f *fleetStore) Save(ctx context.Context, key string, value []byte) error {
	sealed := seal(nestedKey(f.name, key), value)
	return f.update(ctx, "save", key, sealed)
}

// Delete implements [targets.Store].
func (f *fleetStore) Delete(ctx context.Context, key string) error {
	return f.update(ctx, "delete", key, nil)
}

// List implements [targets.Store].
func (f *fleetStore) List(ctx context.Context, prefix string) (map[string][]byte, error) {
	found := map[string][]byte{}
	err := f.view(ctx, func(bucket *bolt.Bucket) error {
		cursor := bucket.Cursor()
		for key, sealed := cursor.Seek([]byte(prefix)); key != nil && strings.HasPrefix(string(key), prefix); key, sealed = cursor.Next() {
			payload, err := unseal(nestedKey(f.name, string(key)), sealed)
			if err != nil {
				return fmt.Errorf("key %q: %w", key, err)
			}
			found[string(key)] = slices.Clone(payload)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list %q of fleet %q: %w", prefix, f.name, err)
	}
	return found, nil
}

// view calls read with the fleet's bucket. It does not call read before the first Save, because
// the bucket does not exist yet.
func (f *fleetStore) view(ctx context.Context, read func(*bolt.Bucket) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := checkKey(f.name); err != nil {
		return err
	}
	return f.store.state.view(func(tx *bolt.Tx) error {
		bucket := tx.Bucket(fleetsBucket).Bucket([]byte(f.name))
		if bucket == nil {
			return nil
		}
		return read(bucket)
	})
}

func (f *fleetStore) update(ctx context.Context, verb, key string, sealed []byte) error {
	err := ctx.Err()
	if err == nil {
		err = checkKey(f.name)
	}
	if err == nil {
		err = checkKey(key)
	}
	if err == nil {
		err = f.store.put(slot{bucket: string(fleetsBucket), fleet: f.name, key: key}, sealed)
	}
	if err != nil {
		return fmt.Errorf("%s %q of fleet %q: %w", verb, key, f.name, err)
	}
	return nil
}

// transaction contains values that are written together. err is set before done is closed.
type transaction struct {
	values map[slot][]byte
	done   chan struct{}
	err    error
}

// put writes a value. It writes values that arrive during another write in one transaction, because
// each transaction takes milliseconds, and delays the commits of decisions.
func (s *store) put(at slot, value []byte) error {
	s.joining.Lock()
	next := s.next
	if next != nil {
		next.values[at] = value
		s.joining.Unlock()
		<-next.done
		return next.err
	}
	next = &transaction{values: map[slot][]byte{at: value}, done: make(chan struct{})}
	s.next = next
	s.joining.Unlock()
	defer close(next.done)
	s.writing.Lock()
	defer s.writing.Unlock()
	s.joining.Lock()
	s.next = nil
	s.joining.Unlock()
	next.err = guard.Call(func() error { return s.writeLocked(&write{values: next.values}) })
	return next.err
}

// nestedKey returns the key that is part of the checksum of a value in a nested bucket. It includes
// the bucket's name, so that a value copied from another fleet is detected.
func nestedKey(bucket, key string) string { return bucket + "\x00" + key }
