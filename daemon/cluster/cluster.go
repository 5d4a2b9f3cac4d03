package cluster

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"go.uber.org/zap"

	"github.com/hpad/hpad/daemon"
	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/daemon/metrics"
	"github.com/hpad/hpad/daemon/state"
	"github.com/hpad/hpad/daemon/trouble"
)

const (
	// lookEvery is how often a member looks at who owns what.
	lookEvery = time.Second
	// marginShare is the part of a lease that is left when a member stops acting, and
	// callShare the part that a call to the coordinator may take.
	marginShare, callShare = 5, 3
	// lapseShare is the part of a lease that is left when its end is told. A lease that is
	// renewed in time has more.
	lapseShare = 4
	// unfitFor is how long a member leaves a shard to others that it could not run, and
	// unreadFor one of which it could not read the state.
	unfitFor, unreadFor = time.Minute, 5 * time.Second
	// divideSoon is after what time a division that is due and not done is told.
	divideSoon = 30 * time.Second
	// loadWait bounds how long it takes to read the state of a shard, and to write a copy of
	// it: an answer that is lost is not waited for while nobody runs the fleet.
	loadWait = time.Minute
	// leaveWait bounds how long handing over takes at a stop.
	leaveWait = 30 * time.Second
)

// Options are what a Cluster is made of.
type Options struct {
	// Load reads the whole configuration, at start and at each reload.
	Load func() (*config.Config, error)
	// Coordinator is what all members share; the cluster does not close it.
	Coordinator Coordinator
	// Member is who this one is. Its Shards are filled in.
	Member Member
	// TTL is the lease's: some seconds at least.
	TTL time.Duration
	// Daemon is what each daemon is made of. Its Store is that of the machine's own
	// fleets, and so are its Graph, Notify and WatchdogInterval; Load and Until are filled
	// in. Its Metrics are those that Gather adds to.
	Daemon daemon.Options
	// Peer returns a client of the member at an address; nil asks no other member.
	Peer func(address string) *api.Client
	// ShardSize is how many autoscalers of a fleet that can be divided are one shard at most;
	// 0 divides none.
	ShardSize int
	// Dir is a directory in which each fleet gets one of its own.
	Dir string
	// State is how the files in it are kept; its Log is filled in.
	State state.Options
}

// Cluster is one member: it runs a daemon for the machine's own fleets, and one for each
// shard that it owns. Make one with New. It is safe for concurrent use.
type Cluster struct {
	options Options
	log     *zap.Logger
	own     *daemon.Daemon
	parts   atomic.Pointer[parts]
	// loading is what a reload tries; nil while none does.
	loading atomic.Pointer[parts]
	// kick asks for a look at once.
	kick chan struct{}
	// unreached is why the coordinator cannot be reached, or does not renew the lease, and
	// unjoined why this is no member.
	unreached, unjoined trouble.Problem
	// orphaned is which shards nobody may take over.
	orphaned trouble.Problem
	reloads  sync.Mutex
	// laying is held while parts are replaced.
	laying sync.Mutex

	// known are the other members, by name and address.
	peersMu sync.Mutex
	known   map[string]*peer

	// archives have the history of fleets that this member owned once, as far as somebody
	// asked, nil where it never did. Archiving guards them, and keeps them closed while the
	// fleet is owned.
	archiving sync.Mutex
	archives  map[string]state.Store

	mu      sync.RWMutex
	session Session
	// published is what others see of the member.
	published Member
	// runs are by their fleets.
	runs map[string]*run
	// unfit are fleets that this member could not run, and until when it leaves them to
	// others.
	unfit map[string]time.Time
	// undivided are fleets that this member could not divide anew, and until when it leaves
	// them as they are.
	undivided map[string]delay
	view      View
	viewed    time.Time
	// owned is when a shard was last seen to have an owner.
	owned map[string]time.Time

	// due is since when fleets are to be divided anew; it is the loop's.
	due map[string]time.Time

	// begun is how many terms this member had, fenced how many writes were refused after one.
	begun, fenced atomic.Int64
}

