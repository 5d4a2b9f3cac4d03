package drain

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/hpad/hpad/targets"
)

// The store has one entry for each target, so that all victims of a decision are recorded or
// none. An invalid entry is
// logged and ignored.
const (
	recordPrefix = "drain/target/"
	recordFormat = 1
)

// Ended operations are kept for a day, at most 50 for a target.
const (
	endedKept = 24 * time.Hour
	endedMost = 50
)

type record struct {
	Format int         `json:"format"`
	Target targets.Ref `json:"target"`
	// Wanted is the decided count.
	Wanted     int32       `json:"wanted"`
	Operations []Operation `json:"operations"`
}

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

// load reads the operations of all targets once.
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
		return fmt.Errorf("%w: load the active operations: %w", targets.ErrTransient, err)
	}
	var read []*target
	for key, value := range entries {
		t, err := parseRecord(value)
		if err == nil {
			read = append(read, t)
		} else {
			f.log.Error("invalid record of drains", zap.String("entry", key), zap.Error(err))
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

// save writes the changed operations of a target and new ones, which it then adds to the target.
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

// write stores a record, or deletes it if it has no operations.
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
