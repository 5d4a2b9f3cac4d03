package compose

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/docker/docker/api/types/network"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/docker"
)

// readingAtOnce is the number of services that are read at once.
const readingAtOnce = 4

// networkInspect leaves out a network's containers.
var networkInspect = network.InspectOptions{}

// Fleet reads and scales the services of the Compose projects on one engine. It
// is safe for concurrent use.
type Fleet struct {
	base   targets.Base[key]
	config *Config
	engine *docker.Engine
	// waiting has connections of its own for the calls that last as long as a
	// container takes to stop: they must not keep others waiting.
	waiting   *docker.Engine
	sampler   *docker.Sampler
	details   details
	memories  *memories
	templates templates
	removals  *removals
	revivals  *revivals
	// unreplaced are the errors of replacing obsolete replicas.
	unreplaced failures
	// quiet is composeQuiet, or less in tests.
	quiet    time.Duration
	follower follower
	used     uses
	dryRun   bool

	// ctx ends with Close, and with it all work in the background.
	ctx        context.Context
	cancel     context.CancelFunc
	background sync.WaitGroup
	// starts is held by whoever starts a container.
	starts *semaphore.Weighted

	// loading is held while the store is read.
	loading sync.Mutex
	loaded  bool

	mu      sync.Mutex
	started bool
	// turns are held by whoever changes a service's count.
	turns map[key]*semaphore.Weighted
}

// New returns a fleet of that name, which connects when it is first read. The
// configuration is defaulted and valid, and is not modified. An error names a file that
// cannot be used.
func New(name string, config *Config, options targets.Env) (*Fleet, error) {
	if options.Store == nil {
		return nil, fmt.Errorf("fleet %q: a store is required", name)
	}
	engine, err := docker.Connect(&config.Config)
	if err != nil {
		return nil, fmt.Errorf("connect fleet %q: %w", name, err)
	}
	waiting, err := docker.Connect(&config.Config)
	if err != nil {
		return nil, fmt.Errorf("connect fleet %q: %w", name, err)
	}
	f := &Fleet{
		config: config, engine: engine, waiting: waiting, sampler: docker.NewSampler(config.ResourceInterval),
		details:  details{known: map[string]*detail{}},
		memories: newMemories(options.Store), templates: newTemplates(options.Store), removals: newRemovals(options.Store),
		revivals: newRevivals(options.Store, options.Now), dryRun: options.DryRun,
		follower: follower{runs: map[string]run{}, started: map[string]time.Time{}}, quiet: composeQuiet,
		starts: semaphore.NewWeighted(1), turns: map[key]*semaphore.Weighted{},
	}
	f.base.Name, f.base.Parse = name, parseName
	f.ctx, f.cancel = context.WithCancel(context.Background())
	return f, nil
}

// Start begins to remove the victims that an earlier hpad left. A store that
// cannot be read is read again by the next reading; one that was read before is
// read anew, since an older fleet of the same name may have written until now.
func (f *Fleet) Start(ctx context.Context) error {
	if err := f.base.Usable(ctx); err != nil {
		return fmt.Errorf("start fleet %q: %w", f.base.Name, err)
	}
	f.loading.Lock()
	f.loaded = false
	f.loading.Unlock()
	f.mu.Lock()
	f.started = true
	f.mu.Unlock()
	if err := f.load(ctx); err == nil {
		f.resume()
	}
	return nil
}

// Close ends the work in the background and gives up the connections. Victims that are
// still there are removed by the next fleet of the same store; the engine finishes the
// stops under way.
func (f *Fleet) Close() error {
	f.mu.Lock() // nothing begins in the background any more
	first := f.base.End()
	f.mu.Unlock()
	if first {
		f.cancel()
		f.sampler.Close()
		f.background.Wait()
		f.follower.work.Wait()
		f.engine.Close()
		f.waiting.Close()
	}
	return nil
}

