package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
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
	"github.com/hpad/hpad/daemon/problem"
	"github.com/hpad/hpad/daemon/state"
	"github.com/hpad/hpad/guard"
)

// Options configures a Cluster.
type Options struct {
	// Load reads the whole configuration, at startup and at each reload.
	Load func(context.Context) (*config.Config, error)
	// Coordinator is the store that all members share. The cluster does not close it.
	Coordinator Coordinator
	// Member describes this member. The cluster sets its Fleets.
	Member Member
	// TTL is the time to live of the member's lease. It must be at least several seconds.
	TTL time.Duration
	// Daemon contains the options for each daemon. Store, Graph, Notify and WatchdogInterval
	// apply only to the daemon of the host's own fleets. The cluster sets Load and Until, and
	// Gather adds to Metrics.
	Daemon daemon.Options
	// Peer returns a client for the member at an address. If it is nil, this member sends no
	// requests to other members.
	Peer  func(address string) *api.Client
	Dir   string
	State state.Options
}

// Cluster is one member of a cluster. It runs one daemon for the host's own fleets, and one
// daemon for each shared fleet that it owns. Create it with New. It is safe for concurrent use.
type Cluster struct {
	options Options
	log     *zap.Logger
	own     *daemon.Daemon
	// lifetime ends when the member stops, which end causes.
	lifetime context.Context
	end      context.CancelFunc
	// kick requests an update from the goroutine of Run.
	kick chan struct{}

	configurations
	problems
	known    known
	archives archives
	statuses statuses
	commands commands

	// begun counts the terms of this member, and fenced the writes that the store has rejected.
	begun, fenced atomic.Int64

	// mu guards the following fields.
	mu sync.RWMutex
	// Every read of the coordinator replaces view and viewed, the time of the read. owned maps fleets to
	// the last time when a view had an owner.
	view   View
	viewed time.Time
	owned  map[string]time.Time
	// command is the last command in view, or undecoded is the error of decoding it.
	command   command
	undecoded error
	// The goroutine of Run changes the membership. session is nil before the member has joined, and
	// published is its description in the coordinator. rejoined is the time when it last rejoined after
	// its lease had ended, or zero.
	session   Session
	published Member
	rejoined  time.Time
	// The goroutine of Run starts runs. Each run removes itself, and adds its fleet to unfit if it failed.
	// In unfit, Own stands for all fleets.
	runs  map[string]*run
	unfit map[string]failure

	// adopters maps each fleet to the user who had adopted it when this member last tried to acquire
	// it. Only the goroutine of Run uses it.
	adopters map[string]string
}

// configurations stores which configuration a member runs and which it loads next. All fields
// except reloads are read without a lock.
type configurations struct {
	// active is in use. It is nil before the first configuration is loaded.
	active atomic.Pointer[configuration]
	// loading is the configuration that a reload is checking, or nil if no reload is in progress.
	loading atomic.Pointer[configuration]
	// key is the cluster's key, or nil before it is read.
	key atomic.Pointer[[]byte]
	// started contains the tables of the configuration at startup, as written in the files.
	started *config.Config
	// reloads is locked during a reload.
	reloads sync.Mutex
}

// problems contains the current problems of a member.
type problems struct {
	// unreached is set if the coordinator cannot be reached or does not renew the lease. unjoined
	// is set if this process cannot become a member. orphaned is set if no member can take over
	// some fleets. unstored is set if this member cannot store state on its disk.
	unreached, unjoined, orphaned, unstored problem.Problem
}

// New returns a member that has not been started. Call Run to start it.
func New(options Options) *Cluster {
	if options.Daemon.Log == nil {
		options.Daemon.Log = zap.NewNop()
	}
	if options.Daemon.Metrics == nil {
		options.Daemon.Metrics = metrics.New(nil)
	}
	c := &Cluster{
		options: options, log: options.Daemon.Log.Named("cluster"), kick: make(chan struct{}, 1),
		runs: map[string]*run{}, unfit: map[string]failure{}, owned: map[string]time.Time{}, adopters: map[string]string{},
		known: known{peers: map[string]*peer{}}, archives: archives{open: map[string]state.Store{}},
		statuses: statuses{reads: map[string]storedStatus{}}, commands: commands{viewed: make(chan struct{}, 1), applied: map[*daemon.Daemon]string{}},
	}
	c.lifetime, c.end = context.WithCancel(context.Background())
	own := options.Daemon
	own.Load = func(ctx context.Context) (*config.Config, error) {
		if loaded := c.loaded(); loaded != nil {
			return loaded.own, nil
		}
		whole, err := options.Load(ctx)
		if err != nil {
			return nil, err
		}
		first := separate(whole)
		c.started = &config.Config{Written: whole.Written}
		c.active.Store(first)
		return first.own, nil
	}
	_, _ = own.Load(context.Background()) // so that lists are complete when the server starts; Run returns an error
	c.own = daemon.New(own)
	own.Metrics.ShowCluster(c.standing)
	own.Metrics.Show(func() iter.Seq[api.Autoscaler] { return c.autoscalers() })
	return c
}

