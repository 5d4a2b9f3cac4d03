package graph

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"slices"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/pages"
	"github.com/hpad/hpad/simulate"
)

var (
	hoursBucket    = []byte("hours")
	quartersBucket = []byte("quarters")
)

const (
	hour    = time.Hour
	quarter = 6 * time.Hour
	// joinAfter is the time between the end of a span and its join. By then, all points of the span
	// have been written.
	joinAfter = 2 * flushEvery
	// joinBatch is the number of autoscalers whose blocks one transaction joins.
	joinBatch = 1000
	// numberSize is the size of a flush number in a key, in bytes.
	numberSize = 4
)

// spanOf returns the number of the span that contains t, counted from the Unix epoch.
func spanOf(t time.Time, length time.Duration) uint32 {
	return uint32(t.Unix() / int64(length/time.Second))
}

// endOf returns the end of a span.
func endOf(span uint32, length time.Duration) time.Time {
	return time.Unix((int64(span)+1)*int64(length/time.Second), 0)
}

func spanKey(span uint32) []byte { return binary.BigEndian.AppendUint32(nil, span) }

// spanBucket returns the bucket for a span and creates it if necessary.
func spanBucket(in *bolt.Bucket, span uint32) (*bolt.Bucket, error) {
	b, err := in.CreateBucketIfNotExists(spanKey(span))
	if err == nil {
		b.FillPercent = fillPercent
	}
	return b, err
}

// spans returns the existing spans in order.
func spans(in *bolt.Bucket) (found []uint32) {
	_ = in.ForEachBucket(func(key []byte) error {
		found = append(found, binary.BigEndian.Uint32(key))
		return nil
	})
	return found
}

