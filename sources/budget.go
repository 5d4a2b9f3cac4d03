package sources

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"
)

// ErrBudget is the error of a query that did not get its share of a Budget in time.
var ErrBudget = errors.New("no memory for the result")

// sharesOfBudget is the number of shares in a Budget; each query gets one. A large query may
// use the Budget divided by largestOfBudget.
const (
	sharesOfBudget  = 256
	largestOfBudget = 4
)

// Budget limits the memory of all queries together. One half is for small queries, each of
// which gets a share. The other half is for large queries, which wait until their whole limit
// is free. Thus no query waits for more memory while it holds a part of the budget, and large
// queries do not block small queries. It is safe for concurrent use. A nil Budget has no limit.
type Budget struct {
	setting      string
	total        int64
	small, large *semaphore.Weighted

	used, waits, refusals atomic.Int64
}

// NewBudget returns a budget. total must be at least sharesOfBudget. setting is its
// configuration key with the value, for error messages.
func NewBudget(total int64, setting string) *Budget {
	return &Budget{
		setting: setting, total: total,
		small: semaphore.NewWeighted(total / 2), large: semaphore.NewWeighted(total / 2),
	}
}

// Usage is the current usage of a Budget.
type Usage struct {
	// Total is the whole budget, and Used is the part in use.
	Total, Used int64
	// Waits is the number of claims that had to wait for memory. Refusals is the number of queries
	// that gave up waiting or exceeded their limit.
	Waits, Refusals int64
}

// Usage returns the current usage of the budget.
func (b *Budget) Usage() Usage {
	return Usage{Total: b.total, Used: b.used.Load(), Waits: b.waits.Load(), Refusals: b.refusals.Load()}
}

// Share returns the size of each query's share.
func (b *Budget) Share() int64 { return b.total / sharesOfBudget }

func (b *Budget) largest() int64 { return b.total / largestOfBudget }

// Claim is the part of a Budget that one query uses. Only Release is safe for concurrent use. A
// nil Budget has nil claims.
type Claim struct {
	budget *Budget
	// small and large are the parts claimed from each half.
	small, large atomic.Int64
	enlarged     bool
}

// Claim claims a share. It waits until the share is free or ctx ends.
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

// room returns the size of the claim.
func (c *Claim) room() int64 { return c.small.Load() + c.large.Load() }

// Enlarge replaces the claim with a claim of n, or of the whole half for large queries if that
// is less. It waits until the memory is free or ctx ends.
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

// shrink reduces the claim to n.
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

// Release releases the whole claim. It may be called more than once.
func (c *Claim) Release() {
	if c == nil {
		return
	}
	small, large := c.small.Swap(0), c.large.Swap(0)
	c.budget.small.Release(small)
	c.budget.large.Release(large)
	c.budget.used.Add(-small - large)
}

func (b *Budget) acquire(ctx context.Context, half *semaphore.Weighted, n int64) error {
	if !half.TryAcquire(n) {
		b.waits.Add(1)
		started := time.Now()
		if err := half.Acquire(ctx, n); err != nil {
			b.refusals.Add(1)
			return fmt.Errorf("%w: waited %s for other queries, which use all of %s (%w); make the queries more selective, aggregate more, or raise the limit",
				ErrBudget, time.Since(started).Round(time.Millisecond), b.setting, err)
		}
	}
	b.used.Add(n)
	return nil
}

func (b *Budget) tooLarge(series int) error {
	b.refusals.Add(1)
	return &QueryError{Err: fmt.Errorf("result exceeds %d MiB at series %d, which is the limit of %s for one result; make the query more selective, aggregate more, or raise the limit",
		b.largest()>>20, series, b.setting)}
}
