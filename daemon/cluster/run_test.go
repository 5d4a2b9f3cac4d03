package cluster

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

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
