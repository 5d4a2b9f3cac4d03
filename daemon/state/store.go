package state

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/hpad/hpad/daemon/pages"
	"github.com/hpad/hpad/guard"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
)

// Buckets and keys of state.db. The last completed round and the clock are in metaBucket.
var (
	autoscalersBucket = []byte("autoscalers")
	fleetsBucket      = []byte("fleets")
	lastRoundKey      = []byte("last_round")
	clockKey          = []byte("clock")
)

// store implements Store with two bbolt files.
type store struct {
	options        Options
	dir            string
	state, history *database
	losses         atomic.Pointer[[]Loss]
	// writing is locked during a write. It protects closed.
	writing sync.Mutex
	closed  bool
	// joining protects next, the transaction that further values of fleets join; nil if none waits.
	joining sync.Mutex
	next    *transaction
	// records is the cluster's store for the state, or nil if hpad is not a cluster member. timeout
	// limits writes to it.
	records atomic.Pointer[Records]
	timeout time.Duration
	// damageLogged is set when the first damaged history entry is logged.
	damageLogged atomic.Bool
	// verifying has capacity for one call of Verify.
	verifying chan struct{}
}

// Load implements [Store].
func (s *store) Load(ctx context.Context) (Snapshot, error) {
	snapshot := Snapshot{Autoscalers: map[string]Record{}}
	err := s.state.view(func(tx *bolt.Tx) error {
		meta := tx.Bucket(metaBucket)
		snapshot.Removals = map[string]Removals{}
		err := errors.Join(
			loadMeta(meta, lastRoundKey, &snapshot.LastRound),
			loadMeta(meta, clockKey, &snapshot.Clock),
			loadPrefixed(meta, pausePrefix, func(_ string, pause policy.Pause) { snapshot.Pauses = append(snapshot.Pauses, pause) }),
			loadPrefixed(meta, removalsPrefix, func(fleet string, r Removals) { snapshot.Removals[fleet] = r }),
		)
		if err != nil {
			return err
		}
		names, records, err := decodeRecords(ctx, tx.Bucket(autoscalersBucket), snapshot.LastRound)
		for i, name := range names {
			snapshot.Autoscalers[name] = records[i]
		}
		return err
	})
	switch {
	case err != nil && ctx.Err() != nil:
		return Snapshot{}, fmt.Errorf("load %q: %w", s.state.path, err)
	case err != nil:
		return Snapshot{}, &damagedError{Path: s.state.path, Err: err}
	}
	return snapshot, nil
}

// decodeRecords decodes all records of a bucket in parallel.
func decodeRecords(ctx context.Context, bucket *bolt.Bucket, lastRound time.Time) ([]string, []Record, error) {
	var names []string
	var sealed [][]byte
	if err := bucket.ForEach(func(key, value []byte) error {
		names, sealed = append(names, string(key)), append(sealed, value)
		return nil
	}); err != nil {
		return nil, nil, err
	}
	records := make([]Record, len(names))
	workers, ctx := guard.WithContext(ctx)
	shares := runtime.GOMAXPROCS(0)
	for share := range shares {
		workers.Go(func() error {
			return pages.Catch(func() error {
				for i := share; i < len(names); i += shares {
					if err := ctx.Err(); err != nil {
						return err
					}
					record, err := unsealRecord(names[i], sealed[i])
					if err != nil {
						return fmt.Errorf("autoscaler %q: %w", names[i], err)
					}
					records[i] = replayed(record, lastRound)
				}
				return nil
			})
		})
	}
	return names, records, workers.Wait()
}

// Commit implements [Store]. The history is a separate file and is written first. A crash between
// the two writes therefore leaves history entries without the other changes. The next attempt to
// write such an entry replaces it.
func (s *store) Commit(ctx context.Context, changes Changes) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	w, err := sealChanges(changes)
	if err != nil {
		return err
	}
	err = s.write(w)
	if err != nil {
		err = fmt.Errorf("write the state: %w", err)
	}
	if _, history := errors.AsType[*HistoryError](err); len(w.rejected) > 0 && (err == nil || history) {
		return errors.Join(w.rejected, err)
	}
	return err
}

// maxRecord is the size limit of a record in bytes. The largest ordinary records, with ten long
// queries and an hour of recommendations, take 60 KiB.
const maxRecord = 1 << 20

// sealChanges encodes changes before the transaction, so that an invalid record does not prevent
// the other changes from being written.
func sealChanges(changes Changes) (*write, error) {
	w := &write{}
	meta, err := sealMeta(changes)
	if err != nil {
		return nil, err
	}
	w.values = make(map[slot][]byte, len(changes.Deleted)+len(changes.Records)+len(meta))
	for _, name := range changes.Deleted {
		w.values[slot{bucket: string(autoscalersBucket), key: name}] = nil
	}
	for name, record := range changes.Records {
		err := checkKey(name)
		if err == nil {
			at := slot{bucket: string(autoscalersBucket), key: name}
			w.values[at], err = sealRecord(name, record)
			if size := len(w.values[at]); err == nil && size > maxRecord {
				err = fmt.Errorf("it has %d bytes, but the limit is %d", size, maxRecord)
			}
			if err != nil {
				delete(w.values, at)
			}
		}
		if err != nil {
			w.reject(name, err)
		}
	}
	for key, sealed := range meta {
		w.values[slot{bucket: string(metaBucket), key: key}] = sealed
	}
	w.sealEntries(changes.Entries)
	return w, nil
}

// sealMeta returns the encoded values for metaBucket by key. A nil value removes the key.
func sealMeta(changes Changes) (map[string][]byte, error) {
	meta := map[string][]byte{}
	if !changes.LastRound.IsZero() {
		sealed, err := sealJSON(string(lastRoundKey), changes.LastRound)
		if err != nil {
			return nil, fmt.Errorf("write the last completed round: %w", err)
		}
		meta[string(lastRoundKey)] = sealed
	}
	if !changes.Clock.Time.IsZero() {
		sealed, err := sealJSON(string(clockKey), changes.Clock)
		if err != nil {
			return nil, fmt.Errorf("write the clock: %w", err)
		}
		meta[string(clockKey)] = sealed
	}
	if err := sealRemovals(changes.Removals, meta); err != nil {
		return nil, err
	}
	return meta, sealPauses(changes.Pauses, meta)
}

var errNoKey = errors.New("name is empty")

// checkKey returns an error if bbolt cannot store the key.
func checkKey(key string) error {
	if key == "" {
		return errNoKey
	}
	if len(key) > bolt.MaxKeySize-keyOverhead {
		return fmt.Errorf("name has %d bytes, but the limit is %d", len(key), bolt.MaxKeySize-keyOverhead)
	}
	return nil
}

// keyOverhead is the number of bytes in a key in addition to the name.
const keyOverhead = 16

// Fleet implements [Store].
func (s *store) Fleet(name string) targets.Store { return &fleetStore{store: s, name: name} }

// Close implements [Store]. It recreates missing files first.
func (s *store) Close() error {
	s.writing.Lock()
	defer s.writing.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	return errors.Join(s.renew(), s.closeFiles())
}

func (s *store) closeFiles() error {
	var errs []error
	for _, d := range []*database{s.history, s.state} {
		if d != nil {
			errs = append(errs, d.close())
		}
	}
	return errors.Join(errs...)
}