// New makes a member; nothing runs yet.
func New(options Options) *Cluster {
	if options.Daemon.Log == nil {
		options.Daemon.Log = zap.NewNop()
	}
	if options.Daemon.Metrics == nil {
		options.Daemon.Metrics = metrics.New(nil)
	}
	c := &Cluster{
		options: options, log: options.Daemon.Log.Named("cluster"), kick: make(chan struct{}, 1),
		runs: map[string]*run{}, unfit: map[string]time.Time{}, undivided: map[string]delay{}, known: map[string]*peer{},
		archives: map[string]state.Store{}, owned: map[string]time.Time{},
	}
	own := options.Daemon
	own.Load = func() (*config.Config, error) {
		if p := c.loaded(); p != nil {
			return p.own, nil
		}
		whole, err := options.Load()
		if err != nil {
			return nil, err
		}
		p := divide(whole, c.options.ShardSize, nil)
		c.parts.Store(&p)
		return p.own, nil
	}
	c.own = daemon.New(own)
	own.Metrics.ShowCluster(c.standing)
	own.Metrics.Show(func() iter.Seq[api.Autoscaler] { return c.autoscalers() })
	return c
}

// Run runs until ctx ends, and then hands over what it owns. The error is that of the
// daemon of the machine's own fleets, without which nothing runs.
func (c *Cluster) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- c.own.Run(ctx) }()
	var clocks sync.WaitGroup
	defer clocks.Wait()
	defer cancel()
	clocks.Go(func() { c.compareClocks(ctx) })
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for {
		if c.parts.Load() != nil {
			c.look(ctx)
		}
		select {
		case <-look.C:
		case <-c.kick:
		case <-ctx.Done():
			c.leave()
			return <-ended
		case err := <-ended:
			cancel()
			c.leave()
			return err
		}
	}
}

// soon has the loop look at once.
func (c *Cluster) soon() {
	select {
	case c.kick <- struct{}{}:
	default:
	}
}

// look takes part: it joins, looks at who owns what, and takes and gives what that asks
// for. What cannot be done now is at the next look.
func (c *Cluster) look(ctx context.Context) {
	c.join(ctx)
	view, err := c.viewNow(ctx)
	if ctx.Err() != nil {
		return
	}
	problem := err
	if err == nil {
		problem = c.lapsing()
	}
	if news, fields := c.unreached.Set(problem); news && problem != nil {
		c.log.Error("the cluster's store cannot be reached; fleets are observed, and left as they are once the lease is over",
			append(fields, zap.NamedError("err", problem))...)
	} else if news {
		c.log.Info("the cluster's store can be reached again", fields...)
	}
	if err != nil {
		return
	}
	c.mu.RLock()
	session := c.session
	c.mu.RUnlock()
	if c.layOut(layoutOf(view)) {
		c.join(ctx) // which tells the others of the new shards
	}
	if session != nil {
		c.settle(ctx, session, view)
	}
}

// lapsing returns an error if the lease is about to end, or has ended, although calls to the
// coordinator succeed, and nil otherwise.
func (c *Cluster) lapsing() error {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if c.session == nil || time.Until(c.session.Expires()) > c.options.TTL/lapseShare {
		return nil
	}
	return fmt.Errorf("it answers, and has not renewed the lease of %s for most of its time; its own log may say why", c.options.TTL)
}

// layOut divides fleets as a layout has it, and reports whether that is news.
func (c *Cluster) layOut(l layout) bool {
	c.laying.Lock()
	defer c.laying.Unlock()
	p := c.parts.Load()
	if maps.Equal(p.layout, l) {
		return false
	}
	next := divide(p.whole, c.options.ShardSize, l)
	c.parts.Store(&next)
	return true
}

// configure puts a configuration in force that is divided already, as fleets are by now.
func (c *Cluster) configure(next *parts) *parts {
	c.laying.Lock()
	defer c.laying.Unlock()
	if l := c.parts.Load().layout; !maps.Equal(l, next.layout) { // meanwhile
		again := divide(next.whole, c.options.ShardSize, l)
		next = &again
	}
	c.parts.Store(next)
	return next
}

