package drain

import (
	"context"
	"encoding/json"
	"errors"
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
	Wanted     int32       `json:"wanted"`
	Operations []Operation `json:"operations"`
}

// parseRecord reads one target's entry.
func parseRecord(value []byte) (*target, error) {
	var r record
	if err := json.Unmarshal(value, &r); err != nil {
		return nil, err
	}
	if r.Format != recordFormat {
		return nil, fmt.Errorf("format %d, want %d", r.Format, recordFormat)
	}
	for i := range r.Operations {
		op := &r.Operations[i]
		if op.ID == "" || op.Instance.ID == "" {
			return nil, errors.New("an operation without an id or an instance")
		}
		op.Instance.Target = r.Target
	}
	slices.SortStableFunc(r.Operations, func(a, b Operation) int { return a.Begun.Compare(b.Begun) })
	t := newTarget(r.Target)
	t.wanted, t.operations = r.Wanted, r.Operations
	return t, nil
}

// load reads the operations of all targets, unless that was done before.
func (f *Fleet) load(ctx context.Context) error {
	if f.loading.Acquire(ctx, 1) != nil {
		return context.Cause(ctx)
	}
	defer f.loading.Release(1)
	loaded := f.store == nil
	f.locked(func(tr *tracker) { loaded = loaded || tr.loaded })
	if loaded {
		return nil
	}
	entries, err := f.store.List(ctx, recordPrefix)
	if err != nil {
		return fmt.Errorf("%w: load the operations under way: %w", targets.ErrTransient, err)
	}
	var read []*target
	for key, value := range entries {
		t, err := parseRecord(value)
		if err == nil {
			read = append(read, t)
		} else if err := f.setAside(ctx, key, value, err); err != nil {
			return err
		}
	}
	f.locked(func(tr *tracker) {
		tr.loaded = true
		for _, t := range read {
			tr.add(t, f.clock.Now())
		}
	})
	return nil
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

// save records what changed of a target's operations, and those to be added, which
// then are the target's.
func (f *Fleet) save(ctx context.Context, t *target, added ...Operation) error {
	if t.saving.Acquire(ctx, 1) != nil {
		return fmt.Errorf("%w: record the operations of %s: %w", targets.ErrTransient, t.ref, context.Cause(ctx))
	}
	defer t.saving.Release(1)
	var changes uint64
	unchanged := false
	r := record{Format: recordFormat, Target: t.ref}
	f.locked(func(*tracker) {
		t.prune(f.clock.Now())
		unchanged = t.changes == t.saved && len(added) == 0
		changes, r.Wanted, r.Operations = t.changes, t.wanted, slices.Concat(t.operations, added)
	})
	if unchanged {
		return nil
	}
	if err := f.write(ctx, r); err != nil {
		return fmt.Errorf("%w: record the operations of %s: %w", targets.ErrTransient, t.ref, err)
	}
	f.locked(func(tr *tracker) {
		t.saved = changes
		tr.begin(t, added, f.clock.Now())
	})
	return nil
}

// write keeps a record, unless it has no Operations.
func (f *Fleet) write(ctx context.Context, r record) error {
	key := recordPrefix + r.Target.Name
	switch {
	case f.store == nil:
		return nil
	case len(r.Operations) == 0:
		return f.store.Delete(ctx, key)
	}
	value, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return f.store.Save(ctx, key, value)
}
