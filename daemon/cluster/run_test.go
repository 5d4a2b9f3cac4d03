package cluster

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hpad/hpad/daemon"
	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/daemon/state"
)

func newIdle(ttl time.Duration) *Cluster {
	load := func(context.Context) (*config.Config, error) {
		return &config.Config{Daemon: config.DefaultDaemon()}, nil
	}
	return New(Options{Coordinator: viewing{}, TTL: ttl, Load: load})
}

type renewed struct {
	Session
	expires time.Time
	ended   chan struct{}
}

func (r *renewed) Expires() time.Time                   { return r.expires }
func (r *renewed) Ended() <-chan struct{}               { return r.ended }
func (r *renewed) Update(context.Context, Member) error { return nil }

type viewing struct{ Coordinator }

func (viewing) View(context.Context) (View, error)  { return View{}, nil }
func (viewing) Key(context.Context) ([]byte, error) { return NewKey(), nil }

// TestLapsing checks that a lease that is not renewed is reported as a problem before it expires
// and until it is renewed, even if View succeeds.
func TestLapsing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ttl = 15 * time.Second
		c := newIdle(ttl)
		session := &renewed{expires: time.Now().Add(ttl)}
		c.session = session
		for _, step := range []struct {
			wait time.Duration
			want string
		}{{ttl * 2 / 3, ""}, {ttl / 6, "does not renew the lease of 15s"}, {ttl, "does not renew"}} {
			time.Sleep(step.wait)
			c.update(t.Context())
			if _, _, err := c.View(); (err != nil) != (step.want != "") || err != nil && !strings.Contains(err.Error(), step.want) {
				t.Errorf("View() with %s left = %v, want %q", time.Until(session.expires), err, step.want)
			}
		}
		session.expires = time.Now().Add(ttl)
		c.update(t.Context())
		if _, _, err := c.View(); err != nil {
			t.Errorf("View() after a renewal = %v, want no error", err)
		}
	})
}

func TestActsBeforeTheLeaseEnds(t *testing.T) {
	const ttl = 15 * time.Second
	ended := make(chan struct{})
	session := &renewed{expires: time.Now().Add(ttl), ended: ended}
	r := newRun(t.Context(), newIdle(ttl), session, "prod")
	if got := session.expires.Sub(r.until()); got != ttl/5 {
		t.Errorf("changes stop %v before the end of the lease, want %v", got, ttl/5)
	}
	r.term = &counted{Term: fencedTerm{}, in: r.Cluster}
	if err := r.term.Write(t.Context(), nil); !errors.Is(err, state.ErrFenced) {
		t.Fatalf("Write() = %v, want ErrFenced", err)
	}
	if until := r.until(); time.Now().Before(until) {
		t.Errorf("changes are allowed for %v after a rejected write, want 0", time.Until(until))
	}
	r.term = nil
	close(ended)
	if until := r.until(); time.Now().Before(until) {
		t.Errorf("changes are allowed for %v after the end of the membership, want 0", time.Until(until))
	}
}

// fencedTerm is a term that has ended.
type fencedTerm struct{ Term }

func (fencedTerm) Write(context.Context, map[string][]byte) error { return state.ErrFenced }

// numbered is a term with a given number that records whether it was released.
type numbered struct {
	Term
	number   uint64
	released *bool
}

func (n numbered) Number() uint64                { return n.number }
func (n numbered) Release(context.Context) error { *n.released = true; return nil }

type rejoined struct {
	renewed
	term Term
}

func (r *rejoined) Acquire(context.Context, string, string) (Term, error) { return r.term, nil }

type continued struct {
	state.Shared
	times int
}

func (c *continued) Continue(state.Records) { c.times++ }

