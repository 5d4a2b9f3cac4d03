package graph

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"time"

	bolt "go.etcd.io/bbolt"
)

var (
	recentBucket = []byte("recent")
	hoursBucket  = []byte("hours")
	halvesBucket = []byte("halves")
)

const (
	hour = time.Hour
	half = 12 * time.Hour
	// joinAfter is how long after its end a span is joined: points are written by then.
	joinAfter = 2 * flushEvery
	// hourLimit and halfLimit bound blocks: 26 hours and 15 half days of them, and the
	// minutes of an hour, are less than 110 kB.
	hourLimit, halfLimit = 2300, 1900
	// joining is how many autoscalers are joined in a transaction.
	joining = 1000
	// numberSize is the length of a number in keys.
	numberSize = 4
)

// spanOf counts the spans of a length since 1970.
func spanOf(t time.Time, length time.Duration) uint32 {
	return uint32(t.Unix() / int64(length/time.Second))
}

// endOf returns the end of a span.
func endOf(span uint32, length time.Duration) time.Time {
	return time.Unix((int64(span)+1)*int64(length/time.Second), 0)
}

func spanKey(span uint32) []byte { return binary.BigEndian.AppendUint32(nil, span) }

// spanBucket returns the bucket of a span, which it makes where there is none.
func spanBucket(in *bolt.Bucket, span uint32) (*bolt.Bucket, error) {
	b, err := in.CreateBucketIfNotExists(spanKey(span))
	if err == nil {
		b.FillPercent = fillPercent
	}
	return b, err
}

// spans returns the spans that a bucket has, in order.
func spans(in *bolt.Bucket) (found []uint32) {
	_ = in.ForEachBucket(func(key []byte) error {
		found = append(found, binary.BigEndian.Uint32(key))
		return nil
	})
	return found
}

// joinHours joins the minutes of hours that have passed.
func (s *Store) joinHours(now time.Time) error {
	for _, span := range s.passed(recentBucket, hour, now.Add(-joinAfter)) {
		err := s.join(span, recentBucket, []uint32{span}, hoursBucket, func(rows []row) ([]byte, error) { return fit(rows, hourLimit) })
		if err != nil {
			return err
		}
		if err := s.remove(recentBucket, span); err != nil {
			return err
		}
	}
	return nil
}