// viewNow asks the coordinator who owns what.
func (c *Cluster) viewNow(ctx context.Context) (View, error) {
	call, cancel := c.call(ctx)
	defer cancel()
	asked := time.Now()
	view, err := c.options.Coordinator.View(call)
	if err == nil {
		c.mu.Lock()
		c.view, c.viewed = view, time.Now()
		for shard, o := range view.Shards {
			if o.Owner != "" {
				c.owned[shard] = asked
			}
		}
		c.mu.Unlock()
	}
	return view, err
}

// call returns a context for one call to the coordinator.
func (c *Cluster) call(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, c.options.TTL/callShare)
}

// join makes this a member, again where its session ended, and tells the others what
// changed of it.
func (c *Cluster) join(ctx context.Context) {
	member, p := c.options.Member, c.parts.Load()
	member.Shards, member.Parts = maps.Clone(p.identities), maps.Clone(p.wanted)
	c.mu.Lock()
	for fleet, until := range c.unfit {
		if time.Now().Before(until) {
			delete(member.Parts, fleet)
			for _, shard := range p.names(fleet) {
				delete(member.Shards, shard)
			}
		} else {
			delete(c.unfit, fleet)
		}
	}
	for fleet, left := range c.undivided {
		if time.Now().Before(left.until) {
			if delete(member.Parts, fleet); p.layout.of(fleet) > 1 {
				member.Parts[fleet] = p.layout.of(fleet)
			}
		}
	}
	session := c.session
	c.mu.Unlock()
	if session != nil && isClosed(session.Ended()) {
		c.log.Warn("the lease is over; what this member owned is others' to take")
		session = nil
	}
	call, cancel := c.call(ctx)
	defer cancel()
	var err error
	switch {
	case session == nil:
		session, err = c.options.Coordinator.Join(call, member, c.options.TTL)
		if errors.Is(err, ErrTaken) {
			err = fmt.Errorf("there is a member named %q already, another hpad or this one before its restart, whose lease of %s is not over yet: %w",
				member.Name, c.options.TTL, err)
		}
	case !maps.Equal(member.Shards, c.published.Shards) || !maps.Equal(member.Parts, c.published.Parts):
		err = session.Update(call, member)
	}
	if ctx.Err() != nil && err != nil {
		return
	}
	if news, fields := c.unjoined.Set(err); news && err != nil {
		c.log.Warn("this is no member of the cluster yet", append(fields, zap.NamedError("err", err))...)
	} else if news {
		c.log.Info("a member of the cluster", append(fields, zap.String("member", member.Name))...)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.session = session; err != nil {
		if session == nil || isClosed(session.Ended()) {
			c.session = nil
		}
		return
	}
	c.published = member
}

func isClosed(ended <-chan struct{}) bool {
	select {
	case <-ended:
		return true
	default:
		return false
	}
}

// settle takes and gives shards as a view asks for.
func (c *Cluster) settle(ctx context.Context, session Session, view View) {
	owners, p := assign(view), c.parts.Load()
	c.mu.RLock()
	runs := maps.Clone(c.runs)
	c.mu.RUnlock()
	for _, r := range runs {
		if r.isOver(session) {
			r.end("the lease is over")
		}
	}
	var orphans, undivided []string
	due := map[string]time.Time{}
	for _, fleet := range slices.Sorted(maps.Keys(p.fleets)) {
		if into, leader, is := division(view, fleet, p.layout); is {
			if due[fleet] = c.due[fleet]; due[fleet].IsZero() {
				due[fleet] = time.Now()
			} else if time.Since(due[fleet]) > divideSoon {
				undivided = append(undivided, fmt.Sprintf("%s into %d parts by %s", fleet, into, leader))
			}
			c.settleDivision(ctx, session, view, runs[fleet], fleet, into, leader)
			continue
		}
		c.settleFleet(ctx, session, view, owners, runs[fleet], fleet)
		for _, shard := range p.names(fleet) {
			if _, able := owners[shard]; !able && view.Shards[shard].Owner == "" && c.isTold(view, fleet, shard) {
				orphans = append(orphans, strings.Replace(shard, partMark, " ", 1))
			}
		}
	}
	c.due = due
	for fleet, r := range runs {
		if p.fleets[fleet] == nil {
			r.end("it is not configured any more")
		}
	}
	c.letGo(ctx, session, view, runs)
	var texts []string
	if len(orphans) > 0 {
		texts = append(texts, fmt.Sprintf("no member has the configuration under which these fleets were owned: %s; reload that one on some member, or let one go on with its own by \"hpad cluster adopt FLEET\"",
			strings.Join(orphans, ", ")))
	}
	if len(undivided) > 0 {
		texts = append(texts, fmt.Sprintf("these fleets are to be divided anew, and not run meanwhile, for more than %s: %s; the log of that member says why, or \"hpad cluster\" which member still owns a part",
			divideSoon, strings.Join(undivided, ", ")))
	}
	var err error
	if len(texts) > 0 {
		err = errors.New(strings.Join(texts, "; "))
	}
	if news, fields := c.orphaned.Set(err); news && err != nil {
		c.log.Error("fleets have no owner", append(fields, zap.NamedError("err", err))...)
	}
}

// letGo lets others have what this member owns and neither runs nor is about to run, as after a
// release whose answer was lost: its lease would keep that for ever.
func (c *Cluster) letGo(ctx context.Context, session Session, view View, runs map[string]*run) {
	p := c.parts.Load()
	for shard, now := range view.Shards {
		fleet, _, _ := strings.Cut(shard, partMark)
		_, divided := c.due[fleet]
		settled := !divided && p.fleets[fleet] != nil && slices.Contains(p.names(fleet), shard) // by settleFleet
		if now.Owner != c.options.Member.Name || runs[fleet] != nil || c.runOf(fleet) != nil || settled {
			continue
		}
		call, cancel := c.call(ctx)
		term, err := session.Acquire(call, shard, now.Configuration)
		if err == nil {
			err = term.Release(call)
		}
		cancel()
		if err != nil && !errors.Is(err, ErrTaken) && !errors.Is(err, ErrOtherwise) {
			return // at the next look
		}
	}
}

// isTold reports whether a view has of this member that it may own a shard, or that it may
// not: one from before a fleet was divided anew has neither.
func (c *Cluster) isTold(view View, fleet, shard string) bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	_, told := view.Members[c.options.Member.Name].Shards[shard]
	return told || !c.unfit[fleet].IsZero()
}

