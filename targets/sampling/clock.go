package sampling

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/hpad/hpad/targets"
)

// Clock runs passes at an interval as long as Ask is called. A target is sampled for three
// intervals after a call of Ask, or for twice the time between the last two calls if that is
// longer, so that autoscalers with a long period get samples. The Clock pauses when no target
// is in demand, and the next call of Ask resumes it. It is safe for concurrent use.
type Clock struct {
	interval time.Duration
	pass     func(ctx context.Context, wanted []targets.Ref)
	rest     func()
	ctx      context.Context
	cancel   context.CancelFunc
	loop     sync.WaitGroup

	mu      sync.Mutex
	running bool
	// all is the total demand, and own maps each target to its demand.
	all demand
	own map[targets.Ref]demand
}

// demand records the times of the calls of Ask.
type demand struct {
	// last is the time of the last call. counted is the time of the last call that came at least
	// an interval after the previously counted call, and gap is the time between those two, at
	// most longestGap.
	last, counted time.Time
	gap           time.Duration
}

// longestGap is the longest period of autoscalers.
const longestGap = time.Hour

// again returns the demand after a further call.
func (q demand) again(now time.Time, interval time.Duration) demand {
	since := now.Sub(q.counted)
	if !q.counted.IsZero() && since >= interval {
		q.gap = min(since, longestGap)
	}
	if q.counted.IsZero() || since >= interval {
		q.counted = now
	}
	q.last = now
	return q
}

// lasts reports whether samples are still in demand.
func (q demand) lasts(now time.Time, interval time.Duration) bool {
	return now.Sub(q.last) <= max(3*interval, 2*q.gap)
}

// NewClock returns a Clock that starts at the first call of Ask. The interval must be positive.
//
// pass runs at the first call and then at every interval. If it takes longer than an interval,
// passes are skipped; passes never overlap. wanted contains the targets in demand, in no order.
// Close cancels ctx.
//
// rest may be nil. It runs after the last pass before a pause, to discard values that must not
// survive the pause. It must not call the Clock, nor take a lock under which the Clock is
// called.
func NewClock(interval time.Duration, pass func(ctx context.Context, wanted []targets.Ref), rest func()) *Clock {
	c := &Clock{interval: interval, pass: pass, rest: rest, own: map[targets.Ref]demand{}}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c
}

// Validity returns the maximum age of a sample, which is also the longest time that it may
// cover.
func (c *Clock) Validity() time.Duration { return 2*c.interval + 5*time.Second }

// Ask requests samples of some targets. It does not wait for a pass. It returns false after
// Close.
func (c *Clock) Ask(refs []targets.Ref, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx.Err() != nil {
		return false
	}
	c.all = c.all.again(now, c.interval)
	for _, ref := range refs {
		c.own[ref] = c.own[ref].again(now, c.interval)
	}
	if !c.running {
		c.running = true
		c.loop.Go(c.run)
	}
	return true
}

// Inherit copies the demand of an older Clock, before the first call of Ask.
func (c *Clock) Inherit(older *Clock) {
	older.mu.Lock()
	all, own := older.all, maps.Clone(older.own)
	older.mu.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all, c.own = all, own
}

// Running reports whether the Clock is not paused.
func (c *Clock) Running() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.running
}

// Close stops the Clock and waits for a pass in progress.
func (c *Clock) Close() {
	c.mu.Lock()
	c.cancel()
	c.mu.Unlock()
	c.loop.Wait()
}

func (c *Clock) run() {
	ticker := time.NewTicker(c.interval)
	defer ticker.Stop()
	for c.ctx.Err() == nil {
		c.pass(c.ctx, c.lately(time.Now()))
		select {
		case now := <-ticker.C:
			if c.idle(now) {
				return
			}
		case <-c.ctx.Done():
		}
	}
}

// lately returns the targets in demand, and deletes old demand.
func (c *Clock) lately(now time.Time) []targets.Ref {
	c.mu.Lock()
	defer c.mu.Unlock()
	refs := make([]targets.Ref, 0, len(c.own))
	for ref, q := range c.own {
		switch {
		case q.lasts(now, c.interval):
			refs = append(refs, ref)
		case now.Sub(q.last) > 2*longestGap:
			delete(c.own, ref)
		}
	}
	return refs
}

// idle pauses the Clock if there is no demand, and reports whether it paused.
func (c *Clock) idle(now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all.lasts(now, c.interval) {
		return false
	}
	for _, q := range c.own {
		if q.lasts(now, c.interval) {
			return false
		}
	}
	c.running = false
	if c.rest != nil {
		c.rest()
	}
	return true
}
