package state

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

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
	// Log is told when entries go before their retention is over; nil discards.
	Log *zap.Logger
}

// Open opens the store in a directory, which it makes if it is not there.
//
// The directory belongs to one daemon at a time: a second one gets a *HeldError.
// A file that is damaged is set aside and answered as a *DamagedError; opening
// again begins with an empty one. A file that a newer hpad wrote is left alone
// and answered as a *FormatError.
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
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, fmt.Errorf("make state directory %q: %w", dir, err)
	}
	held, err := lock(dir)
	if err != nil {
		return nil, err
	}
	s := &store{lock: held, options: options}
	s.state, err = openDatabase(filepath.Join(dir, "state.db"), autoscalersBucket, fleetsBucket)
	if err != nil {
		return nil, errors.Join(err, held.Close())
	}
	s.history, err = openDatabase(filepath.Join(dir, "history.db"), entriesBucket, namesBucket)
	if err != nil {
		return nil, errors.Join(err, s.state.close(), held.Close())
	}
	return s, nil
}