// settleFleet takes and gives the shards of a fleet.
func (c *Cluster) settleFleet(ctx context.Context, session Session, view View, owners map[string]string, r *run, fleet string) {
	me := c.options.Member.Name
	var held map[string]Term
	if r != nil {
		if !r.isRunning() {
			return
		}
		held = r.terms()
		if r.n != c.parts.Load().layout.of(fleet) {
			r.end("it is divided otherwise now")
			return
		}
	}
	var mine, again []string
	for _, shard := range c.parts.Load().names(fleet) {
		now := view.Shards[shard]
		owner, able := owners[shard]
		term := held[shard]
		switch {
		case term == nil && (now.Owner == "" && owner == me || now.Owner == me): // the latter where an answer was lost
			mine = append(mine, shard)
		case term == nil:
		case now.Term > term.Number():
			r.end("another member owned it since")
		case now.Term < term.Number(): // the view is older than the term
		case now.Owner == "" && owner == me:
			again = append(again, shard)
		case now.Owner == "":
			r.end("its lease ended, and it is another member's to take")
		case now.Owner == me && able && owner != me:
			r.end("handed over to " + owner)
		}
	}
	switch {
	case r == nil && len(mine) > 0:
		c.begin(newRun(ctx, c, session, fleet, mine))
	case r != nil && len(mine) > 0: // with what it has, and more
		r.end("it owns more of the fleet from now on")
	case len(again) > 0:
		c.regain(ctx, session, r, again)
	}
}