// load reads what was stored, once, and begins to remove the victims in it.
func (f *Fleet) load(ctx context.Context) error {
	f.loading.Lock()
	defer f.loading.Unlock()
	if f.loaded {
		return nil
	}
	for _, load := range []func(context.Context) error{f.memories.Load, f.templates.Load, f.removals.load, f.revivals.load} {
		if err := load(ctx); err != nil {
			return err
		}
	}
	for _, k := range keysOf(slices.Concat(f.memories.Names(), f.templates.Names())) {
		f.used.use(k, time.Now())
	}
	f.loaded = true
	f.resume()
	return nil
}

// Problems returns why containers that are to go are still there, and what is wrong with
// the connection.
func (f *Fleet) Problems() []string { return append(f.removals.problems(), f.engine.Problems()...) }

// Samples returns cpu and memory of each running container, and begins to sample
// when nobody has asked for a while.
func (f *Fleet) Samples(ctx context.Context, refs []targets.Ref) (map[targets.Ref]targets.Samples, error) {
	return targets.Ask(ctx, &f.base, "sample", func(context.Context) (map[targets.Ref]targets.Samples, error) {
		return f.sampler.Samples(refs)
	})
}

// Snapshot reads the given services: one list for the whole engine, and one call
// for each container that is new or changed.
func (f *Fleet) Snapshot(ctx context.Context, refs []targets.Ref) (map[targets.Ref]targets.Reading, error) {
	return f.base.Snapshot(ctx, refs, f.snapshot)
}

func (f *Fleet) snapshot(ctx context.Context, keys map[targets.Ref]key) (map[targets.Ref]targets.Reading, error) {
	if err := f.load(ctx); err != nil {
		return nil, err
	}
	f.follow()
	l, err := f.list(ctx, "")
	if err != nil {
		return nil, err
	}
	f.details.forget(l)
	f.repair(ctx, l, maps.Values(keys))
	var members []*member
	for _, k := range keys {
		members = append(members, l.services[k]...)
	}
	known, failed := f.detailsOf(ctx, members, l.observed)
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("%w: inspect containers: %w", targets.ErrTransient, context.Cause(ctx))
	}
	readings := make(map[targets.Ref]targets.Reading, len(keys))
	var mu sync.Mutex
	var group errgroup.Group
	group.SetLimit(readingAtOnce)
	for ref, k := range keys {
		group.Go(func() error {
			reading, err := f.reading(ctx, ref, k, l, known, failed)
			if err != nil {
				f.sampler.Withdraw(ref)
				reading = targets.Reading{Err: err, Observed: l.observed}
			}
			mu.Lock()
			defer mu.Unlock()
			readings[ref] = reading
			return nil
		})
	}
	_ = group.Wait() // each target has its own error
	f.sweep(ctx, l.observed)
	return readings, nil
}

// sweep forgets services that were not read, or were gone, for a day.
func (f *Fleet) sweep(ctx context.Context, now time.Time) {
	for _, k := range f.used.over(now) {
		f.templates.drop(ctx, k)
		f.memories.drop(ctx, k)
	}
}

