package state

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	bolt "go.etcd.io/bbolt"
	"go.uber.org/zap"
)

// The buckets of history.db. A key of "entries" is a time and a name. A key of "names" is the
// length of a name, the name, and a time; its value is empty.
var (
	entriesBucket = []byte("entries")
	namesBucket   = []byte("names")
	bytesKey      = []byte("bytes")
)

// Sizes in keys.
const (
	timeSize   = 8
	lengthSize = 2
)

type sealedEntry struct {
	time time.Time
	// at is the time as encoded in keys, and key the key of the entry.
	at, key []byte
	name    string
	value   []byte
}

var errNoTime = errors.New("entry has no time")

// sealEntries encodes entries and rejects invalid ones.
func (w *write) sealEntries(entries []Entry) {
	w.entries = make([]sealedEntry, 0, len(entries))
	for i := range entries {
		e := &entries[i]
		at := timeKey(e.Time)
		key := entryKey(at, e.Autoscaler)
		value, err := sealEntry(string(key), e)
		if err == nil && e.Time.IsZero() {
			err = errNoTime
		}
		if err == nil {
			err = checkKey(e.Autoscaler)
		}
		if err != nil {
			w.reject(e.Autoscaler, fmt.Errorf("write its history: %w", err))
			continue
		}
		w.entries = append(w.entries, sealedEntry{time: e.Time, at: at, key: key, name: e.Autoscaler, value: value})
	}
}

// timeKey encodes a time so that keys sort by time. Times that nanoseconds cannot express are
// clamped.
func timeKey(t time.Time) []byte {
	at := t.UnixNano()
	if t.Before(time.Unix(0, math.MinInt64)) {
		at = math.MinInt64
	} else if t.After(time.Unix(0, math.MaxInt64)) {
		at = math.MaxInt64
	}
	return binary.BigEndian.AppendUint64(nil, uint64(at)^1<<63)
}

func keyTime(key []byte) time.Time {
	return time.Unix(0, int64(binary.BigEndian.Uint64(key)^1<<63)).UTC()
}

func entryKey(at []byte, name string) []byte { return append(slices.Clone(at), name...) }

func nameKey(name string, at []byte) []byte {
	key := binary.BigEndian.AppendUint16(nil, uint16(len(name)))
	return append(append(key, name...), at...)
}

// prunedAtLeast is the number of excess entries that a transaction removes at least; a larger
// transaction removes twice as many as it adds. This bounds the work per transaction.
const prunedAtLeast = 16

func (s *store) addEntries(tx *bolt.Tx, entries []sealedEntry) error {
	h, err := openHistory(tx)
	if err != nil {
		return err
	}
	var newest time.Time
	for i := range entries {
		if err := h.add(&entries[i]); err != nil {
			return err
		}
		if entries[i].time.After(newest) {
			newest = entries[i].time
		}
	}
	early, err := h.prune(newest.Add(-s.options.Retention), s.options.HistoryBytes, prunedAtLeast+2*len(entries))
	if err != nil {
		return err
	}
	if early > 0 {
		s.options.Log.Debug("history full, old entries removed",
			zap.Int("entries", early), zap.Int64("max_bytes", s.options.HistoryBytes), zap.Duration("retention", s.options.Retention))
	}
	return h.save()
}

// history is history.db in one transaction.
type history struct {
	meta, entries, names *bolt.Bucket
	// bytes is the total size of the entries.
	bytes int64
}

func openHistory(tx *bolt.Tx) (*history, error) {
	h := &history{meta: tx.Bucket(metaBucket), entries: tx.Bucket(entriesBucket), names: tx.Bucket(namesBucket)}
	if sealed := h.meta.Get(bytesKey); sealed != nil {
		if err := unsealJSON(string(bytesKey), sealed, &h.bytes); err != nil {
			return nil, fmt.Errorf("read the size of the history: %w", err)
		}
	}
	return h, nil
}

func (h *history) save() error {
	sealed, err := sealJSON(string(bytesKey), h.bytes)
	if err != nil {
		return err
	}
	return h.meta.Put(bytesKey, sealed)
}

func (h *history) add(e *sealedEntry) error {
	h.bytes += int64(len(e.value) - len(h.entries.Get(e.key)))
	if err := h.entries.Put(e.key, e.value); err != nil {
		return err
	}
	index := nameKey(e.name, e.at)
	return h.names.Put(index, seal(string(index), nil))
}

// prune removes up to a number of the oldest entries, if they are older than cutoff or the
// total size exceeds maxBytes. It returns how many were removed because of the size.
func (h *history) prune(cutoff time.Time, maxBytes int64, most int) (early int, err error) {
	before := timeKey(cutoff)
	cursor := h.entries.Cursor()
	for range most {
		key, value := cursor.First()
		if key == nil {
			break
		}
		expired := bytes.Compare(key[:timeSize], before) < 0
		if !expired && h.bytes <= maxBytes {
			break
		}
		if !expired {
			early++
		}
		h.bytes -= int64(len(value))
		if err := h.names.Delete(nameKey(string(key[timeSize:]), key[:timeSize])); err != nil {
			return early, err
		}
		if err := cursor.Delete(); err != nil {
			return early, err
		}
	}
	return early, nil
}

// History implements [Store].
func (s *store) History(ctx context.Context, name string, from, to time.Time, limit int) ([]Entry, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	var found []Entry
	var err error
	if name != "" {
		err = checkKey(name)
	}
	if err == nil {
		err = s.history.view(func(tx *bolt.Tx) error {
			var err error
			found, err = s.readHistory(ctx, tx, name, from, to, limit)
			return err
		})
	}
	if err != nil {
		return nil, fmt.Errorf("read the history of autoscaler %q in %q: %w", name, s.history.path, err)
	}
	return found, nil
}

// readHistory returns the valid entries.
func (s *store) readHistory(ctx context.Context, tx *bolt.Tx, name string, from, to time.Time, limit int) ([]Entry, error) {
	var found []Entry
	err := eachEntry(ctx, tx, name, from, to, func(entry *Entry, err error) bool {
		if err != nil {
			if !s.damageLogged.Swap(true) {
				s.options.Log.Error("history has damaged entries", zap.String("file", s.history.path), zap.NamedError("err", err))
			}
			return true
		}
		found = append(found, *entry)
		return len(found) != limit
	})
	slices.Reverse(found)
	return found, err
}

// eachEntry calls more for each entry, newest first, until it returns false. The error is that
// of a damaged entry.
func eachEntry(ctx context.Context, tx *bolt.Tx, name string, from, to time.Time, more func(*Entry, error) bool) error {
	first := timeKey(from)
	if from.IsZero() {
		first = make([]byte, timeSize)
	}
	last := bytes.Repeat([]byte{0xff}, timeSize+1)
	if !to.IsZero() {
		last = timeKey(to)
	}
	entries := tx.Bucket(entriesBucket)
	cursor, lowest, end := tx.Bucket(namesBucket).Cursor(), nameKey(name, first), nameKey(name, last)
	if name == "" {
		cursor, lowest, end = entries.Cursor(), first, last
	}
	key, _ := cursor.Seek(end)
	if key == nil {
		key, _ = cursor.Last()
	} else {
		key, _ = cursor.Prev()
	}
	for ; key != nil && bytes.Compare(key, lowest) >= 0; key, _ = cursor.Prev() {
		if err := ctx.Err(); err != nil {
			return err
		}
		var entry Entry
		at := key
		if name != "" {
			at = entryKey(key[len(key)-timeSize:], name)
		}
		if err := unsealEntry(string(at), entries.Get(at), &entry); !more(&entry, err) {
			break
		}
	}
	return nil
}