// settleDivision has nobody run a fleet that is to be divided anew, and divides it, where
// that is for this member to do, once nobody does.
func (c *Cluster) settleDivision(ctx context.Context, session Session, view View, r *run, fleet string, into int, leader string) {
	if r != nil {
		if r.into == 0 {
			r.end(fmt.Sprintf("the fleet is about to be divided into %d parts", into))
		}
		return
	}
	shards := append(c.parts.Load().names(fleet), fleet+partMark)
	me := c.options.Member.Name
	owned := slices.ContainsFunc(shards, func(shard string) bool { return view.Shards[shard].Owner != "" && view.Shards[shard].Owner != me })
	if owned || leader != me {
		return
	}
	r = newRun(ctx, c, session, fleet, nil)
	r.into = into
	c.begin(r)
}

// begin sets out to own a fleet or parts of it, and to run them.
func (c *Cluster) begin(r *run) {
	c.mu.Lock()
	r.owned = c.ownedOf(r.fleet)
	c.runs[r.fleet] = r
	c.mu.Unlock()
	go func() {
		leaves := r.run()
		c.mu.Lock()
		delete(c.runs, r.fleet)
		if leaves > 0 {
			c.unfit[r.fleet] = time.Now().Add(leaves)
		}
		c.mu.Unlock()
		close(r.done)
		c.soon()
	}()
}

// ownedOf returns when the shards of a fleet were last seen to have an owner. Those that never
// were, as after a division, count as the last of the fleet that was, or the lock. It is called
// under mu.
func (c *Cluster) ownedOf(fleet string) map[string]time.Time {
	var last time.Time
	for shard, at := range c.owned {
		if of, _, _ := strings.Cut(shard, partMark); of == fleet && at.After(last) {
			last = at
		}
	}
	owned := map[string]time.Time{}
	for _, shard := range c.parts.Load().names(fleet) {
		if owned[shard] = c.owned[shard]; owned[shard].IsZero() {
			owned[shard] = last
		}
	}
	return owned
}

// regain goes on with shards whose lease ended and that nobody owned since.
func (c *Cluster) regain(ctx context.Context, session Session, r *run, shards []string) {
	before, again := r.terms(), map[string]Term{}
	for _, shard := range shards {
		call, cancel := c.call(ctx)
		term, err := session.Acquire(call, shard, c.parts.Load().identities[shard])
		if err == nil {
			again[shard] = term
		}
		cancel()
		switch {
		case err != nil && len(again) == 0:
			return // at the next look
		case err != nil, term.Number() != before[shard].Number()+1:
			for _, term := range again {
				call, cancel := c.call(ctx)
				_ = term.Release(call) // or its lease ends it
				cancel()
			}
			r.end("another member owned it since")
			return
		}
	}
	r.goOn(session, again)
	c.log.Info("the fleet is owned again, and nobody else owned it meanwhile", zap.String("fleet", r.fleet))
}

// leave hands over everything and ends the membership.
func (c *Cluster) leave() {
	ctx, cancel := context.WithTimeout(context.Background(), leaveWait)
	defer cancel()
	c.mu.RLock()
	runs, session := slices.Collect(maps.Values(c.runs)), c.session
	c.mu.RUnlock()
	for _, r := range runs {
		r.end("hpad stops")
	}
	for _, fleet := range c.Fleets() {
		c.closeArchive(fleet)
	}
	for _, r := range runs {
		select {
		case <-r.done:
		case <-ctx.Done():
		}
	}
	if session == nil {
		return
	}
	call, cancel := c.call(context.Background()) // also where runs took all of the time
	defer cancel()
	if err := session.Leave(call); err != nil {
		c.log.Warn("leave the cluster; others take over once the lease is over", zap.NamedError("err", err))
	}
}

// archived returns what this member recorded of all fleets that it does not own now, from
// one time up to another, as state.Store does.
func (c *Cluster) archived(ctx context.Context, name string, from, to time.Time, limit int) ([]state.Entry, error) {
	c.archiving.Lock()
	defer c.archiving.Unlock()
	var all []state.Entry
	for _, fleet := range c.Fleets() {
		if c.runOf(fleet) != nil || name != "" && c.FleetOf(name) != fleet {
			continue
		}
		archive, err := c.archive(fleet)
		if err != nil {
			return nil, err
		}
		if archive == nil {
			continue
		}
		entries, err := archive.History(ctx, name, from, to, limit)
		if err != nil {
			return nil, err
		}
		all = append(all, entries...)
	}
	return all, nil
}

