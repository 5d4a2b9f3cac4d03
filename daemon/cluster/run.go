package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
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
	"github.com/hpad/hpad/settings"
)

const (
	// A member stops scaling when TTL/marginShare, a fifth of the lease, remains.
	marginShare = 5
	// After a member failed to run a fleet, it leaves the fleet to the other members for unfitFor.
	// Until reserveFor, it takes the fleet over only if no other member can.
	unfitFor   = 15 * time.Second
	reserveFor = 10 * time.Minute
	loadWait   = time.Minute
)

// run represents this member running one fleet. It starts before the member acquires the fleet
// and ends after the member has released it.
type run struct {
	*Cluster
	fleet    string
	ctx      context.Context
	cancel   context.CancelFunc
	log      *zap.Logger
	metrics  *metrics.Metrics
	gatherer prometheus.Gatherer
	daemon   atomic.Pointer[daemon.Daemon]
	done     chan struct{}
	// adopter is the user who adopted the fleet before this run, or empty.
	adopter string
	// former is the last owner of the fleet before this run, or empty.
	former string
	// owned is the last time before this run when this member saw an owner of the fleet, or zero if
	// it saw none.
	owned time.Time

	mu      sync.Mutex
	session Session
	// term is nil before the fleet is acquired. store is nil before it is opened.
	term   *counted
	store  state.Shared
	ending string
}

func newRun(ctx context.Context, c *Cluster, session Session, fleet string) *run {
	r := &run{Cluster: c, fleet: fleet, session: session, log: c.log.With(zap.String("fleet", fleet)), done: make(chan struct{})}
	r.metrics, r.gatherer = c.options.Daemon.Metrics.Shard(fleet)
	r.ctx, r.cancel = context.WithCancel(ctx)
	return r
}

