package graph

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
	"go.uber.org/zap"

	"github.com/hpad/hpad/daemon/trouble"
)

const (
	// flushEvery is how often points are written.
	flushEvery = time.Minute
	// maxPending bounds the points in memory while the disk does not take them.
	maxPending = 1 << 20
	// pageSize has several blocks of an hour in one page.
	pageSize    = 8 << 10
	fillPercent = 0.95
	// mostBlocks is how many blocks are written at once.
	mostBlocks = 10_000
	lockWait   = time.Second
)

var errCut = errors.New("it is cut off")

// Store keeps points in a file. It is safe for concurrent use.
type Store struct {
	path string
	log  *zap.Logger
	lost func(points int)

	mu      sync.Mutex
	pending []pending
	dropped int

	// file is held by whoever reads, and for writing while db changes. Db is nil while the
	// file cannot be used.
	file sync.RWMutex
	db   *bolt.DB
	// failing is why the last minute could not be written; empty when it was.
	failing string
	// damage is what a read found to be damaged; nil when nothing. A database that panicked
	// in a read may hold its locks for ever.
	damage atomic.Pointer[error]
	// noSync has nothing wait for the disk, which tests of a week have no time for.
	noSync bool
}

// pending is a point that is not written yet.
type pending struct {
	name string
	row
}

// New returns a store of a file, which is made and opened when it is first used. Lost
// is called with how many points could not be kept; nil is allowed.
func New(path string, log *zap.Logger, lost func(points int)) *Store {
	if lost == nil {
		lost = func(int) {}
	}
	return &Store{path: path, log: log, lost: lost}
}

// Add adds a point of an autoscaler, which is later than those before it, to be written
// within a minute. It keeps nothing of the point, but for a minute the autoscaler's names,
// which are one value for many points.
func (s *Store) Add(of *Subject, p *Point) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.pending) >= maxPending {
		s.dropped++
		return
	}
	values := make([]float64, 0, counts+len(p.Values))
	for _, count := range [counts]int32{p.Replicas, p.Desired, p.Min, p.Max} {
		if count == Unknown {
			values = append(values, math.NaN())
		} else {
			values = append(values, float64(count))
		}
	}
	values = append(values, p.Values...)
	s.pending = append(s.pending, pending{name: of.Name, row: row{time: p.Time.Unix(), metrics: of.Metrics, values: values}})
}

// Run writes what was added, each minute and when ctx ends, and closes the file. Now is
// the time that points have.
func (s *Store) Run(ctx context.Context, now func() time.Time) {
	s.Flush(now()) // opens the file, which those of before are read from
	ticker := time.NewTicker(flushEvery)
	defer ticker.Stop()
	for ctx.Err() == nil {
		select {
		case <-ticker.C:
		case <-ctx.Done():
		}
		s.Flush(now())
	}
	s.file.Lock()
	defer s.file.Unlock()
	if s.db != nil {
		_ = s.db.Close() // everything is written
		s.db = nil
	}
}

// Flush writes what was added, joins the hours that have passed, and drops what is too old.
// What cannot be written is lost, counted and logged.
func (s *Store) Flush(now time.Time) {
	s.mu.Lock()
	points, lost := s.pending, s.dropped
	s.pending, s.dropped = make([]pending, 0, len(points)), 0
	s.mu.Unlock()
	s.file.Lock()
	defer s.file.Unlock()
	if damage := s.damage.Swap(nil); damage != nil {
		s.replace(*damage)
	}
	err := s.guarded(func() error {
		if err := s.open(); err != nil {
			return err
		}
		if err := s.write(&points); err != nil {
			return err
		}
		return errors.Join(s.joinHours(now), s.drop(now))
	})
	if lost += len(points); lost > 0 {
		s.lost(lost)
	}
	s.report(err, lost)
}

// report logs that the file cannot be written, and that it can be again. A file that is
// damaged is replaced.
func (s *Store) report(err error, lost int) {
	if err == nil {
		if s.failing != "" {
			s.log.Info("points for drawings are kept again", zap.String("path", s.path))
		}
		s.failing = ""
		return
	}
	if said := trouble.Cause(err.Error()); said != s.failing {
		s.log.Warn("points for drawings are not kept; nothing else depends on them", zap.String("path", s.path), zap.Int("lost", lost), zap.NamedError("err", err))
		s.failing = said
	}
	if isDamage(err) {
		s.replace(err)
	}
}