// archive returns what this member recorded of a fleet that it does not run; nil where it
// never did. It is called under archiving.
func (c *Cluster) archive(fleet string) (state.Store, error) {
	archive := c.archives[fleet]
	if _, err := os.Stat(c.dir(fleet)); archive == nil && err == nil {
		if archive, err = state.Open(c.dir(fleet), state.Options{}); err != nil {
			return nil, fmt.Errorf("open the history of fleet %q: %w", fleet, err)
		}
		c.archives[fleet] = archive
	}
	return archive, nil
}

// histories returns the stores with all that this member recorded. It is called under
// archiving.
func (c *Cluster) histories() ([]state.Store, error) {
	all := []state.Store{c.options.Daemon.Store}
	for _, fleet := range c.Fleets() {
		var store state.Store
		if r := c.runOf(fleet); r != nil {
			r.mu.Lock()
			store = r.store
			r.mu.Unlock()
		} else {
			archive, err := c.archive(fleet)
			if err != nil {
				return nil, err
			}
			store = archive
		}
		if store != nil {
			all = append(all, store)
		}
	}
	return all, nil
}

// runOf returns what this member runs of a fleet; nil for nothing.
func (c *Cluster) runOf(fleet string) *run {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.runs[fleet]
}

// closeArchive closes the history of a fleet, which the daemon of that is about to open.
func (c *Cluster) closeArchive(fleet string) {
	c.archiving.Lock()
	defer c.archiving.Unlock()
	if archive := c.archives[fleet]; archive != nil {
		delete(c.archives, fleet)
		if err := archive.Close(); err != nil {
			c.log.Warn("close the history of a fleet", zap.String("fleet", fleet), zap.NamedError("err", err))
		}
	}
}

// dir returns the directory of a fleet.
func (c *Cluster) dir(fleet string) string { return filepath.Join(c.options.Dir, fleet) }

// loaded returns what a daemon is to load now; nil before the first.
func (c *Cluster) loaded() *parts {
	if p := c.loading.Load(); p != nil {
		return p
	}
	return c.parts.Load()
}

// Reload reads the configuration again and puts it in force, in all daemons or none, and
// returns what is different.
func (c *Cluster) Reload(ctx context.Context) ([]config.Change, error) { return c.reload(ctx, false) }

// reload is Reload, or tells only what that would change.
func (c *Cluster) reload(ctx context.Context, trial bool) ([]config.Change, error) {
	c.reloads.Lock()
	defer c.reloads.Unlock()
	if c.parts.Load() == nil {
		return nil, errors.New("hpad is starting")
	}
	whole, err := c.options.Load()
	if err != nil {
		return nil, err
	}
	next := divide(whole, c.options.ShardSize, c.parts.Load().layout)
	var runs []*run
	for fleet := range next.fleets { // the loop ends those that are not configured any more
		if r := c.runOf(fleet); r != nil && r.daemon.Load() != nil {
			runs = append(runs, r)
		}
	}
	// all has all daemons do something, until one cannot.
	all := func(do func(*daemon.Daemon, context.Context) ([]config.Change, error)) ([]config.Change, error) {
		changes, err := do(c.own, ctx)
		for _, r := range runs {
			if err != nil {
				return nil, err
			}
			var some []config.Change
			some, err = r.reload(ctx, do)
			changes = append(changes, some...)
		}
		return changes, err
	}
	c.loading.Store(&next)
	defer c.loading.Store(nil)
	changes, err := all((*daemon.Daemon).ReloadChanges) // what one would refuse is in force in none
	if err != nil || trial {
		return unique(changes), err
	}
	if _, err := all((*daemon.Daemon).Reload); err != nil {
		return nil, err
	}
	now := c.configure(&next)
	c.mu.Lock()
	clear(c.undivided) // it may fit by now
	inForce := slices.Collect(maps.Values(c.runs))
	c.mu.Unlock()
	for _, r := range inForce {
		if !slices.Contains(runs, r) && r.daemon.Load() != nil { // it began meanwhile
			if _, err := r.reload(ctx, (*daemon.Daemon).Reload); err != nil {
				r.log.Warn("a fleet that was just taken over begins anew with the new configuration", zap.NamedError("err", err))
				r.end("the configuration is another one now")
			}
		}
		if err := r.configure(ctx, now.identities); err != nil {
			c.log.Warn("the cluster does not know of a new configuration yet", zap.String("fleet", r.fleet), zap.NamedError("err", err))
		}
	}
	c.soon()
	return unique(changes), nil
}

