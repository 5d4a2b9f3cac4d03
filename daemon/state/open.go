package state

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"syscall"
	"time"

	bolt "go.etcd.io/bbolt"
	"go.uber.org/zap"
)

// The default bounds of the history.
const (
	DefaultRetention    = 7 * 24 * time.Hour
	DefaultHistoryBytes = 256 << 20
)

// Options are the bounds of a store. The zero value holds the defaults.
type Options struct {
	// Retention is how long an entry of the history is kept, counted from the
	// newest one; 0 means DefaultRetention.
	Retention time.Duration
	// HistoryBytes bounds the entries of the history in all, 0 means
	// DefaultHistoryBytes: the oldest ones go first. The file may be up to about
	// twice as large, and does not get smaller.
	HistoryBytes int64
	// Log gets what is lost, and when entries go before their retention is over; nil discards.
	Log *zap.Logger
	// Before, if not nil, is called before each write to a file: for tests of slow disks.
	Before func()

	// refilled has an earlier state.db removed: what is in it is known from elsewhere.
	refilled bool
}

// The files of the databases.
const (
	stateName   = "state.db"
	historyName = "history.db"
)

// buckets are the top-level buckets of each file, besides metaBucket.
var buckets = map[string][][]byte{
	stateName:   {autoscalersBucket, fleetsBucket},
	historyName: {entriesBucket, namesBucket},
}

// Open opens the store in a directory, which it makes if it is not there.
//
// The directory belongs to one daemon at a time: a second one gets a *HeldError. A
// state.db that is damaged is set aside and returned as a *DamagedError; opening again
// begins with an empty one. A history.db that is damaged is set aside too, and an empty
// one takes its place at once. Both are among the losses then. A file that a newer hpad
// wrote is left alone and returned as a *FormatError.
func Open(dir string, options Options) (Store, error) {
	s, err := openStore(dir, options)
	switch {
	case errors.Is(err, fs.ErrPermission):
		// As where it was run by root before, or a copy was put back.
		return nil, fmt.Errorf("%w; let the user that hpad runs as own %q and all in it (chown -R)", err, dir)
	case err != nil:
		return nil, err
	}
	return s, nil
}

func openStore(dir string, options Options) (*store, error) {
	if options.Retention <= 0 {
		options.Retention = DefaultRetention
	}
	if options.HistoryBytes <= 0 {
		options.HistoryBytes = DefaultHistoryBytes
	}
	if options.Log == nil {
		options.Log = zap.NewNop()
	}
	if err := makeDir(dir); err != nil {
		return nil, fmt.Errorf("make state directory %q: %w", dir, err)
	}
	s := &store{dir: dir, options: options, verifying: make(chan struct{}, 1)}
	err := s.openState()
	if err == nil {
		err = s.openHistory()
	}
	if err != nil {
		return nil, errors.Join(err, s.closeFiles())
	}
	return s, nil
}

// openState opens state.db. That an earlier one is gone is recorded in the moment in
// which a new one is made, so that it cannot be missed.
func (s *store) openState() (err error) {
	var fill func(*bolt.Tx) error
	if s.options.refilled {
		path := filepath.Join(s.dir, stateName)
		if err := checkUnlocked(path, s.dir, lockWait); err != nil {
			return err
		}
		if err := remove(path); err != nil {
			return fmt.Errorf("remove the state of an earlier term: %w", err)
		}
	} else if lost := s.earlierState(); lost != "" {
		fill = putLosses([]Loss{{
			At: time.Now().UTC(), Part: MemoryPart,
			Message: lost + "; pauses, windows, rate limits, counts to put back and what else hpad remembered are known from then on; pause anew what was paused",
		}})
	} else if path := filepath.Join(s.dir, stateName); !exists(path) {
		s.options.Log.Info("there is no earlier state; hpad begins without windows, rates and counts of before", zap.String("state_dir", s.dir))
	}
	s.state, err = openDatabase(filepath.Join(s.dir, stateName), fill)
	if err != nil {
		return err
	}
	return s.loadLosses()
}

// openHistory opens history.db, without which hpad can do its work.
func (s *store) openHistory() error {
	path := filepath.Join(s.dir, historyName)
	if !exists(path) && s.isUsed() {
		if err := s.lose(HistoryPart, fmt.Sprintf("%q was lost: it is gone, and the history of decisions begins anew", path)); err != nil {
			return err
		}
	}
	d, err := openDatabase(path, nil)
	var damage *DamagedError
	if errors.Is(err, syscall.EIO) {
		damage = damaged(path, err)
		err = damage
	}
	if errors.As(err, &damage) && damage.Aside != "" {
		if err := s.lose(HistoryPart, fmt.Sprintf("%q was damaged: %v: it is set aside as %q, and the history of decisions begins anew", path, damage.Err, damage.Aside)); err != nil {
			return err
		}
		d, err = openDatabase(path, nil)
	}
	s.history = d
	return err
}

// isUsed reports whether a daemon has completed a round with this state.
func (s *store) isUsed() bool {
	used := false
	err := s.state.view(func(tx *bolt.Tx) error {
		used = tx.Bucket(metaBucket).Get(lastRoundKey) != nil
		return nil
	})
	return err == nil && used
}