// reading returns what a list shows of one service.
func (f *Fleet) reading(ctx context.Context, ref targets.Ref, k key, l *listing, known map[string]*detail, failed map[string]error) (targets.Reading, error) {
	members := l.services[k]
	for _, m := range members {
		if err := failed[m.ID]; err != nil {
			return targets.Reading{}, err
		}
	}
	living := counted(members)
	reading := targets.Reading{SpecReplicas: int32(len(living)), Version: versionOf(living), Observed: l.observed}
	before := f.memories.recall(k)
	next := make(map[string]record, len(members))
	var sampled []docker.Container
	var locations targets.LocationList
	for _, m := range members {
		d := known[m.ID]
		if d == nil || m.spare {
			continue // gone between the list and the question, or not there yet
		}
		remembered := judge(m, d, before[m.ID], l.observed)
		next[m.ID] = remembered
		instance := m.instance(remembered, d.requests)
		reading.Instances = append(reading.Instances, instance)
		locations = append(locations, m.location())
		if !instance.Deleting && instance.Phase != policy.PhaseFailed && instance.Phase != policy.PhaseSucceeded {
			reading.StatusReplicas++
		}
		if m.State == "running" && !m.doomed {
			sampled = append(sampled, docker.Container{Instance: m.ID, Task: k.service, Engine: f.engine, ID: m.ID, Started: remembered.Started})
		}
	}
	reading.Locations = locations
	f.memories.keep(ctx, k, next, l.observed)
	if len(living) == 0 {
		if err := f.readZero(ctx, k, l, &reading); err != nil {
			return targets.Reading{}, err
		}
		f.sampler.Publish(ref, nil)
		return reading, nil
	}
	f.used.use(k, l.observed)
	reading.Hold = cmp.Or(hold(k, members), f.holdStopped(k, living, known))
	from := source(living)
	if d := known[from.ID]; d != nil && reading.Hold == nil {
		if d.limits.refusal != nil {
			return targets.Reading{}, d.limits.refusal
		}
		reading.Max = d.limits.most
	}
	f.revive(ctx, k, members, known, l, reading.Hold != nil)
	all := f.revivals.of(k)
	if notice := failing(living, known, all); notice != nil && (reading.Hold == nil || reading.Hold.Reason != ServiceStopped) {
		reading.Notices = append(reading.Notices, *notice)
	}
	reading.Notices = append(reading.Notices, revived(living, all)...)
	if notice := f.overtaken(k, members); notice != nil {
		reading.Notices = append(reading.Notices, *notice)
	}
	f.sampler.Publish(ref, sampled)
	return reading, nil
}

// readZero completes the reading of a service without replicas, from what is kept
// of it.
func (f *Fleet) readZero(ctx context.Context, k key, l *listing, reading *targets.Reading) error {
	t := f.templates.of(k)
	if t == nil {
		return &targets.ReasonError{Reason: ServiceNotFound, Err: fmt.Errorf("%w: there is no container of service %q of project %q; \"docker compose up -d %s\" makes the first one", targets.ErrTargetNotFound, k.service, k.project, k.service)}
	}
	if f.removed(k, t, l) {
		return &targets.ReasonError{Reason: ProjectRemoved, Err: fmt.Errorf("%w: project %q of service %q has no containers any more, and hpad has not scaled all of its services to 0; \"docker compose up -d\" brings it back", targets.ErrTargetNotFound, k.project, k.service)}
	}
	f.used.use(k, l.observed)
	reading.Max = t.Most
	if notice := t.stale(k); notice != nil {
		reading.Notices = append(reading.Notices, *notice)
	}
	missing, err := f.missing(ctx, t.Blueprint)
	if err != nil {
		return err
	}
	if missing != "" {
		reading.Hold = unusable(k, missing)
	}
	return nil
}

// turnOf returns what is held by whoever changes a service's count.
func (f *Fleet) turnOf(k key) *semaphore.Weighted {
	f.mu.Lock()
	defer f.mu.Unlock()
	held := f.turns[k]
	if held == nil {
		held = semaphore.NewWeighted(1)
		f.turns[k] = held
	}
	return held
}

// turn waits until nobody else changes a service's count, and returns the end of the
// turn.
func (f *Fleet) turn(ctx context.Context, k key) (end func(), err error) {
	held := f.turnOf(k)
	if held.Acquire(ctx, 1) != nil {
		return nil, fmt.Errorf("%w: an earlier change of service %q has not ended: %w", targets.ErrTransient, k, context.Cause(ctx))
	}
	return func() { held.Release(1) }, nil
}

// turnNow returns the end of a turn as turn does, or false where somebody else
// changes the service's count.
func (f *Fleet) turnNow(k key) (end func(), ok bool) {
	held := f.turnOf(k)
	return func() { held.Release(1) }, held.TryAcquire(1)
}

// cut reports whether an error came of a context that ended.
func cut(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// startTimeout bounds the creation, the start and the removal of one container.
const startTimeout = time.Minute