// isDamage reports whether an error says something about the file's content, and not that
// the operating system could not do what it was asked for, which not every error of bbolt
// tells apart.
func isDamage(err error) bool {
	if _, panicked := errors.AsType[*trouble.Panic](err); panicked {
		return true
	}
	if _, block := errors.AsType[*blockError](err); block {
		return true
	}
	return slices.ContainsFunc([]error{
		errCut, bolterrors.ErrInvalid, bolterrors.ErrChecksum, bolterrors.ErrVersionMismatch,
	}, func(damage error) bool { return errors.Is(err, damage) })
}

// replace removes the file, for the next use to begin with an empty one. A database that
// panicked may be unable to close, and is left to itself.
func (s *Store) replace(err error) {
	s.log.Warn("the points for drawings are damaged and begin anew", zap.String("path", s.path), zap.NamedError("err", err))
	db := s.db
	s.db = nil
	if db != nil {
		go func() { _ = s.guarded(db.Close) }()
	}
	if err := os.Remove(s.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.log.Warn("remove the damaged points for drawings", zap.NamedError("err", err))
	}
}

// guarded calls f, and returns a panic of it, as of a damaged page or a file that was cut
// off under its mapping, as its error.
func (s *Store) guarded(f func() error) error {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	return trouble.Guard(f)
}

// open opens the file unless it is open; a file that was removed is made anew.
func (s *Store) open() error {
	if s.db != nil {
		if _, err := os.Stat(s.path); err == nil {
			return nil
		}
		_ = s.db.Close()
		s.db = nil
	}
	if info, err := os.Stat(s.path); err == nil && info.Size() > 0 && info.Size() < 2*pageSize {
		return fmt.Errorf("open %q: %w", s.path, errCut) // of bbolt it is an error like any other
	}
	db, err := bolt.Open(s.path, 0o600, &bolt.Options{Timeout: lockWait, FreelistType: bolt.FreelistMapType, NoStatistics: true, PageSize: pageSize, NoSync: s.noSync})
	if err != nil {
		return fmt.Errorf("open %q: %w", s.path, err)
	}
	s.db = db
	return db.Update(func(tx *bolt.Tx) error {
		for _, name := range [][]byte{hoursBucket, quartersBucket} {
			if _, err := tx.CreateBucketIfNotExists(name); err != nil {
				return err
			}
		}
		return nil
	})
}

// write writes points as blocks of one minute each, and removes those that are written.
func (s *Store) write(points *[]pending) error {
	slices.SortFunc(*points, func(a, b pending) int {
		return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(a.time, b.time))
	})
	numbers := map[uint32]uint32{}
	for len(*points) > 0 {
		var left []pending
		if err := s.db.Update(func(tx *bolt.Tx) (err error) {
			left, err = writeSome(tx, *points, numbers)
			return err
		}); err != nil {
			return err
		}
		*points = left
	}
	return nil
}

// writeSome writes some of the points, which are in order, and returns the others. Numbers
// are those of the flush by hour; missing ones are added.
func writeSome(tx *bolt.Tx, points []pending, numbers map[uint32]uint32) ([]pending, error) {
	for blocks := 0; blocks < mostBlocks && len(points) > 0; blocks++ {
		name, span := points[0].name, spanOf(time.Unix(points[0].time, 0), hour)
		into, err := spanBucket(tx.Bucket(hoursBucket), span)
		if err != nil {
			return nil, err
		}
		if numbers[span] == 0 {
			number, err := into.NextSequence()
			if err != nil {
				return nil, err
			}
			numbers[span] = uint32(number)
		}
		var rows []row
		for len(points) > 0 && points[0].name == name && spanOf(time.Unix(points[0].time, 0), hour) == span {
			rows, points = append(rows, points[0].row), points[1:]
		}
		block, err := encode(rows)
		if err != nil {
			return nil, err
		}
		if err := into.Put(append(spanKey(numbers[span]), name...), block); err != nil {
			return nil, err
		}
	}
	return points, nil
}