// run acquires the fleet and runs its daemon until the run is ended. If this member fails to run
// the fleet or to read its state, run returns the error, and the member leaves the fleet to the
// other members for unfitFor.
func (r *run) run() error {
	defer r.cancel()
	defer r.release()
	active := r.active.Load()
	if err := r.acquire(active.identities[r.fleet]); err != nil {
		if r.ctx.Err() == nil && !errors.Is(err, ErrTaken) && !errors.Is(err, ErrConfigurationDiffers) {
			r.log.Warn("fleet takeover failed", zap.NamedError("err", err))
		}
		return nil // the next update tries again
	}
	if r.active.Load() != active { // a concurrent reload did not see this term
		if err := r.configure(r.ctx); err != nil {
			r.log.Warn("publishing the configuration failed", zap.NamedError("err", err))
		}
	}
	r.updateSoon() // so that the view shows the new owner
	r.log.Info("fleet acquired", zap.Uint64("term", r.currentTerm().Number()))
	if err := r.serve(); err != nil && r.ctx.Err() == nil && !errors.Is(err, state.ErrFenced) {
		r.log.Error("fleet failed, left to other members", zap.NamedError("err", err))
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.log.Info("fleet released", zap.String("reason", r.ending))
	return nil
}

func (r *run) acquire(identity string) error {
	call, cancel := r.call(r.ctx)
	defer cancel()
	term, err := r.session.Acquire(call, r.fleet, identity)
	if err != nil {
		return err
	}
	r.begun.Add(1)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.term = &counted{Term: term, in: r.Cluster}
	return nil
}

func (r *run) currentTerm() Term {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.term == nil {
		return nil
	}
	return r.term
}

// counted is a Term that counts the writes that the store has rejected because the term has ended.
type counted struct {
	Term
	in     *Cluster
	fenced atomic.Bool
}

func (c *counted) Write(ctx context.Context, values map[string][]byte) error {
	err := c.Term.Write(ctx, values)
	if errors.Is(err, state.ErrFenced) {
		c.in.fenced.Add(1)
		c.fenced.Store(true)
	}
	return err
}

// longest returns the maximum time since the last owner's last write to the state, or 0 if it is
// unknown. An owner writes the state in every round, and remains the owner for up to a TTL after it
// loses the connection to the store.
func (r *run) longest() time.Duration {
	if r.owned.IsZero() {
		return 0
	}
	active := r.active.Load()
	period := active.whole.Daemon.SyncPeriod
	if fleet := active.fleets[r.fleet]; fleet != nil && len(fleet.Autoscalers) > 0 {
		shortest := func(a, b *config.Autoscaler) int { return cmp.Compare(a.SyncPeriod, b.SyncPeriod) }
		period = slices.MinFunc(slices.Collect(maps.Values(fleet.Autoscalers)), shortest).SyncPeriod
	}
	return time.Since(r.owned) + r.options.TTL + period
}

// serve opens the fleet's stored state and runs its daemon.
func (r *run) serve() (err error) {
	dir := r.dir(r.fleet)
	r.closeArchive(r.fleet)
	files := r.options.State
	files.Log = r.log
	load, cancel := context.WithTimeout(r.ctx, loadWait)
	store, err := state.OpenShared(load, dir, r.currentTerm(), r.options.TTL/callShare, files)
	cancel()
	if err != nil {
		return fmt.Errorf("open the state of fleet %q: %w", r.fleet, err)
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	options := r.options.Daemon
	options.Store, options.Log, options.Adopter = store, r.log, r.adopter
	if me := r.options.Member.Name; r.former != "" && r.former != me {
		options.Takeover = &settings.Takeover{Member: me, From: r.former}
	}
	loaded := r.active.Load // a daemon that is starting ignores the configuration of a concurrent reload
	options.Load = func(context.Context) (*config.Config, error) {
		c := loaded()
		loaded = r.loaded
		if of := c.fleets[r.fleet]; of != nil {
			return of, nil
		}
		return emptied(c.whole), nil // the next update ends the run
	}
	options.Until, options.LeaseProblem = r.until, r.storeProblem
	options.Pause, options.Notify, options.WatchdogInterval, options.Probe = r.pauseAtStart, nil, 0, nil
	options.Metrics, options.StoreTimeout = r.metrics, r.options.TTL/callShare
	options.Clock.Shared, options.Clock.Longest = true, r.longest()
	if options.Graph != nil {
		options.Graph = graph.New(filepath.Join(dir, graphFile), r.log, r.metrics.LostPoints)
	}
	d := daemon.New(options)
	r.mu.Lock()
	r.store = store
	r.mu.Unlock()
	r.daemon.Store(d)
	defer r.daemon.Store(nil)
	return d.Run(r.ctx)
}

// until returns the time until which this member may change the platform. If the store has rejected
// a write of the term, this time is in the past.
func (r *run) until() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	if isClosed(r.session.Ended()) || r.term != nil && r.term.fenced.Load() {
		return time.Now()
	}
	return r.session.Expires().Add(-r.options.TTL / marginShare)
}

// isRunning reports whether the fleet's store is open and the run has not been ended.
func (r *run) isRunning() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.store != nil && r.ending == ""
}

// isOver reports whether the run has not opened its store and never will, because it belongs to
// an earlier session.
func (r *run) isOver(now Session) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.store == nil && r.session != now
}

// resume continues the run in a later term of this member.
func (r *run) resume(session Session, term Term) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.session, r.term = session, &counted{Term: term, in: r.Cluster}
	r.store.Continue(r.term)
}

// end ends the run without waiting for it. reason is for the log.
func (r *run) end(reason string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ending == "" {
		r.ending = reason
	}
	r.cancel()
}

// reload calls do with the daemon of the run. If the run ends in the meantime, reload returns no
// error, because the next owner starts with the new configuration anyway.
func (r *run) reload(ctx context.Context, do func(*daemon.Daemon, context.Context) ([]config.Change, error)) ([]config.Change, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(r.ctx, cancel)()
	d := r.daemon.Load()
	if d == nil {
		return nil, nil
	}
	changes, err := do(d, ctx)
	if err != nil && r.ctx.Err() != nil {
		return nil, nil
	}
	return changes, err
}

func (r *run) configure(ctx context.Context) error {
	term, identity := r.currentTerm(), r.active.Load().identities[r.fleet]
	if term == nil || identity == "" {
		return nil
	}
	call, cancel := r.call(ctx)
	defer cancel()
	return term.Configure(call, identity)
}

func (r *run) release() {
	term := r.currentTerm()
	if term == nil {
		return
	}
	call, cancel := r.call(context.Background())
	defer cancel()
	if err := term.Release(call); err != nil {
		r.log.Warn("releasing the fleet failed", zap.NamedError("err", err))
	}
}
