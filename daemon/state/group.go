package state

import (
	"errors"
	"fmt"
	"sync"

	bolt "go.etcd.io/bbolt"
)

var errClosed = errors.New("the state store is closed")

// write is what one caller wants written.
type write struct {
	// state is what to do in state.db, nil for nothing.
	state func(*bolt.Tx) error
	// entries are for history.db, gone are the autoscalers that it keeps no count of.
	entries []sealedEntry
	gone    []string

	done bool
	err  error
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
	var gone []string
	for _, w := range batch {
		entries, gone = append(entries, w.entries...), append(gone, w.gone...)
	}
	var err error
	if len(entries)+len(gone) > 0 {
		err = s.history.update(func(tx *bolt.Tx) error { return s.addEntries(tx, entries, gone) })
	}
	s.tellDamage()
	var changing []*write
	for _, w := range batch {
		if len(w.entries)+len(w.gone) > 0 && err != nil {
			w.err = unwritten(s.history.path, err)
		}
		if w.state != nil {
			changing = append(changing, w)
		}
	}
	if len(changing) == 0 {
		return
	}
	err = s.state.update(func(tx *bolt.Tx) error {
		for _, w := range changing {
			if err := w.state(tx); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		for _, w := range changing {
			w.err = errors.Join(w.err, unwritten(s.state.path, err))
		}
	}
}

// unwritten names the file, and the remedy where it is known.
func unwritten(path string, err error) error {
	if outOfRoom(err) {
		return fmt.Errorf("%q: %w: make room on its file system", path, err)
	}
	return fmt.Errorf("%q: %w", path, err)
}
