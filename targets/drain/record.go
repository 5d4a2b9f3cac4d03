package drain

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/hpad/hpad/targets"
)

// Where a fleet's store has the operations: one entry for each target, so that all
// victims of a decision are recorded or none. What cannot be read is set aside.
const (
	recordPrefix  = "drain/target/"
	damagedPrefix = "drain/damaged/"
	recordFormat  = 1
)

// Operations that ended are kept for a while, to be shown.
const (
	endedKept = 24 * time.Hour
	endedMost = 50
)

// record is what the store keeps of a target.
type record struct {
	Format int         `json:"format"`
	Target targets.Ref `json:"target"`
	// Wanted is the count that was decided last.
	Wanted     int32        `json:"wanted"`
	Operations []*Operation `json:"operations"`
}

// lock is a mutex whose waiters give up with their context.
type lock chan struct{}

func newLock() lock { return make(lock, 1) }

func (l lock) take(ctx context.Context) error {
	select {
	case l <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (l lock) release() { <-l }

// load reads the operations of all targets, unless that was done before.
func (f *Fleet) load(ctx context.Context) error {
	if err := f.loading.take(ctx); err != nil {
		return err
	}
	defer f.loading.release()
	f.mu.Lock()
	loaded := f.loaded
	f.mu.Unlock()
	if loaded || f.store == nil {
		return nil
	}
	entries, err := f.store.List(ctx, recordPrefix)
	if err != nil {
		return fmt.Errorf("%w: load the operations under way: %w", targets.ErrTransient, err)
	}
	read := map[targets.Ref]*target{}
	for key, value := range entries {
		t, err := f.parseRecord(value)
		if err == nil {
			read[t.ref] = t
			continue
		}
		if err := f.setAside(ctx, key, value, err); err != nil {
			return err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.targets, f.loaded = read, true
	return nil
}

// parseRecord reads one target's entry.
func (f *Fleet) parseRecord(value []byte) (*target, error) {
	var r record
	if err := json.Unmarshal(value, &r); err != nil {
		return nil, err
	}
	if r.Format != recordFormat {
		return nil, fmt.Errorf("format %d, want %d", r.Format, recordFormat)
	}
	t := newTarget(r.Target, f.clock)
	t.wanted = r.Wanted
	for _, op := range r.Operations {
		if op == nil || op.ID == "" || op.Instance.ID == "" {
			return nil, fmt.Errorf("an operation without an id or an instance")
		}
		op.Instance.Target = r.Target
		t.operations = append(t.operations, op)
		t.paces[op.ID] = &pace{touched: true} // by the daemon before this one
	}
	slices.SortStableFunc(t.operations, byAge)
	t.settleTwins(f.clock.Now())
	return t, nil
}

// settleTwins ends the undoing of instances that were chosen again since. The
// caller holds the lock.
func (t *target) settleTwins(now time.Time) {
	newest := map[string]*Operation{}
	for _, op := range t.operations {
		if older := newest[op.Instance.ID]; older != nil && older.State == Undoing {
			older.Error = "" // which no longer matters
			t.end(older, now)
		}
		if op.State != Ended {
			newest[op.Instance.ID] = op
		}
	}
}

// setAside keeps an entry that cannot be read where it does no harm.
func (f *Fleet) setAside(ctx context.Context, key string, value []byte, why error) error {
	aside := damagedPrefix + strings.TrimPrefix(key, recordPrefix)
	err := f.store.Save(ctx, aside, value)
	if err == nil {
		err = f.store.Delete(ctx, key)
	}
	if err != nil {
		return fmt.Errorf("%w: set the damaged entry %q aside: %w", targets.ErrTransient, key, err)
	}
	f.log.Error("the record of a target's drains cannot be read; look for instances of it that were left without work",
		zap.String("entry", key), zap.String("kept_as", aside), zap.Error(why))
	return nil
}

// prune forgets operations that ended long ago. The caller holds the lock.
func (t *target) prune(now time.Time) {
	ended := 0
	for _, op := range t.operations {
		if op.State == Ended {
			ended++
		}
	}
	t.operations = slices.DeleteFunc(t.operations, func(op *Operation) bool {
		old := op.State == Ended && (ended > endedMost || now.Sub(op.Ended) > endedKept)
		if old {
			ended--
			delete(t.paces, op.ID)
		}
		return old
	})
}

// save writes a target's operations, and those to be added, which then are the
// target's.
func (f *Fleet) save(ctx context.Context, t *target, added ...*Operation) error {
	if err := t.saving.take(ctx); err != nil {
		return fmt.Errorf("%w: record the operations of %s: %w", targets.ErrTransient, t.ref, err)
	}
	defer t.saving.release()
	f.mu.Lock()
	t.prune(f.clock.Now())
	changes := t.changes
	operations := slices.Concat(t.operations, added)
	value, err := json.Marshal(record{Format: recordFormat, Target: t.ref, Wanted: t.wanted, Operations: operations})
	f.mu.Unlock()
	if err == nil && f.store != nil {
		key := recordPrefix + t.ref.Name
		if len(operations) == 0 {
			err = f.store.Delete(ctx, key)
		} else {
			err = f.store.Save(ctx, key, value)
		}
	}
	if err != nil {
		return fmt.Errorf("%w: record the operations of %s: %w", targets.ErrTransient, t.ref, err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	t.saved = changes
	t.operations = append(t.operations, added...)
	for _, op := range added {
		t.paces[op.ID] = &pace{}
	}
	t.settleTwins(f.clock.Now())
	return nil
}