// Run runs the member until ctx ends, and then hands over its fleets. It returns the error of the
// daemon for the host's own fleets.
func (c *Cluster) Run(ctx context.Context) error {
	if first := c.active.Load(); first != nil {
		c.log.Info("cluster member started", zap.Int("shared_fleets", len(first.fleets)),
			zap.Int("shared_autoscalers", len(first.whole.Autoscalers)-len(first.own.Autoscalers)))
	}
	ctx, cancel := context.WithCancel(ctx)
	defer context.AfterFunc(ctx, c.end)()
	ended := make(chan error, 1)
	guard.Go(func() { ended <- guard.Call(func() error { return c.own.Run(ctx) }) })
	var background guard.Tasks
	defer background.Wait()
	defer cancel()
	c.probe() // before the member joins, so that it does not take over fleets that it cannot run
	background.Go(func() { every(ctx, clockInterval, func() { c.compareClocks(ctx) }) })
	background.Go(func() { every(ctx, probeInterval, c.probe) }) // in its own goroutine, because a disk can hang
	background.Go(func() { guard.Loop(ctx, func() { c.applyCommands(ctx) }) })
	tick := time.NewTicker(updateInterval)
	defer tick.Stop()
	for {
		select { // first, because the daemon for the host's own fleets must load its state
		case <-tick.C:
		case <-c.kick:
		case <-ctx.Done():
			c.leave()
			return <-ended
		case err := <-ended:
			cancel()
			c.leave()
			return err
		}
		if c.active.Load() != nil {
			guard.Run(func() { c.update(ctx) })
		}
	}
}

// every calls f at an interval until ctx ends. It continues after a panic of f.
func every(ctx context.Context, interval time.Duration, f func()) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			guard.Run(f)
		case <-ctx.Done():
			return
		}
	}
}

func (c *Cluster) updateSoon() {
	select {
	case c.kick <- struct{}{}:
	default:
	}
}

func (c *Cluster) runOf(fleet string) *run {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.runs[fleet]
}

func (c *Cluster) dir(fleet string) string { return filepath.Join(c.options.Dir, fleet) }

// daemons returns the daemon of the host's own fleets and the daemons of the shared fleets that
// run here.
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

// Daemon returns the daemon of a fleet; Own stands for the host's own fleets. It returns nil if
// this member does not own the fleet or has not started its daemon yet.
func (c *Cluster) Daemon(fleet string) *daemon.Daemon {
	if fleet == Own {
		return c.own
	}
	if r := c.runOf(fleet); r != nil {
		return r.daemon.Load()
	}
	return nil
}

// running returns the daemon of a fleet, or nil if this member does not run it. starting reports
// whether this member is acquiring the fleet or starting its daemon.
func (c *Cluster) running(fleet string) (d *daemon.Daemon, starting bool) {
	r := c.runOf(fleet)
	if r == nil {
		return nil, false
	}
	d = r.daemon.Load()
	return d, d == nil
}

// Fleets returns the sorted names of the shared fleets in the active configuration, or nil before
// the first configuration is loaded.
func (c *Cluster) Fleets() []string {
	if active := c.active.Load(); active != nil {
		return active.names()
	}
	return nil
}

// FleetOf returns the shared fleet that an autoscaler belongs to. It returns Own if the
// autoscaler is unknown or belongs to one of the host's own fleets. For an autoscaler that labels
// define, the fleet is part of its name.
func (c *Cluster) FleetOf(autoscaler string) string {
	active := c.active.Load()
	if active == nil {
		return Own
	}
	fleet, _, _ := strings.Cut(autoscaler, "/")
	if a := active.whole.Autoscalers[autoscaler]; a != nil {
		fleet = a.Target.Fleet
	}
	if active.fleets[fleet] == nil {
		return Own
	}
	return fleet
}

