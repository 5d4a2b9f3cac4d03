// Package ledger keeps what platforms do not, for the kinds of fleets that have to:
// counts, members, victims, starts under way. A [Ledger] is what is known of targets
// now, and in the fleet's store across restarts.
//
// It is no kind of its own.
package ledger

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/hpad/hpad/targets"
)

// Value is what is kept of one target; it is stored as JSON.
type Value[V any] interface {
	// Equal reports whether other need not be stored in its place.
	Equal(other V) bool
	// Empty reports whether there is nothing to store: the entry is deleted then.
	Empty() bool
}

// Ledger holds values by the names of targets. A value is not modified once the
// Ledger has it. It is safe for concurrent use, and calls neither the store nor
// anybody else but Change's function with its lock held.
type Ledger[V Value[V]] struct {
	store  targets.Store
	prefix string

	mu    sync.Mutex
	known map[string]*entry[V]
}

type entry[V any] struct {
	// saving is held while the entry is stored, so that no older value is stored last.
	saving chan struct{}
	value  V
	// known reports that value was read or set, unsaved that the store has another.
	known, unsaved bool
}

// New returns an empty Ledger of the entries below a prefix of a store's keys; a nil
// store keeps nothing across restarts.
func New[V Value[V]](store targets.Store, prefix string) *Ledger[V] {
	return &Ledger[V]{store: store, prefix: prefix, known: map[string]*entry[V]{}}
}

// GarbledError is an entry of the store that cannot be read.
type GarbledError struct {
	Text []byte
	Err  error
}

func (e *GarbledError) Error() string { return e.Err.Error() }
func (e *GarbledError) Unwrap() error { return e.Err }

// Read returns what the store has of a name, which is not known by that. The error
// is a [GarbledError] or the store's.
func (l *Ledger[V]) Read(ctx context.Context, name string) (value V, found bool, err error) {
	if l.store == nil {
		return value, false, nil
	}
	text, err := l.store.Load(ctx, l.prefix+name)
	if err != nil || text == nil {
		return value, false, err
	}
	if err := json.Unmarshal(text, &value); err != nil {
		return value, false, &GarbledError{Text: text, Err: err}
	}
	return value, true, nil
}

// Load makes known what the store has of all names, in place of what is. Its error is
// an ErrTransient.
func (l *Ledger[V]) Load(ctx context.Context) error {
	stored, err := l.store.List(ctx, l.prefix)
	if err != nil {
		return fmt.Errorf("%w: load %q from the fleet's store: %w", targets.ErrTransient, l.prefix, err)
	}
	known := make(map[string]*entry[V], len(stored))
	for key, text := range stored {
		one := newEntry[V]()
		if err := json.Unmarshal(text, &one.value); err != nil {
			return fmt.Errorf("%w: load entry %q of the fleet's store: %w", targets.ErrTransient, key, err)
		}
		one.known = true
		known[key[len(l.prefix):]] = one
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.known = known
	return nil
}

// Of returns the value of a name, and false where none is known.
func (l *Ledger[V]) Of(name string) (V, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if one := l.known[name]; one != nil {
		return one.value, one.known
	}
	var none V
	return none, false
}

// Names returns the names that have a value, in order.
func (l *Ledger[V]) Names() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	names := slices.Sorted(maps.Keys(l.known))
	return slices.DeleteFunc(names, func(name string) bool { return !l.known[name].known || l.known[name].value.Empty() })
}

// Keep makes a value known that the store has, or need not have.
func (l *Ledger[V]) Keep(name string, value V) {
	l.mu.Lock()
	defer l.mu.Unlock()
	one := l.entryLocked(name)
	one.value, one.known, one.unsaved = value, true, false
}

// Change replaces the value of a name, the zero V where none is known, by what change
// returns, which Save stores.
func (l *Ledger[V]) Change(name string, change func(before V) V) {
	l.mu.Lock()
	defer l.mu.Unlock()
	one := l.entryLocked(name)
	next := change(one.value)
	if !one.known && next.Empty() {
		return
	}
	one.unsaved = one.unsaved || !one.known || !one.value.Equal(next)
	one.value, one.known = next, true
}

// Inherit makes known what an older Ledger knows of a name.
func (l *Ledger[V]) Inherit(older *Ledger[V], name string) {
	older.mu.Lock()
	one := newEntry[V]()
	if before := older.known[name]; before != nil {
		one.value, one.known, one.unsaved = before.value, before.known, before.unsaved
	}
	older.mu.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.known[name] = one
}

// Save stores the value of a name where the store has another. What cannot be stored
// stays known, and is stored by a later Save.
func (l *Ledger[V]) Save(ctx context.Context, name string) error {
	l.mu.Lock()
	one := l.known[name]
	due := one != nil && one.unsaved
	l.mu.Unlock()
	if !due {
		return nil
	}
	return one.inTurn(ctx, func() error {
		l.mu.Lock()
		value, due := one.value, one.unsaved
		l.mu.Unlock()
		if !due {
			return nil
		}
		if err := l.write(ctx, name, value); err != nil {
			return err
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		one.unsaved = !one.value.Equal(value)
		return nil
	})
}

// Commit stores a value and makes it known then; where it cannot be stored, nothing
// is changed.
func (l *Ledger[V]) Commit(ctx context.Context, name string, value V) error {
	l.mu.Lock()
	one := l.entryLocked(name)
	l.mu.Unlock()
	return one.inTurn(ctx, func() error {
		err := l.write(ctx, name, value)
		if err == nil {
			l.Keep(name, value)
		}
		return err
	})
}

// inTurn stores an entry when nobody else does.
func (e *entry[V]) inTurn(ctx context.Context, store func() error) error {
	select {
	case e.saving <- struct{}{}:
		defer func() { <-e.saving }()
		return store()
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l *Ledger[V]) write(ctx context.Context, name string, value V) error {
	if l.store == nil {
		return nil
	}
	if value.Empty() {
		return l.store.Delete(ctx, l.prefix+name)
	}
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return l.store.Save(ctx, l.prefix+name, text)
}

func (l *Ledger[V]) entryLocked(name string) *entry[V] {
	one := l.known[name]
	if one == nil {
		one = newEntry[V]()
		l.known[name] = one
	}
	return one
}

func newEntry[V any]() *entry[V] { return &entry[V]{saving: make(chan struct{}, 1)} }

// Map is a Value of things that a target has, by name or id.
type Map[T comparable] map[string]T

// Equal reports whether other has the same entries.
func (m Map[T]) Equal(other Map[T]) bool { return maps.Equal(m, other) }

// Empty reports whether there are no entries.
func (m Map[T]) Empty() bool { return len(m) == 0 }

// With returns the entries as change leaves a copy of them.
func (m Map[T]) With(change func(m Map[T])) Map[T] {
	next := maps.Clone(m)
	if next == nil {
		next = Map[T]{}
	}
	change(next)
	return next
}
