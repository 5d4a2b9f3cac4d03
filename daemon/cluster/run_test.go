package cluster

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hpad/hpad/daemon"
	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/daemon/state"
)

// answering is a term whose writes have an outcome.
type answering struct {
	Term
	err error
}

func (t answering) Write(context.Context, map[string][]byte) error { return t.err }

// TestFencedWritesAreCounted holds that of the writes that fail those are counted that
// came after the term.
func TestFencedWritesAreCounted(t *testing.T) {
	c := New(Options{})
	for _, err := range []error{nil, errors.New("no quorum"), fmt.Errorf("term 3: %w", state.ErrFenced)} {
		if got := (counted{answering{err: err}, c}).Write(t.Context(), nil); !errors.Is(got, err) {
			t.Errorf("the error is %v, want %v", got, err)
		}
	}
	if got := c.standing().Fenced; got != 1 {
		t.Errorf("%d writes were fenced, want 1", got)
	}
}

// TestOwnedOfNewParts holds that parts that were never seen owned bound the time that may have
// passed by the fleet's other shards.
func TestOwnedOfNewParts(t *testing.T) {
	c := New(Options{})
	p := divide(&config.Config{Daemon: config.DefaultDaemon()}, 0, layout{"prod": 2})
	c.parts.Store(&p)
	now := time.Now()
	c.owned = map[string]time.Time{"prod": now.Add(-time.Hour), "prod~": now.Add(-time.Minute), "prod~2-2": now.Add(-2 * time.Hour), "prod2": now}
	r := newRun(t.Context(), c, nil, "prod", nil)
	r.owned = c.ownedOf("prod")
	period := p.whole.Daemon.SyncPeriod
	if got := r.longest("prod~1-2") - period; got < time.Minute || got > 2*time.Minute {
		t.Errorf("a new part was written %s ago at most, want the lock's minute", got)
	}
	if got := r.longest("prod~2-2") - period; got < 2*time.Hour {
		t.Errorf("a part that was seen was written %s ago at most, want its own two hours", got)
	}
	if c.owned = nil; c.ownedOf("prod")["prod~1-2"] != (time.Time{}) {
		t.Error("a fleet that was never seen has a bound")
	}
}

// renewed is a membership of a lease that is never over.
type renewed struct {
	Session
	expires time.Time
}

func (r *renewed) Expires() time.Time                   { return r.expires }
func (r *renewed) Ended() <-chan struct{}               { return nil }
func (r *renewed) Update(context.Context, Member) error { return nil }

// viewing is a coordinator whose View succeeds.
type viewing struct{ Coordinator }

func (viewing) View(context.Context) (View, error) { return View{}, nil }

// TestLapsing holds that a lease that is not renewed is a problem before it is over, also
// where View succeeds, and until it is renewed.
func TestLapsing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ttl = 15 * time.Second
		c := New(Options{Coordinator: viewing{}, TTL: ttl})
		p := divide(&config.Config{Daemon: config.DefaultDaemon()}, 0, layout{})
		c.parts.Store(&p)
		session := &renewed{expires: time.Now().Add(ttl)}
		c.session = session
		for _, step := range []struct {
			wait time.Duration
			want string
		}{{ttl * 2 / 3, ""}, {ttl / 6, "has not renewed the lease of 15s"}, {ttl, "has not renewed"}} {
			time.Sleep(step.wait)
			c.look(t.Context())
			if _, _, err := c.View(); (err != nil) != (step.want != "") || err != nil && !strings.Contains(err.Error(), step.want) {
				t.Errorf("with %s left the problem is %v, want %q", time.Until(session.expires), err, step.want)
			}
		}
		session.expires = time.Now().Add(ttl)
		c.look(t.Context())
		if _, _, err := c.View(); err != nil {
			t.Errorf("after a renewal the problem is %v", err)
		}
	})
}

// TestWaitsForDaemon holds that who asks for a fleet that this member has begun to own waits
// for its daemon, and is told where that takes too long.
func TestWaitsForDaemon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(Options{})
		p := divide(&config.Config{Daemon: config.DefaultDaemon()}, 0, layout{})
		c.parts.Store(&p)
		r := newRun(t.Context(), c, nil, "prod", []string{"prod"})
		c.runs = map[string]*run{"prod": r}
		f := &face{c, true}
		asked := time.Now()
		if _, _, err := f.of(t.Context(), "prod"); !errors.Is(err, api.ErrRefused) || !strings.Contains(err.Error(), `yet to begin to run fleet "prod"`) {
			t.Errorf("the error is %v, want %v", err, api.ErrRefused)
		}
		if waited := time.Since(asked); waited != askWait {
			t.Errorf("it was waited for %v, want %v", waited, askWait)
		}
		began := new(daemon.Daemon)
		r.held = map[string]Term{"prod": answering{}}
		time.AfterFunc(time.Second, func() { r.daemon.Store(began) })
		if d, _, err := f.of(t.Context(), "prod"); d != began || err != nil {
			t.Errorf("the daemon is %p, %v, want %p", d, err, began)
		}
	})
}
