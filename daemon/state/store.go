package state

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	bolt "go.etcd.io/bbolt"
	"golang.org/x/sync/errgroup"

	"github.com/hpad/hpad/targets"
)

// The buckets of state.db. The last completed round and the clock are in
// metaBucket.
var (
	autoscalersBucket = []byte("autoscalers")
	fleetsBucket      = []byte("fleets")
	lastRoundKey      = []byte("last_round")
	clockKey          = []byte("clock")
)

// store is a Store in two bbolt files.
type store struct {
	options        Options
	dir            string
	state, history *database
	losses         atomic.Pointer[[]Loss]
	group          group
	// shared is where the state is kept that other members may go on with; nil where
	// this directory has it all.
	shared *shared
	// damaged is why an entry of the history could not be read; nil while all could. It is
	// told once, which the group's writing guards.
	damaged    atomic.Pointer[error]
	damageTold bool
	// verifying has room for whoever verifies the history.
	verifying chan struct{}
}

// Load is as [Store] has it.
func (s *store) Load(ctx context.Context) (Snapshot, error) {
	snapshot := Snapshot{Autoscalers: map[string]Record{}}
	err := s.state.view(func(tx *bolt.Tx) error {
		meta := tx.Bucket(metaBucket)
		if sealed := meta.Get(lastRoundKey); sealed != nil {
			if err := unsealJSON(string(lastRoundKey), sealed, &snapshot.LastRound); err != nil {
				return fmt.Errorf("last completed round: %w", err)
			}
		}
		if sealed := meta.Get(clockKey); sealed != nil {
			if err := unsealJSON(string(clockKey), sealed, &snapshot.Clock); err != nil {
				return fmt.Errorf("clock: %w", err)
			}
		}
		var err error
		if snapshot.Pauses, err = loadPauses(meta); err != nil {
			return err
		}
		if snapshot.Removals, err = loadRemovals(meta); err != nil {
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
		return Snapshot{}, &DamagedError{Path: s.state.path, Err: err}
	}
	return snapshot, nil
}

// decodeRecords reads all records of a bucket on all processors.
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
	workers, ctx := errgroup.WithContext(ctx)
	shares := runtime.GOMAXPROCS(0)
	for share := range shares {
		workers.Go(func() error {
			return guard(func() error {
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

// Commit is as [Store] has it. Entries of the history are in a file of their own, which is written first: a
// crash in between leaves entries without what came with them, and so may an
// error. Writing an entry again replaces it.
func (s *store) Commit(ctx context.Context, changes Changes) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	w, err := sealChanges(changes)
	if err != nil {
		return err
	}
	if err := s.write(w); err != nil {
		return fmt.Errorf("write the state of %d autoscalers and %d history entries, without which a restart would go on: %w",
			len(changes.Records), len(changes.Entries), err)
	}
	if len(w.rejected) > 0 {
		return w.rejected
	}
	return nil
}

// maxRecord is the limit of the record of an autoscaler in bytes. The largest ordinary
// records have 60 KiB: ten long queries, and an hour of recommendations.
const maxRecord = 1 << 20

// sealChanges prepares changes for the transaction, so that what cannot be
// written fails alone.
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
				err = fmt.Errorf("it has %d bytes and may have %d", size, maxRecord)
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

// sealMeta prepares what changes say of all autoscalers together, and pauses, by the
// keys; what is to be removed is nil.
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

// checkKey returns why bbolt cannot hold a key; nil where it can.
func checkKey(key string) error {
	if key == "" {
		return errNoKey
	}
	if len(key) > bolt.MaxKeySize-keyRoom {
		return fmt.Errorf("name has %d bytes and may have %d", len(key), bolt.MaxKeySize-keyRoom)
	}
	return nil
}

// keyRoom is what keys need beside a name.
const keyRoom = 16

// Fleet is as [Store] has it.
func (s *store) Fleet(name string) targets.Store { return &fleetStore{store: s, name: name} }

// Close is as [Store] has it, and leaves the files where the next start looks for them.
// Calls after it fail.
func (s *store) Close() error {
	s.group.writing.Lock()
	defer s.group.writing.Unlock()
	if s.group.closed {
		return nil
	}
	s.group.closed = true
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
