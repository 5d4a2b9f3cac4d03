package sources

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"
)

// ErrNoRoom is the error of a query that waited for a part of a Budget in vain.
var ErrNoRoom = errors.New("no room for the answer")

// The parts of a Budget: what each query gets at once, and what a large one may
// have at most.
const (
	sharesOfBudget  = 256
	largestOfBudget = 4
)

// Budget bounds what queries hold together. Half of it is for those that take
// little: each gets a share at once. The other half is for those that turn out to
// take more: such a one waits for all that it may ever take. So none waits with a
// part of it for the rest that another one holds, and small ones go on however many
// large ones wait. It is safe for concurrent use; nil bounds nothing.
type Budget struct {
	setting      string
	total        int64
	small, large *semaphore.Weighted

	used, waits, refusals atomic.Int64
}

// NewBudget makes a budget of a total, at least sharesOfBudget. Setting is the key
// that sets it with its value, for errors.
func NewBudget(total int64, setting string) *Budget {
	return &Budget{
		setting: setting, total: total,
		small: semaphore.NewWeighted(total / 2), large: semaphore.NewWeighted(total / 2),
	}
}

// Usage is how a Budget is used.
type Usage struct {
	// Total is the whole budget, Used what is held of it now.
	Total, Used int64
	// Waits counts the times that a query had to wait, Refusals those that it did in
	// vain or wanted more than one may have.
	Waits, Refusals int64
}

// Usage returns how the budget is used.
func (b *Budget) Usage() Usage {
	return Usage{Total: b.total, Used: b.used.Load(), Waits: b.waits.Load(), Refusals: b.refusals.Load()}
}

// Share returns how much each query gets at once.
func (b *Budget) Share() int64 { return b.total / sharesOfBudget }

// largest returns how much one result may take.
func (b *Budget) largest() int64 { return b.total / largestOfBudget }

// Claim is what one query holds of a Budget. It belongs to one goroutine at a
// time, but for Release; nil is one of no budget.
type Claim struct {
	budget *Budget
	// small and large are what it holds of each half.
	small, large atomic.Int64
	enlarged     bool
}

// Claim takes a share, waiting for it until ctx ends.
func (b *Budget) Claim(ctx context.Context) (*Claim, error) {
	if b == nil {
		return nil, nil
	}
	share := b.Share()
	if err := b.acquire(ctx, b.small, share); err != nil {
		return nil, err
	}
	c := &Claim{budget: b}
	c.small.Store(share)
	return c, nil
}

// Room returns how much the claim holds.
func (c *Claim) Room() int64 { return c.small.Load() + c.large.Load() }

// Enlarge makes the claim one of n, or of all that there is for large ones where
// that is less, waiting until ctx ends. It gives back what the claim held before.
func (c *Claim) Enlarge(ctx context.Context, n int64) error {
	n = min(n, c.budget.total/2)
	if err := c.budget.acquire(ctx, c.budget.large, n); err != nil {
		return err
	}
	c.large.Store(n)
	c.enlarged = true
	small := c.small.Swap(0)
	c.budget.small.Release(small)
	c.budget.used.Add(-small)
	return nil
}

// shrink gives back what the claim holds beyond n.
func (c *Claim) shrink(n int64) {
	held, half := &c.small, c.budget.small
	if c.enlarged {
		held, half = &c.large, c.budget.large
	}
	if excess := held.Load() - n; excess > 0 {
		held.Add(-excess)
		half.Release(excess)
		c.budget.used.Add(-excess)
	}
}

// extend takes n more if there are as many at once.
func (c *Claim) extend(n int64) bool {
	switch {
	case c == nil:
		return true
	case !c.enlarged && c.budget.small.TryAcquire(n):
		c.small.Add(n)
	case c.budget.large.TryAcquire(n):
		c.large.Add(n)
	default:
		c.budget.refusals.Add(1)
		return false
	}
	c.budget.used.Add(n)
	return true
}

// Release gives everything back. Only the first call counts.
func (c *Claim) Release() {
	if c == nil {
		return
	}
	small, large := c.small.Swap(0), c.large.Swap(0)
	c.budget.small.Release(small)
	c.budget.large.Release(large)
	c.budget.used.Add(-small - large)
}

// acquire takes n of one half.
func (b *Budget) acquire(ctx context.Context, half *semaphore.Weighted, n int64) error {
	if !half.TryAcquire(n) {
		b.waits.Add(1)
		started := time.Now()
		if err := half.Acquire(ctx, n); err != nil {
			b.refusals.Add(1)
			return fmt.Errorf("%w: waited %s for other queries, which hold all of %s; let queries select or aggregate more, or raise it: %w",
				ErrNoRoom, time.Since(started).Round(time.Millisecond), b.setting, err)
		}
	}
	b.used.Add(n)
	return nil
}

// tooLarge returns the error of a result that takes more than one may.
func (b *Budget) tooLarge(series int) error {
	b.refusals.Add(1)
	return &QueryError{Err: fmt.Errorf("answer takes more than %d MiB by its series number %d, which is all that one may have of %s; let the query select or aggregate more, or raise it",
		b.largest()>>20, series, b.setting)}
}
