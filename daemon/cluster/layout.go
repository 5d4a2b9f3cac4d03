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
// Who owns a part looks at the layout after that, and lets go of it where it is not one in
// force. While it owns one nobody can change the layout, since that takes all parts.
//
// A member that ends in the middle leaves a layout in force whose state is whole: before the
// lock's write the one there was, after it the next. What it left of the other is removed
// by whoever copies state there again.

// divideWait bounds how long it takes to divide a fleet anew.
const divideWait = 5 * time.Minute

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
		r.log.Info("a fleet is divided anew", zap.Int("parts", r.into), zap.Duration("took", time.Since(started)))
	case errors.Is(err, ErrTaken), errors.Is(err, ErrOtherwise), r.ctx.Err() != nil: // at the next look
	default:
		r.Cluster.mu.Lock()
		r.undivided[r.fleet] = time.Now().Add(unfitFor)
		r.Cluster.mu.Unlock()
		r.log.Warn("a fleet cannot be divided anew", zap.Int("parts", r.into), zap.NamedError("err", err))
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
	if !r.isLaidOut() {
		return nil // somebody else was first
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
		values, err := stateOf(number, r.into, loaded, longest)
		if err != nil {
			return fmt.Errorf("the state of %q: %w", shard, err)
		}
		if err := replace(ctx, held[shard], values); err != nil {
			return fmt.Errorf("write the state of %q: %w", shard, err)
		}
		if err := held[shard].Configure(ctx, next.identities[shard]); err != nil {
			return err
		}
	}
	if err := held[lock].Configure(ctx, strconv.Itoa(r.into)); err != nil {
		return err
	}
	for _, shard := range before { // or whoever copies state there
		if err := replace(ctx, held[shard], nil); err != nil {
			return fmt.Errorf("remove what %q had before: %w", shard, err)
		}
	}
	return nil
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
	return records.Write(ctx, changes)
}