// joinHalves joins the hours of half days that have passed, thinned.
func (s *Store) joinHalves(now time.Time) error {
	hours := map[uint32][]uint32{}
	var known []uint32
	err := s.db.View(func(tx *bolt.Tx) error {
		known = spans(tx.Bucket(halvesBucket))
		for _, span := range spans(tx.Bucket(hoursBucket)) {
			of := spanOf(endOf(span, hour).Add(-time.Second), half)
			hours[of] = append(hours[of], span)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, span := range slices.Sorted(maps.Keys(hours)) {
		if slices.Contains(known, span) || endOf(span, half).After(now.Add(-hour)) {
			continue
		}
		err := s.join(span, hoursBucket, hours[span], halvesBucket, func(rows []row) ([]byte, error) { return fit(thinned(rows), halfLimit) })
		if err != nil {
			return err
		}
	}
	return nil
}

// drop drops the hours and half days that are too old.
func (s *Store) drop(now time.Time) error {
	for _, old := range []struct {
		bucket []byte
		length time.Duration
		kept   time.Duration
	}{{hoursBucket, hour, Full}, {halvesBucket, half, Retention}} {
		for _, span := range s.passed(old.bucket, old.length, now.Add(-old.kept)) {
			if err := s.remove(old.bucket, span); err != nil {
				return err
			}
		}
	}
	return nil
}

// passed returns the spans of a bucket that ended by a time.
func (s *Store) passed(bucket []byte, length time.Duration, by time.Time) (found []uint32) {
	_ = s.db.View(func(tx *bolt.Tx) error {
		found = slices.DeleteFunc(spans(tx.Bucket(bucket)), func(span uint32) bool { return endOf(span, length).After(by) })
		return nil
	})
	return found
}

func (s *Store) remove(bucket []byte, span uint32) error {
	return s.db.Update(func(tx *bolt.Tx) error { return tx.Bucket(bucket).DeleteBucket(spanKey(span)) })
}

// join makes one block of each autoscaler's blocks in spans of a bucket, with what the
// span has of it already. It may be done again after it was cut off.
func (s *Store) join(span uint32, from []byte, parts []uint32, to []byte, pack func([]row) ([]byte, error)) error {
	var names []string
	err := s.db.View(func(tx *bolt.Tx) error {
		names = namesIn(tx.Bucket(from), parts, prefixSize(from))
		return nil
	})
	if err != nil {
		return err
	}
	for chunk := range slices.Chunk(names, joining) {
		err := s.db.Update(func(tx *bolt.Tx) error {
			into, err := spanBucket(tx.Bucket(to), span)
			if err != nil {
				return err
			}
			var rows []row
			for _, name := range chunk {
				if rows, err = appendNamed(rows[:0], into, name, 0); err != nil {
					return err
				}
				for _, part := range parts {
					if rows, err = appendNamed(rows, tx.Bucket(from).Bucket(spanKey(part)), name, prefixSize(from)); err != nil {
						return err
					}
				}
				block, err := pack(inOrder(rows))
				if err == nil && block != nil {
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

// prefixSize is the length of what comes before the name in a bucket's keys.
func prefixSize(bucket []byte) int {
	if bytes.Equal(bucket, recentBucket) {
		return numberSize
	}
	return 0
}

// namesIn returns the names in spans of a bucket, in order.
func namesIn(in *bolt.Bucket, parts []uint32, prefix int) []string {
	found := map[string]bool{}
	for _, part := range parts {
		_ = in.Bucket(spanKey(part)).ForEach(func(key, _ []byte) error {
			if !found[string(key[prefix:])] {
				found[string(key[prefix:])] = true
			}
			return nil
		})
	}
	return slices.Sorted(maps.Keys(found))
}

// appendNamed appends the rows of an autoscaler in one span's bucket; nil has none.
func appendNamed(rows []row, in *bolt.Bucket, name string, prefix int) ([]row, error) {
	if in == nil {
		return rows, nil
	}
	if prefix == 0 {
		if block := in.Get([]byte(name)); block != nil {
			return appendStored(rows, name, block)
		}
		return rows, nil
	}
	cursor, err := in.Cursor(), error(nil)
	for key, _ := cursor.First(); key != nil; {
		number := bytes.Clone(key[:prefix])
		want := append(bytes.Clone(number), name...)
		at, block := cursor.Seek(want)
		if bytes.Equal(at, want) {
			if rows, err = appendStored(rows, name, block); err != nil {
				return nil, err
			}
		}
		key, _ = cursor.Seek(binary.BigEndian.AppendUint32(nil, binary.BigEndian.Uint32(number)+1))
	}
	return rows, nil
}

func appendStored(rows []row, name string, block []byte) ([]row, error) {
	rows, err := appendRows(rows, block)
	if err != nil {
		return nil, fmt.Errorf("points of %q: %w", name, err)
	}
	return rows, nil
}

// Read returns the points of an autoscaler from a time until another, those that wait to
// be written among them. There are none of what is not known.
func (s *Store) Read(name string, from, until time.Time) (Series, error) {
	rows, err := s.stored(name, from, until)
	if err != nil {
		return Series{}, err
	}
	s.mu.Lock()
	for i := range s.pending {
		if p := &s.pending[i]; p.Name == name {
			rows = append(rows, s.row(p))
		}
	}
	s.mu.Unlock()
	rows = slices.DeleteFunc(rows, func(r row) bool { return r.time < from.Unix() || r.time > until.Unix() })
	return series(inOrder(rows)), nil
}

// row returns a point that waits to be written.
func (s *Store) row(p *pending) row {
	r := row{time: p.time, metrics: p.Metrics}
	for _, count := range p.counts {
		r.values = append(r.values, countOf(count))
	}
	r.values = append(r.values, s.values[p.values:p.values+2*len(p.Metrics)]...)
	return r
}

// stored returns the rows of blocks that touch a time span; where there are hours, they
// take the place of half days.
func (s *Store) stored(name string, from, until time.Time) (rows []row, err error) {
	s.file.RLock()
	defer s.file.RUnlock()
	if s.db == nil {
		return nil, nil
	}
	err = s.guarded(func() error {
		return s.db.View(func(tx *bolt.Tx) error {
			hours := spans(tx.Bucket(hoursBucket))
			for _, span := range spans(tx.Bucket(halvesBucket)) {
				if !touches(span, half, from, until) {
					continue
				}
				begin := len(rows)
				if rows, err = appendNamed(rows, tx.Bucket(halvesBucket).Bucket(spanKey(span)), name, 0); err != nil {
					return err
				}
				rows = append(rows[:begin], slices.DeleteFunc(rows[begin:], func(r row) bool {
					return slices.Contains(hours, spanOf(time.Unix(r.time, 0), hour))
				})...)
			}
			for _, bucket := range [][]byte{hoursBucket, recentBucket} {
				for _, span := range spans(tx.Bucket(bucket)) {
					if !touches(span, hour, from, until) {
						continue
					}
					if rows, err = appendNamed(rows, tx.Bucket(bucket).Bucket(spanKey(span)), name, prefixSize(bucket)); err != nil {
						return err
					}
				}
			}
			return nil
		})
	})
	if err != nil {
		if isDamage(err) {
			s.damage.CompareAndSwap(nil, &err)
		}
		return nil, fmt.Errorf("read %q: %w", s.path, err)
	}
	return rows, nil
}

func touches(span uint32, length time.Duration, from, until time.Time) bool {
	end := endOf(span, length)
	return end.After(from) && !end.Add(-length).After(until)
}
