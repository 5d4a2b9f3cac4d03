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

	"github.com/hpad/hpad/daemon/pages"
)

// Default limits of the history.
const (
	defaultRetention    = 7 * 24 * time.Hour
	defaultHistoryBytes = 256 << 20
)

// Options configures a store. The zero value uses the defaults.
type Options struct {
	// Retention is the maximum age of history entries, relative to the newest entry; 0 means
	// 7 days.
	Retention time.Duration
	// HistoryBytes is the maximum total size of the entries; 0 means 256 MiB. The
	// file can be twice as large, and it never shrinks.
	HistoryBytes int64
	// Log is optional.
	Log *zap.Logger
	// Before is called before each write to a file. Tests use it to simulate a slow disk.
	Before func()

	// refilled makes Open remove an existing state.db, because the caller fills the new file from
	// the cluster's records.
	refilled bool
}

const (
	stateName   = "state.db"
	historyName = "history.db"
)

// buckets lists the top-level buckets of each file, in addition to metaBucket.
var buckets = map[string][][]byte{
	stateName:   {autoscalersBucket, fleetsBucket},
	historyName: {entriesBucket, namesBucket},
}

// Open opens the store in dir, and creates the directory if it is missing.
//
// The error is a *heldError if another process uses the directory, and a *formatError if a newer
// hpad wrote the files. Open also fails while an import is incomplete. If state.db is damaged, Open renames it and returns a *damagedError; the
// next Open creates an empty file. Open renames a damaged history.db and replaces it. Both cases
// are reported as losses.
func Open(dir string, options Options) (Store, error) {
	s, err := openStore(dir, options)
	switch {
	case errors.Is(err, fs.ErrPermission):
		// This happens, for example, if hpad ran as root before, or if root restored a backup.
		return nil, fmt.Errorf("%w; the user that runs hpad must own %q and its files (chown -R)", err, dir)
	case err != nil:
		return nil, err
	}
	return s, nil
}

func openStore(dir string, options Options) (*store, error) {
	if options.Retention <= 0 {
		options.Retention = defaultRetention
	}
	if options.HistoryBytes <= 0 {
		options.HistoryBytes = defaultHistoryBytes
	}
	if options.Log == nil {
		options.Log = zap.NewNop()
	}
	if err := makeDir(dir); err != nil {
		return nil, fmt.Errorf("create state directory %q: %w", dir, err)
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

// openState opens state.db. If an earlier state.db is missing, the new file already contains that
// loss, so that a crash cannot hide the loss.
func (s *store) openState() (err error) {
	var fill func(*bolt.Tx) error
	if s.options.refilled {
		path := filepath.Join(s.dir, stateName)
		if err := checkUnlocked(path, s.dir, pages.LockWait); err != nil {
			return err
		}
		if err := remove(path); err != nil {
			return fmt.Errorf("remove the state of a previous ownership term: %w", err)
		}
	} else if err := checkImport(s.dir); err != nil {
		return err
	} else if lost := s.earlierState(); lost != "" {
		fill = putLosses([]Loss{{
			At: time.Now().UTC(), Part: MemoryPart,
			Message: lost + "; hpad started without pauses, windows, rate limits and manual changes to revert; repeat any pauses",
		}})
	} else if path := filepath.Join(s.dir, stateName); !exists(path) {
		s.options.Log.Info("no earlier state, starting empty", zap.String("state_dir", s.dir))
	}
	s.state, err = openDatabase(filepath.Join(s.dir, stateName), fill)
	if err != nil {
		return err
	}
	return s.loadLosses()
}

// openHistory opens history.db. A damaged history does not prevent hpad from starting.
func (s *store) openHistory() error {
	path := filepath.Join(s.dir, historyName)
	if !exists(path) && s.isUsed() {
		if err := s.lose(historyPart, fmt.Sprintf("%q is missing; hpad started an empty history", path)); err != nil {
			return err
		}
	}
	d, err := openDatabase(path, nil)
	var damage *damagedError
	if errors.Is(err, syscall.EIO) {
		damage = damaged(path, err)
		err = damage
	}
	if errors.As(err, &damage) && damage.Aside != "" {
		if err := s.lose(historyPart, fmt.Sprintf("%q was damaged: %v: it was renamed to %q; hpad started an empty history", path, damage.Err, damage.Aside)); err != nil {
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
