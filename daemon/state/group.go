package state

import (
	"errors"
	"fmt"
	"maps"
	"sync"

	bolt "go.etcd.io/bbolt"
)

var errClosed = errors.New("the state store is closed")

// write is a request to write values and history entries.
type write struct {
	// values maps slots in state.db to their new values. A nil value removes the slot.
	values  map[slot][]byte
	entries []sealedEntry
	// rejected maps each autoscaler with a rejected record to the error.
	rejected RejectedError

	done bool
	err  error
}

func (w *write) reject(name string, err error) {
	if w.rejected == nil {
		w.rejected = RejectedError{}
	}
	w.rejected[name] = err
}

// group combines the writes that arrive during a transaction into the next transaction. A
// single write does not wait for others.
type group struct {
	mu      sync.Mutex
	waiting []*write
	// writing is locked during a transaction. It guards closed and the results of the writes.
	writing sync.Mutex
	closed  bool
}

// write returns when w is written or has failed. The first caller that acquires the lock writes
// the requests of all waiting callers.
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

// writeAll writes a batch, the history first. It writes the state even if writing the history
// fails.
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

// writeValues writes the values of a batch. In a cluster, it writes them to the cluster's records
// first. Values that are rejected there are not written to state.db.
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

// share writes the values of a batch to the cluster's records, and removes rejected values from
// values.
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

// slot is the location of a value in state.db: a key in a bucket, or in a fleet's nested bucket.
type slot struct{ bucket, fleet, key string }

// putValues writes values. A nil value removes its slot.
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
		return fmt.Errorf("unknown bucket %q", at.bucket)
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

// unwritten adds the path of the file to an error, and advice if the disk is full.
func unwritten(path string, err error) error {
	if outOfRoom(err) {
		return fmt.Errorf("%q: %w: free space on its file system", path, err)
	}
	return fmt.Errorf("%q: %w", path, err)
}
