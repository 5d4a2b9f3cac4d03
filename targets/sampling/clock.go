package sampling

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/hpad/hpad/targets"
)

// Clock makes passes over what is to be sampled, one every interval, while Ask is
// called. A target is sampled for three intervals after a question for it, or for
// twice the time between the last two where that is longer, so that an autoscaler
// with a long period gets samples too, also beside one with a short period. The Clock
// rests when no target is left and there was no question for as long; the next one
// begins again. It is safe for concurrent use.
type Clock struct {
	interval time.Duration
	pass     func(ctx context.Context, wanted []targets.Ref)
	rest     func()
	ctx      context.Context
	cancel   context.CancelFunc
	loop     sync.WaitGroup

	mu      sync.Mutex
	running bool
	// all are the questions of all targets or none, own those for each target.
	all question
	own map[targets.Ref]question
}

// question is when Ask was called, and how often.
type question struct {
	// last is the time of the last call, counted when gap was found: the time since the
	// call before, where they were no less than an interval apart, and at most
	// longestGap.
	last, counted time.Time
	gap           time.Duration
}

// longestGap is the longest period that autoscalers have.
const longestGap = time.Hour

// again returns the question after another call.
func (q question) again(now time.Time, interval time.Duration) question {
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

// stands reports whether samples are still wanted.
func (q question) stands(now time.Time, interval time.Duration) bool {
	return now.Sub(q.last) <= max(3*interval, 2*q.gap)
}

// NewClock returns a Clock that does nothing until Ask is called. The interval is
// more than 0.
//
// Pass samples once, at the first question and then at every interval; a pass
// that takes longer leaves out those in between. No two run at once. Wanted are
// the targets with lasting questions, in no order, and ctx ends at Close.
//
// Rest forgets what is not to be known when sampling begins again; nil forgets
// nothing. It runs between the last pass and the next question, and must not call the
// Clock, nor take a lock under which the Clock is called.
func NewClock(interval time.Duration, pass func(ctx context.Context, wanted []targets.Ref), rest func()) *Clock {
	c := &Clock{interval: interval, pass: pass, rest: rest, own: map[targets.Ref]question{}}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c
}

// Validity returns how old a sample may be, and how long it may cover.
func (c *Clock) Validity() time.Duration { return 2*c.interval + 5*time.Second }

// Ask keeps or begins the sampling of these targets. It does not wait for a pass. It
// returns false once the Clock is closed.
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

// Inherit takes over the questions of an older Clock. It is called before the first
// own one.
func (c *Clock) Inherit(older *Clock) {
	older.mu.Lock()
	all, own := older.all, maps.Clone(older.own)
	older.mu.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all, c.own = all, own
}

// Running reports whether the Clock makes passes, rather than rests.
func (c *Clock) Running() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.running
}

// Close ends the sampling, and returns once no pass is under way.
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

// lately returns the targets that are still wanted, and forgets those that have not
// been for long.
func (c *Clock) lately(now time.Time) []targets.Ref {
	c.mu.Lock()
	defer c.mu.Unlock()
	refs := make([]targets.Ref, 0, len(c.own))
	for ref, q := range c.own {
		switch {
		case q.stands(now, c.interval):
			refs = append(refs, ref)
		case now.Sub(q.last) > 2*longestGap:
			delete(c.own, ref)
		}
	}
	return refs
}

// idle rests if nothing was wanted for long enough, and reports whether it does.
func (c *Clock) idle(now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all.stands(now, c.interval) {
		return false
	}
	for _, q := range c.own {
		if q.stands(now, c.interval) {
			return false
		}
	}
	c.running = false
	if c.rest != nil {
		c.rest()
	}
	return true
}
