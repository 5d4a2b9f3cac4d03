package compose

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/docker/docker/api/types/network"
	"golang.org/x/sync/semaphore"

	"github.com/hpad/hpad/guard"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/docker"
)

// maxServiceReads limits the number of services that are read concurrently.
const maxServiceReads = 4

// networkInspect omits a network's containers.
var networkInspect = network.InspectOptions{}

// Fleet reads and scales the services of the Compose projects on one engine. It is safe for
// concurrent use.
type Fleet struct {
	base   targets.Base[key]
	config *Config
	env    targets.Env
	engine *docker.Engine
	// waiting has separate connections for calls that block until a container has stopped, so
	// that they do not delay other calls.
	waiting *docker.Engine
	sampler *docker.Sampler
	store   *store
	// quiet is composeQuiet, or shorter in tests.
	quiet  time.Duration
	dryRun bool
	// now is the clock for the back-offs. It never goes backward.
	now func() time.Time

	// Close cancels ctx, which stops all background work.
	ctx        context.Context
	cancel     context.CancelFunc
	background guard.Tasks
	// starts serializes container starts, because the engine assigns ports from a range in start
	// order.
	starts *semaphore.Weighted

	// loading is locked while the store is read.
	loading sync.Mutex
	loaded  bool

	mu       sync.Mutex
	started  bool
	follower follower
	// details caches the details of containers by ID.
	details map[string]*detail
	// removing is the set of IDs of containers that are being removed.
	removing map[string]bool
	// errors explains failed removals and other background operations, by container ID or by a name
	// for the operation.
	errors map[string]string
	// locks contains a lock for each service, which is held while its containers are created or
	// chosen for removal.
	locks map[key]*semaphore.Weighted
	// overdue contains a channel for each service whose write exceeded its deadline. The channel is
	// closed when the write has ended.
	overdue map[key]<-chan struct{}
}

// New returns a fleet that connects at its first reading. The configuration must be valid with
// defaults applied; it is not modified. An error names a file that cannot be used.
func New(name string, config *Config, options targets.Env) (*Fleet, error) {
	if options.Store == nil {
		return nil, fmt.Errorf("fleet %q: a store is required", name)
	}
	engine, err := docker.Connect(&config.Config, options.Lease)
	if err != nil {
		return nil, fmt.Errorf("connect fleet %q: %w", name, err)
	}
	waiting, err := docker.Connect(&config.Config, options.Lease)
	if err != nil {
		return nil, fmt.Errorf("connect fleet %q: %w", name, err)
	}
	f := &Fleet{
		config: config, env: options, engine: engine, waiting: waiting, sampler: docker.NewSampler(config.ResourceInterval),
		store: newStore(options.Store), details: map[string]*detail{}, removing: map[string]bool{}, errors: map[string]string{},
		now: options.Now, dryRun: options.DryRun, quiet: composeQuiet,
		follower: follower{runs: map[string]run{}, started: map[string]time.Time{}},
		starts:   semaphore.NewWeighted(1), locks: map[key]*semaphore.Weighted{}, overdue: map[key]<-chan struct{}{},
	}
	if f.now == nil {
		f.now = time.Now
	}
	f.base.Name, f.base.Parse = name, parseName
	f.ctx, f.cancel = context.WithCancel(context.Background())
	return f, nil
}

// Start continues the removals of a previous hpad process. It reads the store again, because an
// older fleet of the same name may have written to it until now. If that fails, the next
// reading retries.
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

// Close stops the background work and closes the connections. The next fleet with the same
// store continues the removals.
func (f *Fleet) Close() error {
	f.mu.Lock() // no background work can start while mu is locked
	first := f.base.MarkClosed()
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

// load reads the store once and continues the stored removals.
func (f *Fleet) load(ctx context.Context) error {
	f.loading.Lock()
	defer f.loading.Unlock()
	if f.loaded {
		return nil
	}
	if err := f.store.Load(ctx); err != nil {
		return err
	}
	f.loaded = true
	return nil
}

// Samples returns the CPU and memory usage of each running container.
func (f *Fleet) Samples(ctx context.Context, refs []targets.Ref) (map[targets.Ref]targets.Samples, error) {
	return targets.CallUnlessClosed(ctx, &f.base, "sample", func(context.Context) (map[targets.Ref]targets.Samples, error) {
		return f.sampler.Samples(refs)
	})
}

// Snapshot lists the engine's containers once, and inspects each container that is new or has
// changed.
func (f *Fleet) Snapshot(ctx context.Context, refs []targets.Ref) (map[targets.Ref]targets.Reading, error) {
	return f.base.Snapshot(ctx, refs, f.snapshot)
}

func (f *Fleet) snapshot(ctx context.Context, keys map[targets.Ref]key) (map[targets.Ref]targets.Reading, error) {
	if err := f.load(ctx); err != nil {
		return nil, err
	}
	f.resume()
	f.follow()
	starting := f.stillStarting() // before the list, which then contains the result of every other write
	l, err := f.list(ctx, "")
	if err != nil {
		return nil, err
	}
	f.forgetDetails(l)
	f.repair(ctx, l, maps.Values(keys))
	var members []*member
	for _, k := range keys {
		members = append(members, l.services[k]...)
	}
	known, failed := f.detailsOf(ctx, members, l.observed)
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("%w: inspect containers: %w", targets.ErrTransient, context.Cause(ctx))
	}
	refs := slices.Collect(maps.Keys(keys))
	found := make([]targets.Reading, len(refs))
	var group guard.Group
	group.SetLimit(maxServiceReads)
	for n, ref := range refs {
		group.Go(func() error {
			reading, err := f.reading(ctx, ref, keys[ref], l, known, failed)
			if starting[keys[ref]] {
				err = fmt.Errorf("%w: containers of service %q are still being started", targets.ErrTransient, keys[ref])
			}
			if err != nil {
				f.sampler.Withdraw(ref)
				reading = targets.Reading{Err: err, Observed: l.observed}
			}
			found[n] = reading
			return nil
		})
	}
	_ = group.Wait() // each target has its own error
	f.deleteUnused(ctx, l)
	readings := make(map[targets.Ref]targets.Reading, len(refs))
	for n, ref := range refs {
		readings[ref] = found[n]
	}
	return readings, nil
}