// joinHours joins and thins the hours of each quarter that has ended.
func (s *Store) joinHours(now time.Time) error {
	hours := map[uint32][]uint32{}
	err := s.db.View(func(tx *bolt.Tx) error {
		known := spans(tx.Bucket(quartersBucket))
		for _, span := range spans(tx.Bucket(hoursBucket)) {
			of := spanOf(endOf(span, hour).Add(-time.Second), quarter)
			if !slices.Contains(known, of) && !endOf(of, quarter).After(now.Add(-joinAfter)) {
				hours[of] = append(hours[of], span)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, span := range slices.Sorted(maps.Keys(hours)) {
		if err := s.join(span, hours[span]); err != nil {
			return err
		}
	}
	return nil
}

// join writes the points of hours to a quarter, and thins them if the hours are larger than maxQuarter.
// If hpad is killed in the meantime, the quarter contains only some of the autoscalers and remains
// incomplete.
func (s *Store) join(span uint32, hours []uint32) error {
	names, size := map[string]bool{}, 0
	err := s.db.View(func(tx *bolt.Tx) error {
		for _, hour := range hours {
			_ = tx.Bucket(hoursBucket).Bucket(spanKey(hour)).ForEach(func(key, block []byte) error {
				names[string(key[numberSize:])] = true
				size += len(block)
				return nil
			})
		}
		return nil
	})
	if err != nil {
		return err
	}
	for chunk := range slices.Chunk(slices.Sorted(maps.Keys(names)), joinBatch) {
		err := s.db.Update(func(tx *bolt.Tx) error {
			into, err := spanBucket(tx.Bucket(quartersBucket), span)
			if err != nil {
				return err
			}
			for _, name := range chunk {
				var rows []row
				for _, hour := range hours {
					if rows, err = appendHour(rows, tx.Bucket(hoursBucket).Bucket(spanKey(hour)), name); err != nil {
						return err
					}
				}
				if rows = inOrder(rows); size > s.maxQuarter {
					rows = thinned(rows, thin.Milliseconds())
				}
				block, err := encode(rows)
				if err == nil {
					err = into.Put([]byte(name), block)
				}
				if err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// drop deletes expired hours and quarters.
func (s *Store) drop(now time.Time) error {
	return s.db.Update(func(tx *bolt.Tx) error {
		for _, old := range []struct {
			bucket []byte
			length time.Duration
			kept   time.Duration
		}{{hoursBucket, hour, full}, {quartersBucket, quarter, retention}} {
			in := tx.Bucket(old.bucket)
			for _, span := range spans(in) {
				if endOf(span, old.length).After(now.Add(-old.kept)) {
					continue
				}
				if err := in.DeleteBucket(spanKey(span)); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// appendHour appends an autoscaler's rows from the bucket for one hour.
func appendHour(rows []row, in *bolt.Bucket, name string) ([]row, error) {
	cursor := in.Cursor()
	for key, _ := cursor.First(); key != nil; {
		number := binary.BigEndian.Uint32(key)
		want := append(spanKey(number), name...)
		if at, block := cursor.Seek(want); bytes.Equal(at, want) {
			var err error
			if rows, err = decode(rows, block); err != nil {
				return nil, fmt.Errorf("points of %q: %w", name, err)
			}
		}
		key, _ = cursor.Seek(spanKey(number + 1))
	}
	return rows, nil
}

// Read returns the graph of an autoscaler in a time span, including unwritten points. The result for an
// unknown autoscaler is empty.
func (s *Store) Read(name string, from, until time.Time) (api.Graph, error) {
	old, rows, err := s.rows(name, from, until, math.MaxInt, func(rows []row) []row { return thinned(rows, thin.Milliseconds()) })
	return graphOf(append(old, thinned(rows, minStep.Milliseconds())...)), err
}

// maxTicks is about the maximum number of ticks in a recording: 7 days at one point per 3 seconds. A
// tick uses about 400 bytes.
const maxTicks = 200_000

// Recording returns all points of an autoscaler in a time span, including unwritten points. It has no
// ticks for an unknown autoscaler. Its notes contain the first point of each target, and the start of
// the recording if the time span has more than about 200,000 points.
func (s *Store) Recording(name string, from, until time.Time) (simulate.Recording, error) {
	old, rows, err := s.rows(name, from, until, s.maxTicks, func(rows []row) []row { return rows })
	recording := recordingOf(name, append(old, rows...))
	if n := len(recording.Ticks); n >= s.maxTicks {
		first := recording.Ticks[0].Time
		recording.Notes = append(recording.Notes, simulate.Note{Time: first, Text: fmt.Sprintf("the recording begins here, because a simulation uses the newest %d passes", n)})
	}
	return recording, err
}

// rows returns the rows of quarters and the rows after them, both sorted. It calls reduce with the rows
// of each quarter. It omits the oldest quarters if there are more rows than limit.
func (s *Store) rows(name string, from, until time.Time, limit int, reduce func([]row) []row) (old, recent []row, err error) {
	outside := func(r row) bool { return r.time/milli < from.Unix() || r.time/milli > until.Unix() }
	old, recent, err = s.stored(name, from, until, limit, func(rows []row) []row { return reduce(inOrder(slices.DeleteFunc(rows, outside))) })
	if err != nil {
		return nil, nil, err
	}
	s.mu.Lock()
	for i := range s.pending {
		if p := &s.pending[i]; p.of.Name == name {
			recent = append(recent, p.row())
		}
	}
	s.mu.Unlock()
	return inOrder(old), inOrder(slices.DeleteFunc(recent, outside)), nil
}

// ReadFile returns the points of an autoscaler in a file that no Store has open. The result is empty
// if the file does not exist.
func ReadFile(path, name string, from, until time.Time) (api.Graph, error) {
	return readFile(path, func(s *Store) (api.Graph, error) { return s.Read(name, from, until) })
}

// RecordingInFile is like [Store.Recording], for a file that no Store has open.
func RecordingInFile(path, name string, from, until time.Time) (simulate.Recording, error) {
	return readFile(path, func(s *Store) (simulate.Recording, error) { return s.Recording(name, from, until) })
}

func readFile[T any](path string, read func(*Store) (T, error)) (found T, err error) {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return found, nil
	}
	s := New(path, nil, nil)
	err = pages.Catch(func() (err error) {
		s.db, err = bolt.Open(path, 0o600, &bolt.Options{ReadOnly: true, Timeout: pages.LockWait, OpenFile: pages.OpenFile})
		return err
	})
	if err != nil {
		return found, fmt.Errorf("read data points: open %s: %w", path, err)
	}
	defer func() { _ = pages.Catch(s.db.Close) }()
	return read(s)
}

// stored returns the rows from the blocks that overlap a time span: those of quarters, which reduce
// reduces, and those of hours, which take precedence. It reads the newest quarters until there are limit
// rows.
func (s *Store) stored(name string, from, until time.Time, limit int, reduce func([]row) []row) (old, recent []row, err error) {
	s.file.RLock()
	defer s.file.RUnlock()
	if s.db == nil {
		return nil, nil, nil
	}
	err = pages.Catch(func() error {
		return s.db.View(func(tx *bolt.Tx) error {
			hours := spans(tx.Bucket(hoursBucket))
			for _, span := range hours {
				if !overlaps(span, hour, from, until) {
					continue
				}
				if recent, err = appendHour(recent, tx.Bucket(hoursBucket).Bucket(spanKey(span)), name); err != nil {
					return err
				}
			}
			inHours := func(r row) bool { return slices.Contains(hours, spanOf(time.UnixMilli(r.time), hour)) }
			for _, span := range slices.Backward(spans(tx.Bucket(quartersBucket))) {
				block := tx.Bucket(quartersBucket).Bucket(spanKey(span)).Get([]byte(name))
				if block == nil || !overlaps(span, quarter, from, until) || len(old)+len(recent) >= limit {
					continue
				}
				rows, err := decode(nil, block)
				if err != nil {
					return fmt.Errorf("points of %q: %w", name, err)
				}
				old = append(old, reduce(slices.DeleteFunc(rows, inHours))...)
			}
			return nil
		})
	})
	if err != nil {
		if isDamage(err) {
			s.damage.CompareAndSwap(nil, &err)
		}
		return nil, nil, fmt.Errorf("read %q: %w", s.path, err)
	}
	return old, recent, nil
}

func overlaps(span uint32, length time.Duration, from, until time.Time) bool {
	end := endOf(span, length)
	return end.After(from) && !end.Add(-length).After(until)
}
