package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"time"

	"go.uber.org/zap"

	"github.com/hpad/hpad/daemon/state"
)

// How a fleet is divided is known to the coordinator: into how many parts is the
// configuration of a shard of its own, the lock, which has no state. It is changed by one
// member that owns the lock, all parts of the layout in force, and all of the next: it
// copies the state, and then writes the lock's configuration, in one fenced write. All
// terms of a member end together, with its lease, so that while this write is accepted
// nobody else owns, runs or writes any part of either layout.
//
// Who owns a part has the lock for a moment after that, so that no write of it is on its way
// any more, looks at the layout, and lets go of the part where it is not one in force. While it
// owns one nobody can change the layout, since that takes all parts.
//
// A member that ends in the middle leaves a layout in force whose state is whole: before the
// lock's write the one there was, after it the next. What it left of the other is removed
// by whoever copies state there again.

const (
	// divideWait bounds how long it takes to divide a fleet anew.
	divideWait = 5 * time.Minute
	// undividedFor is how long a fleet is left as it is where that cannot be done: twice as
	// long each time, up to undividedMost.
	undividedFor, undividedMost = time.Minute, 8 * time.Hour
	// passEvery is how often a lock is tried that is another member's.
	passEvery = 100 * time.Millisecond
)

// delay is how long a member does without something that failed.
type delay struct {
	until time.Time
	lasts time.Duration
}

// divideAnew divides the fleet into as many parts as the run is to. Where it cannot, as when
// the coordinator has no room for a copy, the fleet is left as it is for a while: all
// members run it again once this one does not want to have it otherwise.
func (r *run) divideAnew() {
	ctx, cancel := context.WithTimeout(r.ctx, divideWait)
	defer cancel()
	started := time.Now()
	err := r.moveAll(ctx)
	switch {
	case err == nil:
		r.Cluster.mu.Lock()
		delete(r.undivided, r.fleet)
		r.Cluster.mu.Unlock()
		r.log.Info("a fleet is divided anew", zap.Int("parts", r.into), zap.Duration("took", time.Since(started)))
	case errors.Is(err, ErrTaken), errors.Is(err, ErrOtherwise), r.ctx.Err() != nil: // at the next look
	default:
		r.Cluster.mu.Lock()
		lasts := min(max(2*r.undivided[r.fleet].lasts, undividedFor), undividedMost)
		r.undivided[r.fleet] = delay{time.Now().Add(lasts), lasts}
		r.Cluster.mu.Unlock()
		r.log.Warn("a fleet cannot be divided anew", zap.Int("parts", r.into), zap.Duration("again_after", lasts), zap.NamedError("err", err))
	}
}

func (r *run) moveAll(ctx context.Context) error {
	p := r.parts.Load()
	n, lock := r.n, r.fleet+partMark
	before, after := shardNames(r.fleet, n), shardNames(r.fleet, r.into)
	view, err := r.viewNow(ctx)
	if err != nil {
		return err
	}
	for _, shard := range append(append([]string{lock}, before...), after...) {
		if err := r.acquire(shard, view.Shards[shard].Configuration); err != nil {
			return err
		}
	}
	if is, err := r.isLaidOut(); err != nil {
		return err
	} else if !is {
		return fmt.Errorf("somebody else was first: %w", ErrOtherwise)
	}
	next := divide(p.whole, r.options.ShardSize, layout{r.fleet: r.into})
	held, loaded, longest := r.terms(), make([]map[string][]byte, n), make([]time.Duration, n)
	for number, shard := range before {
		longest[number] = r.longest(shard)
		if loaded[number], err = loadAll(ctx, held[shard]); err != nil {
			return fmt.Errorf("read the state of %q: %w", shard, err)
		}
	}
	for number, shard := range after {
		err := r.fill(ctx, held[shard], number, loaded, longest)
		if err == nil {
			err = held[shard].Configure(ctx, next.identities[shard])
		}
		if err != nil {
			return errors.Join(fmt.Errorf("write the state of %q: %w", shard, err), r.unfill(ctx, after[:number+1]))
		}
	}
	if err := held[lock].Configure(ctx, strconv.Itoa(r.into)); err != nil {
		return err
	}
	for _, shard := range before { // or whoever copies state there
		if err := replace(ctx, held[shard], nil); err != nil {
			r.log.Warn("remove what a fleet had before it was divided anew", zap.String("shard", shard), zap.NamedError("err", err))
		}
	}
	return nil
}

// fill writes what a part, from 0, is to have of what those before have.
func (r *run) fill(ctx context.Context, to state.Records, part int, before []map[string][]byte, longest []time.Duration) error {
	values, err := stateOf(part, r.into, before, longest)
	if err != nil {
		return err
	}
	return replace(ctx, to, values)
}

// unfill removes what was copied for a layout that is not put in force: in a store that is
// full, it keeps others from writing. When hpad stops it is left to who copies next.
func (r *run) unfill(ctx context.Context, shards []string) error {
	if r.ctx.Err() != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveWait)
	defer cancel()
	var errs []error
	for held, i := r.terms(), 0; i < len(shards); i++ {
		if err := replace(ctx, held[shards[i]], nil); err != nil {
			errs = append(errs, fmt.Errorf("remove what was copied to %q: %w", shards[i], err))
		}
	}
	return errors.Join(errs...)
}

// stateOf returns the state that one of n parts is to have: what those before have of it
// that its autoscalers are in.
func stateOf(part, n int, before []map[string][]byte, longest []time.Duration) (map[string][]byte, error) {
	common := min(len(before), n)
	var from []map[string][]byte
	var ago []time.Duration
	for number, values := range before {
		if number%common == part%common {
			from, ago = append(from, values), append(ago, longest[number])
		}
	}
	whole, err := state.Combine(from, ago)
	if err != nil {
		return nil, err
	}
	return state.Select(whole, func(name string) bool { return partNumber(name, n) == part }, func(string) bool { return true }), nil
}

// loadAll returns all of some records.
func loadAll(ctx context.Context, records state.Records) (map[string][]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, loadWait)
	defer cancel()
	values := map[string][]byte{}
	err := records.Load(ctx, func(key string, value []byte) error {
		values[key] = value
		return nil
	})
	return values, err
}

// replace has records be some values, and nothing else.
func replace(ctx context.Context, records state.Records, values map[string][]byte) error {
	changes, err := loadAll(ctx, records)
	if err != nil {
		return err
	}
	for key := range changes {
		changes[key] = nil
	}
	maps.Copy(changes, values)
	ctx, cancel := context.WithTimeout(ctx, loadWait)
	defer cancel()
	return records.Write(ctx, changes)
}
