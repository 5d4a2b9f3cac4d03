package state

import (
	"errors"
	"fmt"
	"maps"
	"sync"

	bolt "go.etcd.io/bbolt"
)

var errClosed = errors.New("the state store is closed")

// write is what one caller wants written.
type write struct {
	// values are what state.db has from now on, by where; nil ones are removed.
	values map[slot][]byte
	// entries are for history.db.
	entries []sealedEntry
	// rejected has the errors of records that are left out, by autoscaler.
	rejected RejectedError

	done bool
	err  error
}

// reject leaves the record of an autoscaler out.
func (w *write) reject(name string, err error) {
	if w.rejected == nil {
		w.rejected = RejectedError{}
	}
	w.rejected[name] = err
}

// group gathers the writes that come while a transaction is under way into the
// next one. A lone write does not wait for company.
type group struct {
	mu      sync.Mutex
	waiting []*write
	// writing is held by whoever runs a transaction; it guards closed and the
	// results of the writes.
	writing sync.Mutex
	closed  bool
}

// write returns once w is written, or could not be. The first caller to find no
// transaction under way writes for all that wait by then.
func (s *store) write(w *write) error {
	g := &s.group
	g.mu.Lock()
	g.waiting = append(g.waiting, w)
	g.mu.Unlock()

	g.writing.Lock()
	defer g.writing.Unlock()
	if w.done {
		return w.err
	}
	g.mu.Lock()
	batch := g.waiting
	g.waiting = nil
	g.mu.Unlock()
	if g.closed {
		for _, other := range batch {
			other.err = errClosed
		}
	} else {
		s.writeAll(batch)
	}
	for _, other := range batch {
		other.done = true
	}
	return w.err
}

// writeAll writes a batch, the history first. Entries that cannot be written are an error
// of what they come with, which is written all the same.
func (s *store) writeAll(batch []*write) {
	if err := s.renew(); err != nil {
		for _, w := range batch {
			w.err = err
		}
		return
	}
	var entries []sealedEntry
	for _, w := range batch {
		entries = append(entries, w.entries...)
	}
	var err error
	s.before()
	if len(entries) > 0 {
		err = s.history.update(func(tx *bolt.Tx) error { return s.addEntries(tx, entries) })
	}
	s.tellDamage()
	var changing []*write
	for _, w := range batch {
		if len(w.entries) > 0 && err != nil {
			w.err = unwritten(s.history.path, err)
		}
		if len(w.values) > 0 {
			changing = append(changing, w)
		}
	}
	if len(changing) == 0 {
		return
	}
	if err = s.writeValues(changing); err != nil {
		for _, w := range changing {
			w.err = errors.Join(w.err, err)
		}
	}
}

func (s *store) before() {
	if s.options.Before != nil {
		s.options.Before()
	}
}

// writeValues writes the values of a batch, where the state is shared to the records of
// all members first: what they refuse is not in state.db either.
func (s *store) writeValues(batch []*write) error {
	values := batch[0].values
	if len(batch) > 1 {
		values = map[slot][]byte{}
		for _, w := range batch {
			maps.Copy(values, w.values)
		}
	}
	if s.shared != nil {
		if err := s.share(batch, values); err != nil {
			return err
		}
		s.before()
	}
	err := s.state.update(func(tx *bolt.Tx) error { return putValues(tx, values) })
	if err != nil {
		return unwritten(s.state.path, err)
	}
	return nil
}

// share writes the values of a batch to the records of all members. It removes rejected
// values, which fail alone.
func (s *store) share(batch []*write, values map[slot][]byte) error {
	for {
		err := s.shared.write(values)
		rejected, is := errors.AsType[RejectedError](err)
		before := len(values)
		for key, cause := range rejected {
			at, _ := slotOf(key)
			for _, w := range batch {
				if _, wants := w.values[at]; !wants {
					continue
				}
				if at.bucket == string(autoscalersBucket) {
					w.reject(at.key, cause)
				} else {
					w.err = errors.Join(w.err, fmt.Errorf("%.100q: %w", key, cause))
				}
			}
			delete(values, at)
		}
		if !is || len(values) == before {
			return err
		}
	}
}

// slot is where state.db has a value: the key in a bucket, or in fleetsBucket in the
// bucket of a fleet.
type slot struct{ bucket, fleet, key string }

// putValues writes values; nil ones are removed.
func putValues(tx *bolt.Tx, values map[slot][]byte) error {
	for at, value := range values {
		if err := at.put(tx, value); err != nil {
			return err
		}
	}
	return nil
}

func (at slot) put(tx *bolt.Tx, value []byte) error {
	bucket := tx.Bucket([]byte(at.bucket))
	if bucket == nil {
		return fmt.Errorf("there is no place for a value of bucket %q", at.bucket)
	}
	if at.fleet != "" {
		var err error
		if bucket, err = bucket.CreateBucketIfNotExists([]byte(at.fleet)); err != nil {
			return err
		}
	}
	if value == nil {
		return bucket.Delete([]byte(at.key))
	}
	return bucket.Put([]byte(at.key), value)
}

// unwritten names the file, and the remedy where it is known.
func unwritten(path string, err error) error {
	if outOfRoom(err) {
		return fmt.Errorf("%q: %w: make room on its file system", path, err)
	}
	return fmt.Errorf("%q: %w", path, err)
}
