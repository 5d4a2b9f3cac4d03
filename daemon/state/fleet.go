package state

import (
	"context"
	"fmt"
	"slices"
	"strings"

	bolt "go.etcd.io/bbolt"
)

type fleetStore struct {
	store *store
	name  string
}

// Load returns the value of a key, and nil when there is none.
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

// Save sets the value of a key; once it returns nil a crash does not lose it.
func (f *fleetStore) Save(ctx context.Context, key string, value []byte) error {
	sealed := seal(nestedKey(f.name, key), value)
	return f.update(ctx, "save", key, sealed)
}

// Delete removes a key; a missing one is no error.
func (f *fleetStore) Delete(ctx context.Context, key string) error {
	return f.update(ctx, "delete", key, nil)
}

// List returns all entries whose key starts with prefix: all with "".
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

// view reads the fleet's bucket; before the first Save there is none, and read
// is not called.
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
		err = f.store.write(&write{values: map[slot][]byte{{bucket: string(fleetsBucket), fleet: f.name, key: key}: sealed}})
	}
	if err != nil {
		return fmt.Errorf("%s %q of fleet %q: %w", verb, key, f.name, err)
	}
	return nil
}

// nestedKey is what seals a value in a bucket inside a bucket: by the key alone
// it could be taken for another fleet's.
func nestedKey(bucket, key string) string { return bucket + "\x00" + key }