// unique returns changes without those that several daemons have.
func unique(changes []config.Change) []config.Change {
	var once []config.Change
	for _, change := range changes {
		if !slices.Contains(once, change) {
			once = append(once, change)
		}
	}
	return once
}

// daemons returns the machine's own daemon and those of the fleets that are run.
func (c *Cluster) daemons() []*daemon.Daemon {
	c.mu.RLock()
	defer c.mu.RUnlock()
	all := []*daemon.Daemon{c.own}
	for _, fleet := range slices.Sorted(maps.Keys(c.runs)) {
		if d := c.runs[fleet].daemon.Load(); d != nil {
			all = append(all, d)
		}
	}
	return all
}

// Daemon returns the daemon of a fleet, or of the parts that this member owns of it, and of
// the machine's own fleets for Own; nil where this member owns none, or has yet to begin.
func (c *Cluster) Daemon(fleet string) *daemon.Daemon {
	if fleet == Own {
		return c.own
	}
	if r := c.runOf(fleet); r != nil {
		return r.daemon.Load()
	}
	return nil
}

// running returns the daemon that runs a shard here, nil where none does; taking reports
// whether this member has begun to own it and does not run it yet.
func (c *Cluster) running(shard string) (d *daemon.Daemon, taking bool) {
	fleet, _, _ := strings.Cut(shard, partMark)
	r := c.runOf(fleet)
	switch {
	case r == nil:
		return nil, false
	case r.daemon.Load() == nil:
		return nil, r.into > 0 || slices.Contains(r.shards, shard)
	case r.terms()[shard] == nil:
		return nil, false
	}
	return r.daemon.Load(), false
}

// Fleets returns the names of the fleets that are shared, by the configuration in force, in
// order; nil before there is one.
func (c *Cluster) Fleets() []string {
	p := c.parts.Load()
	if p == nil {
		return nil
	}
	return slices.Sorted(maps.Keys(p.fleets))
}

// Shards returns the names of all shards of the configuration in force, in order; nil
// before there is one.
func (c *Cluster) Shards() []string {
	p := c.parts.Load()
	if p == nil {
		return nil
	}
	return p.shards()
}

// ShardsOf returns the names of the shards of a fleet: none of one of the machine itself,
// and of one that is not known.
func (c *Cluster) ShardsOf(fleet string) []string {
	if p := c.parts.Load(); p != nil && p.fleets[fleet] != nil {
		return p.names(fleet)
	}
	return nil
}

// ShardOf returns the shard of an autoscaler: Own for one of the machine itself, and for
// one that is not known.
func (c *Cluster) ShardOf(autoscaler string) string {
	if p, fleet := c.parts.Load(), c.FleetOf(autoscaler); p != nil && p.fleets[fleet] != nil {
		return p.shardOf(fleet, autoscaler)
	}
	return Own
}

// FleetOf returns the fleet of an autoscaler, by the configuration in force or, for one
// that its target asks for by labels, by its name; empty where neither tells.
func (c *Cluster) FleetOf(autoscaler string) string {
	p := c.parts.Load()
	if p == nil {
		return ""
	}
	if a := p.whole.Autoscalers[autoscaler]; a != nil {
		return a.Target.Fleet
	}
	fleet, _, _ := strings.Cut(autoscaler, "/")
	if _, known := p.whole.Fleets[fleet]; known {
		return fleet
	}
	return ""
}

