package state

import (
	"errors"
	"fmt"
	"io/fs"

	bolt "go.etcd.io/bbolt"
)

var errClosed = errors.New("the state store is closed")

// write contains values and history entries to write.
type write struct {
	// values maps slots in state.db to their new values. A nil value removes the slot.
	values  map[slot][]byte
	entries []sealedEntry
	// rejected maps each autoscaler with a rejected record to the error.
	rejected RejectedError
}

func (w *write) reject(name string, err error) {
	if w.rejected == nil {
		w.rejected = RejectedError{}
	}
	w.rejected[name] = err
}

// HistoryError is returned if only the history could not be written.
type HistoryError struct{ Err error }

func (e *HistoryError) Error() string { return e.Err.Error() }
func (e *HistoryError) Unwrap() error { return e.Err }

// CopyError is returned in a cluster if the state could not be written to this member's own copy.
// The cluster's records may contain it.
type CopyError struct{ Err error }

func (e *CopyError) Error() string { return "the member's own copy of the state: " + e.Err.Error() }
func (e *CopyError) Unwrap() error { return e.Err }

// write writes the history first. It writes the state even if the history cannot be written.
func (s *store) write(w *write) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	return s.writeLocked(w)
}

func (s *store) writeLocked(w *write) error {
	if s.closed {
		return errClosed
	}
	if err := s.renew(); err != nil {
		if s.records.Load() != nil {
			err = &CopyError{err}
		}
		return err
	}
	s.before()
	var historyErr, err error
	if len(w.entries) > 0 {
		historyErr = s.history.update(func(tx *bolt.Tx) error { return s.addEntries(tx, w.entries) })
	}
	if len(w.values) > 0 {
		err = s.writeValues(w)
	}
	switch {
	case historyErr == nil:
		return err
	case err == nil:
		return &HistoryError{unwritten(s.history.path, historyErr)}
	}
	return fmt.Errorf("%w; %w", unwritten(s.history.path, historyErr), err)
}

func (s *store) before() {
	if s.options.Before != nil {
		s.options.Before()
	}
}

// writeValues writes values to state.db. In a cluster, it first writes them to the cluster's
// records. It skips the values that the cluster store rejects.
func (s *store) writeValues(w *write) error {
	var rejected error
	records := s.records.Load()
	if records != nil {
		var err error
		if rejected, err = s.share(w, *records); err != nil {
			return err
		}
		s.before()
	}
	err := s.state.update(func(tx *bolt.Tx) error { return putValues(tx, w.values) })
	if err = unwritten(s.state.path, err); err != nil && records != nil {
		err = &CopyError{err}
	}
	return errors.Join(rejected, err)
}

// share writes values to the cluster's records. It removes rejected values from w, and returns an
// error for those that are not records of autoscalers.
func (s *store) share(w *write, records Records) (others, err error) {
	for {
		err := writeShared(records, s.timeout, w.values)
		rejected, is := errors.AsType[RejectedError](err)
		before := len(w.values)
		for key, cause := range rejected {
			at, _ := slotOf(key)
			if at.bucket == string(autoscalersBucket) {
				w.reject(at.key, cause)
			} else {
				others = errors.Join(others, fmt.Errorf("%.100q: %w", key, cause))
			}
			delete(w.values, at)
		}
		if !is || len(w.values) == before {
			return others, err
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

// unwritten adds the path of the file to an error that does not contain it, and advice if the disk
// is full.
func unwritten(path string, err error) error {
	if err == nil {
		return nil
	}
	if failed, is := errors.AsType[*fs.PathError](err); !is || failed.Path != path {
		err = fmt.Errorf("%q: %w", path, err)
	}
	if isDiskFull(err) {
		return fmt.Errorf("%w; free some space on its file system", err)
	}
	return err
}
