package targets

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"
)

// Base is the common part of all kinds of fleets. It records whether the fleet is closed, parses
// target names, rejects targets of other fleets and negative counts, marks interrupted writes,
// and adds a description of the attempt to each error. N is the kind's type for a target. It is
// safe for concurrent use.
type Base[N any] struct {
	Lifetime
	// Name is the fleet's key in the configuration.
	Name string
	// Place follows the fleet's name in read errors, such as ` in project "web"`; it may be empty.
	Place string
	// Parse parses a target's name. An error without a class becomes an ErrTargetNotFound.
	Parse func(name string) (N, error)

	known atomic.Pointer[[]N]
}

// Target parses a target's name. It returns an [ErrTargetNotFound] if the name is invalid or
// names another fleet.
func (b *Base[N]) Target(ref Ref) (N, error) {
	var none N
	if ref.Fleet != b.Name {
		return none, fmt.Errorf("%w: target %s does not belong to fleet %q", ErrTargetNotFound, ref, b.Name)
	}
	target, err := b.Parse(ref.Name)
	switch {
	case err == nil:
		return target, nil
	case HasClass(err):
		return none, err
	}
	return none, fmt.Errorf("%w: %w", ErrTargetNotFound, err)
}

// Snapshot calls read for the targets with valid names, and adds readings with errors for the
// others. The function read must return a new map with a reading for each target; it is not called
// if there are no valid targets. Snapshot sets Observed in readings without a time.
func (b *Base[N]) Snapshot(ctx context.Context, refs []Ref, read func(context.Context, map[Ref]N) (map[Ref]Reading, error)) (map[Ref]Reading, error) {
	good, bad := make(map[Ref]N, len(refs)), map[Ref]error{}
	known := make([]N, 0, len(refs))
	for _, ref := range refs {
		if target, err := b.Target(ref); err == nil {
			good[ref] = target
			known = append(known, target)
		} else {
			bad[ref] = err
		}
	}
	b.known.Store(&known)
	readings := map[Ref]Reading{}
	err := b.Usable(ctx)
	if err == nil && len(good) > 0 {
		readings, err = read(ctx, good)
	}
	if err != nil {
		return nil, fmt.Errorf("read fleet %q%s: %w", b.Name, b.Place, err)
	}
	for ref, err := range bad {
		readings[ref] = Reading{Err: err}
	}
	now := time.Now()
	for ref, reading := range readings {
		if reading.Observed.IsZero() {
			reading.Observed = now
			readings[ref] = reading
		}
	}
	return readings, nil
}

// Known returns the targets of the last snapshot, in its order.
func (b *Base[N]) Known() []N {
	if known := b.known.Load(); known != nil {
		return slices.Clone(*known)
	}
	return nil
}

// Write calls change to change a target. The argument what describes the attempt in errors. If
// ctx has ended, an error becomes an [ErrUnknownOutcome].
func (b *Base[N]) Write(ctx context.Context, ref Ref, what string, change func(context.Context, N) error) error {
	err := b.Usable(ctx)
	if err == nil {
		var target N
		if target, err = b.Target(ref); err == nil {
			err = WithUnknownOutcome(ctx, change(ctx, target))
		}
	}
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// Scale calls change to set the count of a target to n, in the same way as Write. The argument
// kind is the noun for a target in errors, such as "service".
func (b *Base[N]) Scale(ctx context.Context, ref Ref, n int32, kind string, change func(context.Context, N) error) error {
	what := fmt.Sprintf("scale %s %q of fleet %q to %d replicas", kind, ref.Name, b.Name, n)
	return b.Write(ctx, ref, what, func(ctx context.Context, target N) error {
		if n < 0 {
			return &OutOfRangeError{Min: new(int32), Err: fmt.Errorf("negative count %d", n)}
		}
		return change(ctx, target)
	})
}

// CallUnlessClosed calls do unless the fleet is closed. It adds the verb, such as "check" or
// "sample", to an error.
func CallUnlessClosed[T, N any](ctx context.Context, b *Base[N], verb string, do func(context.Context) (T, error)) (T, error) {
	var answer T
	err := b.Usable(ctx)
	if err == nil {
		answer, err = do(ctx)
	}
	if err != nil {
		return answer, fmt.Errorf("%s fleet %q: %w", verb, b.Name, err)
	}
	return answer, nil
}

// Lifetime records whether a fleet is closed. The zero Lifetime is open. It is safe for concurrent
// use.
type Lifetime struct{ ended atomic.Bool }

// MarkClosed closes the fleet. It returns false if it was closed already.
func (l *Lifetime) MarkClosed() bool { return l.ended.CompareAndSwap(false, true) }

// IsClosed reports whether the fleet is closed.
func (l *Lifetime) IsClosed() bool { return l.ended.Load() }

// Usable returns the error of ctx, or an [ErrTransient] if the fleet is closed.
func (l *Lifetime) Usable(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if l.IsClosed() {
		return fmt.Errorf("%w: the fleet is closed", ErrTransient)
	}
	return nil
}
