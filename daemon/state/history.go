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

// The buckets of history.db. A key in "entries" consists of a time and a name. A key in "names"
// consists of the length of a name, the name, and a time; its value is empty.
var (
	entriesBucket = []byte("entries")
	namesBucket   = []byte("names")
	bytesKey      = []byte("bytes")
)

// Sizes of the parts of a key, in bytes.
const (
	timeSize   = 8
	lengthSize = 2
)

type sealedEntry struct {
	time time.Time
	// at is the time as encoded in keys. key is the key of the entry.
	at, key []byte
	name    string
	value   []byte
}

var errNoTime = errors.New("entry has no time")

// sealEntries encodes history entries and rejects invalid ones.
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

// timeKey encodes a time so that keys sort by time. Times outside the range of int64 nanoseconds
// are clamped.
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

// A transaction that adds n history entries removes at most prunedAtLeast + 2n excess entries,
// which limits its duration.
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

// history provides access to history.db within one transaction.
type history struct {
	meta, entries, names *bolt.Bucket
	// bytes is the total size of the entries.
	bytes int64
}

func openHistory(tx *bolt.Tx) (*history, error) {
	h := &history{meta: tx.Bucket(metaBucket), entries: tx.Bucket(entriesBucket), names: tx.Bucket(namesBucket)}
	return h, loadMeta(h.meta, bytesKey, &h.bytes)
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

// prune removes the oldest entries while they are older than cutoff or the total size exceeds
// maxBytes. The parameter most limits the number of removed entries. prune returns the number of
// entries that were removed only because of the size.
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

// readHistory returns the entries and skips invalid ones.
func (s *store) readHistory(ctx context.Context, tx *bolt.Tx, name string, from, to time.Time, limit int) ([]Entry, error) {
	var found []Entry
	for end := endKey(to); end != nil; {
		var stored []storedEntry
		stored, end = entriesBefore(tx, name, from, end)
		for _, e := range stored {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			var entry Entry
			if err := unsealEntry(string(e.key), e.sealed, &entry); err != nil {
				if !s.damageLogged.Swap(true) {
					s.options.Log.Error("history has damaged entries", zap.String("file", s.history.path), zap.NamedError("err", err))
				}
				continue
			}
			if found = append(found, entry); len(found) == limit {
				end = nil
				break
			}
		}
	}
	slices.Reverse(found)
	return found, nil
}

// storedEntry is an entry in the file. sealed is nil if the entry exists only in the index.
type storedEntry struct{ key, sealed []byte }

func (e storedEntry) name() string { return string(e.key[timeSize:]) }

// entriesAtOnce is the number of entries that one transaction reads. A longer transaction would
// block renew and prevent the reuse of free pages.
const entriesAtOnce = 2000

// entriesBefore returns up to entriesAtOnce entries before end, newest first. They belong to the
// named autoscaler, or to all autoscalers if name is empty. next is the end for the next call, or
// nil if there are no earlier entries.
func entriesBefore(tx *bolt.Tx, name string, from time.Time, end []byte) (found []storedEntry, next []byte) {
	first := make([]byte, timeSize)
	if !from.IsZero() {
		first = timeKey(from)
	}
	entries := tx.Bucket(entriesBucket)
	cursor, prefix := entries.Cursor(), []byte(nil)
	if name != "" {
		cursor, prefix = tx.Bucket(namesBucket).Cursor(), nameKey(name, nil)
	}
	lowest := slices.Concat(prefix, first)
	key, _ := cursor.Seek(slices.Concat(prefix, end))
	var value []byte
	if key == nil {
		key, value = cursor.Last()
	} else {
		key, value = cursor.Prev()
	}
	for ; key != nil && bytes.Compare(key, lowest) >= 0; key, value = cursor.Prev() {
		if len(found) == entriesAtOnce {
			return found, next
		}
		at := key[len(prefix):]
		next = bytes.Clone(at)
		if name != "" {
			at = entryKey(at, name)
			value = entries.Get(at)
		}
		found = append(found, storedEntry{at, value})
	}
	return found, nil
}

// endKey returns the end for entriesBefore. A zero time means no limit.
func endKey(to time.Time) []byte {
	if to.IsZero() {
		return bytes.Repeat([]byte{0xff}, timeSize+1)
	}
	return timeKey(to)
}
