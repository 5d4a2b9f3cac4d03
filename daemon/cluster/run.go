package cluster

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/hpad/hpad/daemon"
	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/daemon/graph"
	"github.com/hpad/hpad/daemon/metrics"
	"github.com/hpad/hpad/daemon/state"
)

// run is a shard that this member owns, from before it does until all of it has ended.
type run struct {
	*Cluster
	shard    string
	ctx      context.Context
	cancel   context.CancelFunc
	log      *zap.Logger
	metrics  *metrics.Metrics
	gatherer prometheus.Gatherer
	daemon   atomic.Pointer[daemon.Daemon]
	done     chan struct{}

	mu      sync.Mutex
	session Session
	// term is nil until the shard is owned, and store until it is open.
	term  Term
	store state.Shared
	// ending is why it ends; empty while it does not.
	ending string
	// owned is when the shard was last seen to have an owner; zero where it never was.
	owned time.Time
}

func newRun(ctx context.Context, c *Cluster, session Session, shard string) *run {
	r := &run{Cluster: c, shard: shard, session: session, log: c.log.With(zap.String("fleet", shard)), done: make(chan struct{})}
	r.metrics, r.gatherer = c.options.Daemon.Metrics.Shard(shard)
	r.ctx, r.cancel = context.WithCancel(ctx)
	return r
}

// run owns the shard and runs its daemon until it is ended. An error is why this member
// cannot run it; that somebody else has it is none.
func (r *run) run() error {
	defer r.cancel()
	call, cancel := r.call(r.ctx)
	term, err := r.session.Acquire(call, r.shard, r.parts.Load().identities[r.shard])
	cancel()
	switch {
	case errors.Is(err, ErrTaken), errors.Is(err, ErrOtherwise), r.ctx.Err() != nil && err != nil:
		return nil
	case err != nil:
		r.log.Warn("a fleet cannot be taken over", zap.NamedError("err", err))
		return nil // the store's trouble is not the shard's
	}
	defer r.release()
	r.terms.Add(1)
	term = counted{term, r.Cluster}
	r.mu.Lock()
	r.term = term
	r.mu.Unlock()
	r.log.Info("owner of a fleet", zap.Uint64("term", term.Number()))
	if err := r.serve(term); err != nil && r.ctx.Err() == nil && !errors.Is(err, state.ErrFenced) {
		r.log.Error("a fleet cannot be run, and is left to other members for a while", zap.NamedError("err", err))
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.log.Info("no owner of the fleet any more", zap.String("reason", r.ending))
	return nil
}

// counted is a term of which the writes are counted that come after it.
type counted struct {
	Term
	in *Cluster
}

// Write is as [state.Records] has it.
func (c counted) Write(ctx context.Context, values map[string][]byte) error {
	err := c.Term.Write(ctx, values)
	if errors.Is(err, state.ErrFenced) {
		c.in.fenced.Add(1)
	}
	return err
}

// serve runs the daemon of the shard with the state that the last owner left.
func (r *run) serve(term Term) (err error) {
	dir := r.dir(r.shard)
	r.closeArchive(r.shard)
	files := r.options.State
	files.Log = r.log
	load, cancel := context.WithTimeout(r.ctx, loadWait)
	store, err := state.OpenShared(load, dir, term, r.options.TTL/callShare, files)
	cancel()
	if err != nil {
		return fmt.Errorf("open the state of fleet %q: %w", r.shard, err)
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	options := r.options.Daemon
	options.Store, options.Log = store, r.log
	options.Load = func() (*config.Config, error) {
		p := r.loaded()
		if c := p.shards[r.shard]; c != nil {
			return c, nil
		}
		return part(p.whole), nil // until the loop ends it
	}
	options.Until, options.Notify, options.WatchdogInterval = r.until, nil, 0
	options.Metrics = r.metrics
	options.Clock.Shared = true
	if !r.owned.IsZero() { // the last owner wrote in each of its rounds
		options.Clock.Longest = time.Since(r.owned) + r.parts.Load().whole.Daemon.SyncPeriod
	}
	if options.Graph != nil {
		options.Graph = graph.New(filepath.Join(dir, "graph.db"), r.log, r.metrics.LostPoints)
	}
	d := daemon.New(options)
	r.mu.Lock()
	r.store = store
	r.mu.Unlock()
	r.daemon.Store(d)
	defer r.daemon.Store(nil)
	return d.Run(r.ctx)
}

// until is until when the shard's platform may be asked.
func (r *run) until() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	if isClosed(r.session.Ended()) {
		return time.Now()
	}
	return r.session.Expires().Add(-r.options.TTL / marginShare)
}

// isRunning reports whether the shard is owned and its daemon runs.
func (r *run) isRunning() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.store != nil && r.ending == ""
}

func (r *run) number() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.term.Number()
}

// goOn goes on under a later term of the same member.
func (r *run) goOn(session Session, term Term) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.session, r.term = session, counted{term, r.Cluster}
	r.store.Continue(r.term)
}

// end ends the run, for a reason, without waiting for it.
func (r *run) end(reason string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ending == "" {
		r.ending = reason
	}
	r.cancel()
}

// configure tells under which configuration the shard is owned from now on.
func (r *run) configure(ctx context.Context, identity string) error {
	r.mu.Lock()
	term := r.term
	r.mu.Unlock()
	if term == nil || identity == "" {
		return nil
	}
	call, cancel := r.call(ctx)
	defer cancel()
	return term.Configure(call, identity)
}

// release lets others have the shard.
func (r *run) release() {
	r.mu.Lock()
	term := r.term
	r.mu.Unlock()
	call, cancel := r.call(context.Background())
	defer cancel()
	if err := term.Release(call); err != nil {
		r.log.Warn("let go of a fleet; others take it over once the lease is over", zap.NamedError("err", err))
	}
}
