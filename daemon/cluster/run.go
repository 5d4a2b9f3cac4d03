package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
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
	"github.com/hpad/hpad/targets"
)

// run is a fleet that this member owns, or the parts of it that it owns, from before it
// does until all of it has ended.
type run struct {
	*Cluster
	fleet string
	// shards are those that it sets out to own, of the n parts that the fleet is in.
	shards []string
	n      int
	// into is into how many parts it divides the fleet instead of running it; 0 for none.
	into     int
	ctx      context.Context
	cancel   context.CancelFunc
	log      *zap.Logger
	metrics  *metrics.Metrics
	gatherer prometheus.Gatherer
	daemon   atomic.Pointer[daemon.Daemon]
	done     chan struct{}

	mu      sync.Mutex
	session Session
	// held are the terms of the shards that are owned, nil before any is, and store is nil
	// until it is open.
	held  map[string]Term
	store state.Shared
	// ending is why it ends; empty while it does not.
	ending string
	// owned is when shards were last seen to have an owner; zero where none of the fleet ever was.
	owned map[string]time.Time
}

func newRun(ctx context.Context, c *Cluster, session Session, fleet string, shards []string) *run {
	r := &run{Cluster: c, fleet: fleet, shards: shards, n: c.parts.Load().layout.of(fleet), session: session, log: c.log.With(zap.String("fleet", fleet)), done: make(chan struct{})}
	r.metrics, r.gatherer = c.options.Daemon.Metrics.Shard(fleet)
	r.ctx, r.cancel = context.WithCancel(ctx)
	return r
}

// run owns the shards and runs their daemon until it is ended. It returns for how long this
// member is to leave the fleet to others, since it cannot run it, or cannot read its state.
func (r *run) run() time.Duration {
	defer r.cancel()
	defer r.release()
	if r.into > 0 {
		r.divideAnew()
		return 0
	}
	p := r.parts.Load()
	for _, shard := range r.shards {
		if err := r.acquire(shard, p.identities[shard]); err != nil && !errors.Is(err, ErrTaken) && !errors.Is(err, ErrOtherwise) {
			if r.ctx.Err() == nil {
				r.log.Warn("a fleet cannot be taken over", zap.NamedError("err", err))
			}
			return 0 // at the next look
		}
	}
	held := r.terms()
	if len(held) == 0 {
		return 0
	}
	is, err := false, r.passLock()
	if err == nil {
		is, err = r.isLaidOut()
	}
	if err != nil || !is {
		if err != nil && r.ctx.Err() == nil {
			r.log.Warn("a fleet cannot be taken over", zap.NamedError("err", err))
		}
		return 0
	}
	if now := r.parts.Load(); now != p { // a reload that did not see these terms
		if err := r.configure(r.ctx, now.identities); err != nil {
			r.log.Warn("the cluster does not know of a new configuration yet", zap.NamedError("err", err))
		}
	}
	for shard, term := range held {
		r.log.Info("owner of a fleet", zap.String("shard", shard), zap.Uint64("term", term.Number()))
	}
	if err := r.serve(held); err != nil && r.ctx.Err() == nil && !errors.Is(err, state.ErrFenced) {
		if _, is := errors.AsType[storeError](err); is || !time.Now().Before(r.until()) { // which is not the fleet's trouble
			r.log.Warn("a fleet cannot be taken over", zap.NamedError("err", err))
			return unreadFor
		}
		r.log.Error("a fleet cannot be run, and is left to other members for a while", zap.NamedError("err", err))
		return unfitFor
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.log.Info("no owner of the fleet any more", zap.String("reason", r.ending))
	return 0
}

// acquire makes this member the owner of a shard.
func (r *run) acquire(shard, identity string) error {
	call, cancel := r.call(r.ctx)
	defer cancel()
	term, err := r.session.Acquire(call, shard, identity)
	if err != nil {
		return err
	}
	r.begun.Add(1)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.held == nil {
		r.held = map[string]Term{}
	}
	r.held[shard] = counted{term, r.Cluster}
	return nil
}

// passLock owns the lock of the fleet for a moment, where there is one: what was written of it
// in an earlier term, and is on its way, is refused from then on.
func (r *run) passLock() error {
	view, err := r.viewNow(r.ctx)
	lock := r.fleet + partMark
	if err != nil || view.Shards[lock].Term == 0 {
		return err
	}
	call, cancel := r.call(r.ctx)
	defer cancel()
	for {
		term, err := r.session.Acquire(call, lock, view.Shards[lock].Configuration)
		if err == nil {
			return term.Release(call)
		}
		if !errors.Is(err, ErrTaken) { // by who runs other parts, for a moment as well
			return err
		}
		select {
		case <-time.After(passEvery):
		case <-call.Done():
			return err
		}
	}
}

// isLaidOut reports whether the fleet is divided as this member has it. It is asked once
// shards are owned: while they are, nobody can divide the fleet otherwise.
func (r *run) isLaidOut() (bool, error) {
	view, err := r.viewNow(r.ctx)
	return err == nil && layoutOf(view).of(r.fleet) == r.n, err
}

// terms returns those of the shards that are owned.
func (r *run) terms() map[string]Term {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.held)
}

// counted is a term of which the writes are counted that come after it, and whose errors are
// storeErrors.
type counted struct {
	Term
	in *Cluster
}

// storeError is an error of the store, which says nothing of what is in it.
type storeError struct{ error }