// View returns the last view of the coordinator and the time when it was read, on Go's monotonic
// clock. The error is the reason why the coordinator currently cannot be read, why this process is
// not a member, or why a fleet has no owner.
func (c *Cluster) View() (View, time.Time, error) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	for _, problem := range []*problem.Problem{&c.unreached, &c.unjoined, &c.orphaned} {
		if text := problem.Text(); text != "" {
			return c.view, c.viewed, errors.New(text)
		}
	}
	return c.view, c.viewed, nil
}

// storeProblem describes the reason why this member cannot use the cluster store, or returns "" if
// it can.
func (c *Cluster) storeProblem() string {
	me, text := c.options.Member.Name, c.unreached.Text()
	_, viewed, _ := c.View()
	switch {
	case text == "" && viewed.IsZero():
		return fmt.Sprintf("member %s has not read the cluster store yet", me)
	case text == "":
		return ""
	case viewed.IsZero():
		return fmt.Sprintf("member %s has not reached the cluster store since its start: %s", me, text)
	}
	return fmt.Sprintf("member %s cannot use the cluster store, which it last read at %s: %s", me, viewed.UTC().Format(time.RFC3339), text)
}

// adoptWait is the maximum time that Adopt waits for the next owner.
const adoptWait = 5 * time.Second

// Adopt makes this member's configuration of a fleet the one that its owner must have. An owner
// with a different configuration then hands the fleet over. Adopt waits for the next owner for up
// to adoptWait.
func (c *Cluster) Adopt(ctx context.Context, fleet string) error {
	active := c.active.Load()
	if active == nil || active.fleets[fleet] == nil {
		return fmt.Errorf("fleet %q: %w", fleet, api.ErrUnknown)
	}
	call, cancel := c.call(ctx)
	defer cancel()
	if active.identities == nil {
		return fmt.Errorf("adopt fleet %q: %s", fleet, c.storeProblem())
	}
	view, err := c.viewNow(call)
	if before := view.Fleets[fleet]; err == nil && before.Configuration != active.identities[fleet] {
		author := cmp.Or(api.Author(ctx), "an unknown user")
		if err = c.options.Coordinator.Configure(call, fleet, active.identities[fleet], author); err == nil {
			c.log.Info("fleet adopted", zap.String("fleet", fleet), zap.String("author", author))
			c.awaitTerm(ctx, fleet, before.Term)
		}
	}
	if err != nil {
		return fmt.Errorf("adopt fleet %q: %w", fleet, err)
	}
	return nil
}

// awaitTerm waits until a fleet has an owner in a later term than after, for up to adoptWait.
func (c *Cluster) awaitTerm(ctx context.Context, fleet string, after uint64) {
	ctx, cancel := context.WithTimeout(ctx, adoptWait)
	defer cancel()
	for ctx.Err() == nil {
		c.updateSoon()
		view, err := c.viewNow(ctx)
		isOwned := err == nil && view.Fleets[fleet].Owner != "" && view.Fleets[fleet].Term > after
		if isOwned && !strings.Contains(c.orphaned.Text(), fleet) { // the next update removes the problem
			return
		}
		select {
		case <-time.After(api.TakeoverInterval):
		case <-ctx.Done():
		}
	}
}

// standing returns the cluster state that this member exports as metrics.
func (c *Cluster) standing() metrics.Cluster {
	offsets := c.offsets()
	c.mu.RLock()
	defer c.mu.RUnlock()
	s := metrics.Cluster{
		Offsets: offsets,
		Member:  c.session != nil && !isClosed(c.session.Ended()) && time.Now().Before(c.session.Expires()),
		Members: len(c.view.Members), Terms: c.begun.Load(), Fenced: c.fenced.Load(),
	}
	for _, fleet := range c.Fleets() {
		switch c.view.Fleets[fleet].Owner {
		case c.options.Member.Name:
			s.Owned++
		case "":
			s.Unowned++
		}
	}
	return s
}

// Gather gathers the metrics of the fleets that this member owns.
func (c *Cluster) Gather() ([]*dto.MetricFamily, error) {
	c.mu.RLock()
	var all prometheus.Gatherers
	for _, r := range c.runs {
		all = append(all, r.gatherer)
	}
	c.mu.RUnlock()
	return all.Gather()
}

// Writers returns the users who may write over TCP according to the active configuration. An
// empty list means all users in the web config. It returns false before the first configuration
// is loaded.
func (c *Cluster) Writers() ([]string, bool) {
	active := c.active.Load()
	if active == nil {
		return nil, false
	}
	return active.whole.Daemon.Writers, true
}
