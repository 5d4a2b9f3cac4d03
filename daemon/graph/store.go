package graph

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	bolt "go.etcd.io/bbolt"
	"go.uber.org/zap"

	"github.com/hpad/hpad/daemon/pages"
	"github.com/hpad/hpad/daemon/problem"
	"github.com/hpad/hpad/guard"
)

const (
	// flushEvery is the interval between writes.
	flushEvery = time.Minute
	// maxPasses is the number of passes in a minute up to which each pass has a point: 4,000
	// autoscalers with a sync period of 15 s.
	maxPasses = 16_000
	// maxQuarter is the size of the blocks in the hours of a quarter, in bytes, up to which the
	// quarter has all points: about 1,000 autoscalers with a sync period of 15 s.
	maxQuarter = 64 << 20
	// maxPending limits the number of points in memory while the file cannot be written.
	maxPending = 1 << 20
	// pageSize is large enough for several blocks of an hour.
	pageSize    = 8 << 10
	fillPercent = 0.95
	// maxBlocks is the maximum number of blocks that one transaction writes.
	maxBlocks = 10_000
)

// Store stores points in a file. It is safe for concurrent use.
type Store struct {
	path string
	log  *zap.Logger
	lost func(points int)

	mu      sync.Mutex
	pending []pending
	dropped int

	// file protects db. Readers hold the read lock. db is nil while the file is unusable.
	file sync.RWMutex
	db   *bolt.DB
	// failing is the error of the last write, or empty if it succeeded.
	failing string
	// damage is the error of a read that found damage, or nil. The next flush replaces the file,
	// because the database might not release its locks after a panic.
	damage atomic.Pointer[error]
	// noSync disables fsync in tests that simulate a week.
	noSync bool
	// maxQuarter and maxTicks are the constants, except in tests.
	maxQuarter, maxTicks int
	// passes counts the passes since the last flush, and busy is set after more than maxPasses.
	passes atomic.Int64
	busy   atomic.Bool
}

// pending is a point that is not yet written. Its values are varints, which use an eighth of the memory.
type pending struct {
	of     *Subject
	time   int64
	values []byte
}

func newPending(of *Subject, r row) pending {
	text := make([]byte, 0, 64)
	for _, value := range r.values {
		text = binary.AppendVarint(text, value)
	}
	return pending{of: of, time: r.time, values: text}
}

func (p *pending) row() row {
	r := row{time: p.time, metrics: p.of.Metrics, values: make([]int64, 0, passColumns+metricColumns*len(p.of.Metrics))}
	for text := p.values; len(text) > 0; {
		value, n := binary.Varint(text)
		r.values, text = append(r.values, value), text[n:]
	}
	return r
}

// New returns a store that creates or opens the file on first use. If lost is not nil, the store
// calls it with the number of points that could not be stored.
func New(path string, log *zap.Logger, lost func(points int)) *Store {
	if lost == nil {
		lost = func(int) {}
	}
	return &Store{path: path, log: log, lost: lost, maxQuarter: maxQuarter, maxTicks: maxTicks}
}

// Wants reports whether to add a point for a pass at now. last is the time of the autoscaler's previous
// point. Both are Unix times in seconds.
func (s *Store) Wants(last, now int64) bool {
	if s.passes.Add(1) > maxPasses {
		s.busy.Store(true)
	}
	return !s.busy.Load() || time.Duration(now-last)*time.Second >= minStep
}

// Add adds a point of an autoscaler. It must be later than the autoscaler's previous points. The
// point is written within a minute. Add copies the point but not the subject.
func (s *Store) Add(of *Subject, p *Point) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.pending) >= maxPending {
		s.dropped++
		return
	}
	s.pending = append(s.pending, newPending(of, p.row(of.Metrics)))
}

// Run writes the added points every minute and when ctx ends, and then closes the file. The
// function now returns the current time on the clock of the points.
func (s *Store) Run(ctx context.Context, now func() time.Time) {
	s.Flush(now()) // opens the file, so that points of an earlier run are readable
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

// Flush writes the added points, joins the hours that have ended, and deletes expired points.
// Points that cannot be written are lost; Flush counts and logs them.
func (s *Store) Flush(now time.Time) {
	s.mu.Lock()
	points, lost := s.pending, s.dropped
	s.pending, s.dropped = make([]pending, 0, len(points)), 0
	s.mu.Unlock()
	s.busy.Store(s.passes.Swap(0) > maxPasses)
	s.file.Lock()
	defer s.file.Unlock()
	if damage := s.damage.Swap(nil); damage != nil {
		s.replace(*damage)
	}
	err := pages.Catch(func() error {
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

// report logs the first failed write, and the first success after it. It replaces a damaged file.
func (s *Store) report(err error, lost int) {
	if err == nil {
		if s.failing != "" {
			s.log.Info("graph store recovered", zap.String("path", s.path))
		}
		s.failing = ""
		return
	}
	if cause := problem.Cause(err.Error()); cause != s.failing {
		s.log.Warn("graph store write failed", zap.String("path", s.path), zap.Int("lost", lost), zap.NamedError("err", err))
		s.failing = cause
	}
	if isDamage(err) {
		s.replace(err)
	}
}

// isDamage reports whether an error concerns the content of the file rather than the operating
// system.
func isDamage(err error) bool {
	if _, panicked := errors.AsType[*guard.Panic](err); panicked {
		return true
	}
	if _, block := errors.AsType[*blockError](err); block {
		return true
	}
	return errors.Is(err, pages.ErrDamaged)
}

// replace deletes the file, so that the next use creates an empty one. It does not wait for the
// database to close, because a database that panicked might be unable to close.
func (s *Store) replace(err error) {
	s.log.Warn("graph store damaged, starting an empty store", zap.String("path", s.path), zap.NamedError("err", err))
	db := s.db
	s.db = nil
	if db != nil {
		guard.Go(func() { _ = pages.Catch(db.Close) })
	}
	if err := os.Remove(s.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.log.Warn("remove damaged graph store", zap.NamedError("err", err))
	}
}

// open opens the file unless it is already open. If the file was deleted, it creates a new one.
func (s *Store) open() error {
	if s.db != nil {
		if _, err := os.Stat(s.path); err == nil {
			return nil
		}
		_ = s.db.Close()
		s.db = nil
	}
	db, err := bolt.Open(s.path, 0o600, &bolt.Options{Timeout: pages.LockWait, OpenFile: pages.OpenFile, FreelistType: bolt.FreelistMapType, NoStatistics: true, PageSize: pageSize, NoSync: s.noSync})
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

// write writes points as blocks of one minute each, and removes the written points from the list.
func (s *Store) write(points *[]pending) error {
	slices.SortFunc(*points, func(a, b pending) int {
		return cmp.Or(cmp.Compare(a.of.Name, b.of.Name), cmp.Compare(a.time, b.time))
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

// writeSome writes some of the sorted points and returns the rest. numbers contains the block
// number of this flush for each hour; writeSome adds missing numbers.
func writeSome(tx *bolt.Tx, points []pending, numbers map[uint32]uint32) ([]pending, error) {
	for blocks := 0; blocks < maxBlocks && len(points) > 0; blocks++ {
		name, span := points[0].of.Name, spanOf(time.UnixMilli(points[0].time), hour)
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
		for len(points) > 0 && points[0].of.Name == name && spanOf(time.UnixMilli(points[0].time), hour) == span {
			rows, points = append(rows, points[0].row()), points[1:]
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
