package sampling

import (
	"context"
	"sync"
	"time"

	"github.com/hpad/hpad/targets"
)

// Clock makes passes over what is to be sampled, one every interval, while
// somebody asks for samples. It rests when it was not asked for three intervals,
// or for twice the time between the last two questions where that is longer, so
// that an autoscaler with a long period gets samples too; the next question
// begins again. It is safe for concurrent use.
//
// A sampler that guards its samples with a lock of its own calls Ask, Inherit and
// Close without holding it: the Clock calls rest with its own lock held.
type Clock struct {
	interval time.Duration
	pass     func(ctx context.Context, wanted []targets.Ref)
	rest     func()
	ctx      context.Context
	cancel   context.CancelFunc
	loop     sync.WaitGroup

	mu      sync.Mutex
	running bool
	asked   time.Time
	gap     time.Duration
	// wanted are the targets whose samples are asked for, and when they last were.
	wanted map[targets.Ref]time.Time
}

// NewClock answers a Clock that does nothing until it is asked. The interval is
// more than 0.
//
// Pass samples once, at the first question and then at every interval; a pass
// that takes longer leaves out those in between. No two run at once. Wanted are
// the targets that were asked for lately, in no order, and ctx ends at Close.
//
// Rest forgets what is not to be known when sampling begins again; nil forgets
// nothing. It runs after the last pass has returned and before a question can
// begin the next; it must not call the Clock.
func NewClock(interval time.Duration, pass func(ctx context.Context, wanted []targets.Ref), rest func()) *Clock {
	c := &Clock{interval: interval, pass: pass, rest: rest, wanted: map[targets.Ref]time.Time{}}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c
}

// Validity is how old a sample may be to be answered, and how long it may cover.
func (c *Clock) Validity() time.Duration { return 2*c.interval + 5*time.Second }

// Ask says that the samples of these targets are wanted, and begins to sample
// when nobody has asked for a while. It does not wait for a pass. False says that
// the Clock is closed.
func (c *Clock) Ask(refs []targets.Ref, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx.Err() != nil {
		return false
	}
	if !c.asked.IsZero() {
		c.gap = now.Sub(c.asked)
	}
	c.asked = now
	for _, ref := range refs {
		c.wanted[ref] = now
	}
	if !c.running {
		c.running = true
		c.loop.Go(c.run)
	}
	return true
}

// Inherit takes over when an older Clock was asked, so that the first question
// knows the one before. It is called before that.
func (c *Clock) Inherit(older *Clock) {
	older.mu.Lock()
	asked, gap := older.asked, older.gap
	older.mu.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked, c.gap = asked, gap
}

// Running says whether the Clock makes passes: it was asked and does not rest.
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

// lately answers the targets that are still wanted.
func (c *Clock) lately(now time.Time) []targets.Ref {
	c.mu.Lock()
	defer c.mu.Unlock()
	refs := make([]targets.Ref, 0, len(c.wanted))
	for ref, asked := range c.wanted {
		if now.Sub(asked) > c.patience() {
			delete(c.wanted, ref)
			continue
		}
		refs = append(refs, ref)
	}
	return refs
}

// idle says whether nobody asked for long enough to rest, and rests if so.
func (c *Clock) idle(now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now.Sub(c.asked) <= c.patience() {
		return false
	}
	c.running = false
	if c.rest != nil {
		c.rest()
	}
	return true
}

// patience is how long a target is sampled, or the sampling goes on, that nobody
// asks for. The caller holds the lock.
func (c *Clock) patience() time.Duration { return max(3*c.interval, 2*c.gap) }