// TestAdopterIsKept checks that a run knows the adopter of its fleet if the response to the first
// Acquire was lost and the view contains the new term.
func TestAdopterIsKept(t *testing.T) {
	c := newIdle(time.Second)
	c.options.Member.Name = "a"
	for _, now := range []Ownership{{Term: 1, Adopter: "alice"}, {Owner: "a", Term: 2}} {
		c.settleFleet(t.Context(), lost{}, now, "a", nil, "prod")
		r := c.runOf("prod")
		if r.adopter != "alice" {
			t.Errorf("adopter in a run that starts at %+v = %q, want alice", now, r.adopter)
		}
		<-r.done
	}
	r := newRun(t.Context(), c, nil, "prod")
	r.term = &counted{Term: numbered{number: 2}}
	c.settleFleet(t.Context(), lost{}, Ownership{Owner: "a", Term: 2}, "a", r, "prod")
	if len(c.adopters) > 0 {
		t.Errorf("adopters after the takeover = %v, want none", c.adopters)
	}
}

// lost is a Session whose responses are lost.
type lost struct{ Session }

func (lost) Acquire(ctx context.Context, _, _ string) (Term, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestRegain(t *testing.T) {
	for next, goesOn := range map[uint64]bool{4: true, 5: false} {
		c, released, store := newIdle(time.Second), false, &continued{}
		r := newRun(t.Context(), c, nil, "prod")
		r.term, r.store = &counted{Term: numbered{number: 3, released: new(bool)}}, store
		c.regain(t.Context(), &rejoined{term: numbered{number: next, released: &released}}, r)
		if goesOn != (r.ending == "") || goesOn != (store.times == 1) || goesOn == released {
			t.Errorf("term %d after 3: the run ended with %q, its state continued %d times, the term was released: %t; want the run to continue: %t",
				next, r.ending, store.times, released, goesOn)
		}
	}
}

type refusing struct{ renewed }

func (refusing) Acquire(context.Context, string, string) (Term, error) {
	return nil, errors.New("the store does not respond")
}

// TestFailedTakeover checks that a failed takeover does not request an immediate update.
func TestFailedTakeover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newIdle(time.Second)
		c.active.Store(&configuration{})
		r := newRun(t.Context(), c, &refusing{}, "prod")
		c.start(r)
		synctest.Wait()
		if len(c.kick) != 0 {
			t.Error("the failure requested an immediate update")
		}
	})
}

func TestReloadOfEndingRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refusal := errors.New("hpad is stopping")
		refuse := func(_ *daemon.Daemon, ctx context.Context) ([]config.Change, error) {
			select {
			case <-ctx.Done():
			case <-time.After(time.Minute):
			}
			return nil, refusal
		}
		for end, want := range map[string]error{"": refusal, "handed over": nil} {
			r := newRun(t.Context(), newIdle(time.Second), nil, "prod")
			r.daemon.Store(new(daemon.Daemon))
			if end != "" {
				time.AfterFunc(time.Second, func() { r.end(end) })
			}
			if _, err := r.reload(t.Context(), refuse); !errors.Is(err, want) {
				t.Errorf("error of a run that ended with %q = %v, want %v", end, err, want)
			}
			r.cancel()
		}
	})
}

func TestWaitsForDaemon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newIdle(time.Second)
		r := newRun(t.Context(), c, nil, "prod")
		c.runs = map[string]*run{"prod": r}
		f := &clusterView{c, true}
		asked := time.Now()
		if _, _, err := f.findFleet(t.Context(), "prod"); !errors.Is(err, api.ErrRefused) || !strings.Contains(err.Error(), `owns fleet "prod"`) {
			t.Errorf("findFleet() = %v, want %v", err, api.ErrRefused)
		}
		if waited := time.Since(asked); waited != peerTimeout {
			t.Errorf("findFleet() waited for %v, want %v", waited, peerTimeout)
		}
		began := new(daemon.Daemon)
		time.AfterFunc(time.Second, func() { r.daemon.Store(began) })
		if d, _, err := f.findFleet(t.Context(), "prod"); d != began || err != nil {
			t.Errorf("findFleet() = %p, %v, want %p", d, err, began)
		}
	})
}