func (e storeError) Unwrap() error { return e.error }

// Write is as [state.Records] has it.
func (c counted) Write(ctx context.Context, values map[string][]byte) error {
	err := c.Term.Write(ctx, values)
	if errors.Is(err, state.ErrFenced) {
		c.in.fenced.Add(1)
	}
	if err != nil {
		err = storeError{err}
	}
	return err
}

// Load is as [state.Records] has it.
func (c counted) Load(ctx context.Context, keep func(key string, value []byte) error) error {
	var refusal error
	err := c.Term.Load(ctx, func(key string, value []byte) error {
		refusal = keep(key, value)
		return refusal
	})
	if err != nil && refusal == nil {
		err = storeError{err}
	}
	return err
}

// records returns what the members have of the shards that are owned, as one.
func (r *run) records(held map[string]Term) state.Records {
	if term := held[r.fleet]; term != nil { // it is not divided
		return term
	}
	all := make(map[string]state.PartRecords, len(held))
	for shard, term := range held {
		all[strings.TrimPrefix(shard, r.fleet+partMark)] = state.PartRecords{Records: term, Longest: r.longest(shard)}
	}
	return state.Joined(all, func(autoscaler string) string {
		return strings.TrimPrefix(shardName(r.fleet, partNumber(autoscaler, r.n), r.n), r.fleet+partMark)
	})
}

// longest returns how long ago the last owner of a shard wrote its state at most: it wrote in
// each of its rounds. It is 0 where that is not known.
func (r *run) longest(shard string) time.Duration {
	if r.owned[shard].IsZero() {
		return 0
	}
	return time.Since(r.owned[shard]) + r.parts.Load().whole.Daemon.SyncPeriod
}

// parted is the state of a divided fleet.
type parted struct {
	state.Store
	in *run
}

// Fleet is as [state.Store] has it.
func (p parted) Fleet(name string) targets.Store { return partedStore{p.Store.Fleet(name), p.in, name} }

// partedStore is a [targets.PartedStore].
type partedStore struct {
	targets.Store
	in    *run
	fleet string
}

// Part is as [targets.PartedStore] has it.
func (p partedStore) Part(target string) string {
	shard := p.in.parts.Load().shardOfTarget(targets.Ref{Fleet: p.fleet, Name: target}, nil, p.in.n)
	return strings.TrimPrefix(shard, p.fleet)
}

// serve runs the daemon of shards with the state that the last owners left.
func (r *run) serve(held map[string]Term) (err error) {
	dir := r.dir(r.fleet)
	r.closeArchive(r.fleet)
	files := r.options.State
	files.Log = r.log
	load, cancel := context.WithTimeout(r.ctx, loadWait)
	store, err := state.OpenShared(load, dir, r.records(held), r.options.TTL/callShare, files)
	cancel()
	if err != nil {
		return fmt.Errorf("open the state of fleet %q: %w", r.fleet, err)
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	options := r.options.Daemon
	options.Store, options.Log, options.Snapshot = store, r.log, filepath.Join(dir, "configuration.json")
	if held[r.fleet] == nil {
		options.Store = parted{store, r}
	}
	shards := slices.Sorted(maps.Keys(held))
	loaded := r.parts.Load // at first: what a reload tries meanwhile is not for those that begin
	options.Load = func() (*config.Config, error) {
		p := loaded()
		loaded = r.loaded
		if c := p.of(r.fleet, shards, r.n); c != nil {
			return c, nil
		}
		return part(p.whole), nil // until the loop ends it
	}
	options.Until, options.Notify, options.WatchdogInterval = r.until, nil, 0
	options.Metrics = r.metrics
	options.Clock.Shared = true
	for shard := range held {
		if longest := r.longest(shard); options.Clock.Longest == 0 || longest > 0 && longest < options.Clock.Longest {
			options.Clock.Longest = longest
		}
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

// isRunning reports whether shards are owned and their daemon runs.
func (r *run) isRunning() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.store != nil && r.ending == ""
}

// isOver reports whether the run does not run yet, and cannot any more: what it owns, or sets
// out to, ended with a session before the one that there is now, whatever it waits for.
func (r *run) isOver(now Session) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.store == nil && r.session != now
}

// goOn goes on under later terms of the same member.
func (r *run) goOn(session Session, held map[string]Term) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.session = session
	for shard, term := range held {
		r.held[shard] = counted{term, r.Cluster}
	}
	r.store.Continue(r.records(r.held))
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

// reload has the daemon do what a reload needs of it. One that ends meanwhile refuses nothing:
// who runs the fleet next begins with the configuration that is in force then.
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

// configure tells under which configurations the shards are owned from now on.
func (r *run) configure(ctx context.Context, identities map[string]string) error {
	var errs []error
	for shard, term := range r.terms() {
		if identity := identities[shard]; identity != "" {
			call, cancel := r.call(ctx)
			errs = append(errs, term.Configure(call, identity))
			cancel()
		}
	}
	return errors.Join(errs...)
}

// release lets others have the shards.
func (r *run) release() {
	var errs []error
	for _, term := range r.terms() {
		call, cancel := r.call(context.Background())
		errs = append(errs, term.Release(call))
		cancel()
	}
	if err := errors.Join(errs...); err != nil {
		r.log.Warn("let go of a fleet; that is tried again, and others take it over then", zap.NamedError("err", err))
	}
}