// Member returns this member as others see it.
func (c *Cluster) Member() Member {
	c.mu.RLock()
	defer c.mu.RUnlock()
	member := c.options.Member
	member.Shards, member.Parts = c.published.Shards, c.published.Parts
	return member
}

// View returns what the coordinator last said, and when, by Go's monotonic clock; the
// error says why it cannot be asked now, or why this is no member.
func (c *Cluster) View() (View, time.Time, error) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	for _, problem := range []*trouble.Problem{&c.unreached, &c.unjoined, &c.orphaned} {
		if text := problem.Text(); text != "" {
			return c.view, c.viewed, errors.New(text)
		}
	}
	return c.view, c.viewed, nil
}

// Adopt has a fleet owned under this member's configuration from now on: who has another
// one hands it over.
func (c *Cluster) Adopt(ctx context.Context, fleet string) error {
	p := c.parts.Load()
	if p == nil || p.fleets[fleet] == nil {
		return fmt.Errorf("fleet %q: %w", fleet, api.ErrUnknown)
	}
	for _, shard := range p.names(fleet) {
		call, cancel := c.call(ctx)
		err := c.options.Coordinator.Configure(call, shard, p.identities[shard])
		cancel()
		if err != nil {
			return fmt.Errorf("adopt fleet %q: %w", shard, err)
		}
	}
	c.soon()
	return nil
}

// standing returns how this member stands, for the metrics.
func (c *Cluster) standing() metrics.Cluster {
	offsets := c.offsets()
	c.mu.RLock()
	defer c.mu.RUnlock()
	s := metrics.Cluster{
		Offsets: offsets,
		Member:  c.session != nil && !isClosed(c.session.Ended()) && time.Now().Before(c.session.Expires()),
		Members: len(c.view.Members), Terms: c.begun.Load(), Fenced: c.fenced.Load(),
	}
	p := c.parts.Load()
	if p == nil {
		return s
	}
	for shard := range p.identities {
		switch c.view.Shards[shard].Owner {
		case c.options.Member.Name:
			s.Owned++
		case "":
			s.Unowned++
		}
	}
	return s
}

// Gather gathers the metrics of the shards that this member owns.
func (c *Cluster) Gather() ([]*dto.MetricFamily, error) {
	c.mu.RLock()
	var all prometheus.Gatherers
	for _, r := range c.runs {
		all = append(all, r.gatherer)
	}
	c.mu.RUnlock()
	return all.Gather()
}

// autoscalers returns those of this member's daemons, by name.
func (c *Cluster) autoscalers() iter.Seq[api.Autoscaler] {
	var sequences []iter.Seq[api.Autoscaler]
	for _, d := range c.daemons() {
		sequences = append(sequences, d.AutoscalersAfter(""))
	}
	return merge(sequences)
}

// merge merges sequences of autoscalers by name. Of several of one name, as where members
// have a fleet of their own alike, it is the first one's.
func merge(sequences []iter.Seq[api.Autoscaler]) iter.Seq[api.Autoscaler] {
	if len(sequences) == 1 {
		return sequences[0]
	}
	return func(yield func(api.Autoscaler) bool) {
		type head struct {
			a    api.Autoscaler
			next func() (api.Autoscaler, bool)
		}
		var heads []*head
		for _, sequence := range sequences {
			next, stop := iter.Pull(sequence)
			defer stop()
			if a, ok := next(); ok {
				heads = append(heads, &head{a, next})
			}
		}
		last := ""
		for len(heads) > 0 {
			first := slices.MinFunc(heads, func(x, y *head) int { return strings.Compare(x.a.Name, y.a.Name) })
			if first.a.Name != last || last == "" {
				if last = first.a.Name; !yield(first.a) {
					return
				}
			}
			var more bool
			if first.a, more = first.next(); !more {
				heads = slices.DeleteFunc(heads, func(h *head) bool { return h == first })
			}
		}
	}
}

// Writers returns who may write over TCP by the configuration in force, none for all whom
// the web config knows; false before there is one.
func (c *Cluster) Writers() ([]string, bool) {
	p := c.parts.Load()
	if p == nil {
		return nil, false
	}
	return p.whole.Daemon.Writers, true
}