// deleteUnused deletes the records of services that have no containers and cannot be started
// from 0.
func (f *Fleet) deleteUnused(ctx context.Context, l *containerList) {
	for _, k := range f.store.services() {
		if len(l.services[k]) > 0 || len(f.store.of(k).Removing) > 0 || f.templateOf(k, l) != nil {
			continue
		}
		if unlock, ok := f.tryLock(k); ok {
			f.store.update(ctx, k, func(r *serviceRecord) { *r = serviceRecord{} })
			unlock()
		}
	}
}

func (f *Fleet) reading(ctx context.Context, ref targets.Ref, k key, l *containerList, known map[string]*detail, failed map[string]error) (targets.Reading, error) {
	members := l.services[k]
	for _, m := range members {
		if err := failed[m.ID]; err != nil {
			return targets.Reading{}, err
		}
	}
	living := counted(members)
	reading := targets.Reading{SpecReplicas: int32(len(living)), Version: versionOf(living), Observed: l.observed}
	before := f.store.of(k).Instances
	next := make(map[string]instanceRecord, len(members))
	var sampled []docker.Container
	var locations targets.LocationList
	for _, m := range members {
		d := known[m.ID]
		if d == nil || m.spare {
			continue
		}
		record := nextRecord(m, d, before[m.ID], l.observed)
		next[m.ID] = record
		instance := m.instance(record, d.requests)
		reading.Instances = append(reading.Instances, instance)
		location := m.location()
		location.Limits, location.UnreadyReason, location.HealthOutput = d.resourceLimits, m.unreadyReason(d), m.healthOutput(d)
		locations = append(locations, location)
		if !instance.Deleting && instance.Phase != policy.PhaseFailed && instance.Phase != policy.PhaseSucceeded {
			reading.StatusReplicas++
		}
		if m.State == "running" && !m.doomed {
			sampled = append(sampled, docker.Container{Instance: m.ID, Task: k.service, Name: m.name, Engine: f.engine, ID: m.ID, Started: record.Started})
		}
	}
	reading.Locations = locations
	f.store.update(ctx, k, func(r *serviceRecord) { r.Instances = next })
	if len(living) == 0 {
		if err := f.readZero(ctx, k, l, &reading); err != nil {
			return targets.Reading{}, err
		}
		f.sampler.Publish(ref, nil)
		return reading, nil
	}
	reading.Hold = cmp.Or(hold(k, members), f.stoppedHold(k, living, known))
	from := source(living)
	if d := known[from.ID]; d != nil && reading.Hold == nil {
		if d.limits.refusal != nil {
			return targets.Reading{}, d.limits.refusal
		}
		reading.Max = d.limits.most
	}
	f.restartFailed(ctx, k, members, known, l, reading.Hold != nil)
	reading.Notices = f.notices(k, members, living, known, reading.Hold)
	f.sampler.Publish(ref, sampled)
	return reading, nil
}

// notices returns the notices of a service with containers.
func (f *Fleet) notices(k key, members, living []*member, known map[string]*detail, held *policy.Hold) (notices []policy.Notice) {
	failures := f.store.of(k).Failed
	failing := failingNotice(living, known, failures)
	if held != nil && held.Reason == ServiceStopped {
		failing = nil
	}
	for _, notice := range []*policy.Notice{failing, restartNotice(living, failures), obsoleteNotice(k, members)} {
		if notice != nil {
			notices = append(notices, *notice)
		}
	}
	return notices
}

// readZero uses the template to complete the reading of a service without containers.
func (f *Fleet) readZero(ctx context.Context, k key, l *containerList, reading *targets.Reading) error {
	t := f.templateOf(k, l)
	if t == nil {
		return &targets.ReasonError{Reason: ServiceNotFound, Err: fmt.Errorf("%w: service %q of project %q has no container; \"docker compose up -d %s\" creates the first one", targets.ErrTargetNotFound, k.service, k.project, k.service)}
	}
	reading.Max = t.Most
	missing, err := f.missing(ctx, t.Blueprint)
	if err != nil {
		return err
	}
	if missing != "" {
		reading.Hold = unusable(k, missing)
	}
	return nil
}

func (f *Fleet) lockOf(k key) *semaphore.Weighted {
	f.mu.Lock()
	defer f.mu.Unlock()
	lock := f.locks[k]
	if lock == nil {
		lock = semaphore.NewWeighted(1)
		f.locks[k] = lock
	}
	return lock
}

// lock waits until no other change to the service is in progress.
func (f *Fleet) lock(ctx context.Context, k key) (unlock func(), err error) {
	lock := f.lockOf(k)
	if lock.Acquire(ctx, 1) != nil {
		return nil, fmt.Errorf("%w: an earlier change of service %q is still in progress: %w", targets.ErrTransient, k, context.Cause(ctx))
	}
	return func() { lock.Release(1) }, nil
}

// tryLock returns false if a change to the service is in progress.
func (f *Fleet) tryLock(k key) (unlock func(), ok bool) {
	lock := f.lockOf(k)
	return func() { lock.Release(1) }, lock.TryAcquire(1)
}
