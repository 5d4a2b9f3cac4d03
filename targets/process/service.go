package process

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
)

// service is one target: a wanted count and the instances that there are. It
// passes from fleet to fleet at a reload.
type service struct {
	name    string
	key     string
	output  Output
	earlier func(service string) (int32, bool)

	// writing is held while the count is changed; a channel, so that waiting for
	// it ends with a context. What it guards is also guarded by mu.
	writing chan struct{}

	mu      sync.Mutex
	config  Service
	ports   portRange
	tasks   []policy.Task
	store   targets.Store
	nursery *nursery
	// restored says that want is known; before, there are no instances.
	restored bool
	want     int32
	version  uint64
	// unsaved says that the store has an older count.
	unsaved bool
	// living are the wanted instances: living[i] has index i. leaving are those
	// being stopped.
	living, leaving []*instance
	// ended says that the service is stopped for good.
	ended bool
	// before is the service this one replaces, while instances of it are leaving.
	before *service
}

// savedCount is what the store keeps of a service.
type savedCount struct {
	Format   int    `json:"format"`
	Replicas int32  `json:"replicas"`
	Version  uint64 `json:"version"`
}

const savedFormat = 1

func newService(name string, config Service, options Options) *service {
	s := &service{
		name: name, key: "replicas/" + name, output: options.Output, earlier: options.Earlier, store: options.Store,
		writing: make(chan struct{}, 1),
	}
	s.configure(config)
	return s
}

// configure sets the configuration. The caller holds the lock, or nobody else
// knows the service yet.
func (s *service) configure(config Service) {
	s.config = config
	s.ports, _ = parsePorts(config.Ports) // the configuration is valid
	task := policy.Task{Name: s.name}
	for _, resource := range slices.Sorted(maps.Keys(config.Requests)) {
		task.Requests = append(task.Requests, config.Requests[resource].Amount(resource))
	}
	s.tasks = []policy.Task{task}
}

// sameProcesses says whether instances of one configuration may go on under
// another one.
func sameProcesses(a, b Service) bool {
	a.Requests, b.Requests = nil, nil
	a.Replicas, b.Replicas = nil, nil
	return reflect.DeepEqual(a, b)
}

// takeOver gives a running service to a fleet with a configuration of the same
// processes.
func (s *service) takeOver(config Service, store targets.Store) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.configure(config)
	s.store = store
}

// lock holds the count for a change.
func (s *service) lock(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case s.writing <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *service) unlock() { <-s.writing }

// start begins the instances of the count of the service it replaces, else of
// the saved count, else of the configured one.
func (s *service) start(ctx context.Context, nursery *nursery, before *service) error {
	if err := s.lock(ctx); err != nil {
		return err
	}
	defer s.unlock()
	s.mu.Lock()
	s.nursery, s.before = nursery, before
	if before != nil {
		if count, ok := before.count(); ok {
			s.begin(count)
		}
	}
	s.mu.Unlock()
	return s.restore(ctx)
}

// count answers the count and version, when they are known.
func (s *service) count() (savedCount, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return savedCount{Format: savedFormat, Replicas: s.want, Version: s.version}, s.restored
}

// begin begins the instances of a count. The caller holds the lock.
func (s *service) begin(count savedCount) {
	s.restored, s.want, s.version = true, count.Replicas, count.Version
	if highest := s.ports.count(); highest > 0 {
		s.want = min(s.want, highest)
	}
	s.scale()
}

// resume restores a count that could not be loaded so far.
func (s *service) resume(ctx context.Context) error {
	s.mu.Lock()
	waiting := s.nursery != nil && !s.restored
	s.mu.Unlock()
	if !waiting {
		return nil
	}
	if err := s.lock(ctx); err != nil {
		return err
	}
	defer s.unlock()
	return s.restore(ctx)
}

// restore loads the count and begins its instances. The caller holds the count.
func (s *service) restore(ctx context.Context) error {
	s.mu.Lock()
	done := s.restored || s.ended
	s.mu.Unlock()
	if done {
		return nil
	}
	count, saved, err := s.load(ctx)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unsaved = !saved // the next reading saves it
	s.begin(count)
	return nil
}

// load returns the count to begin with, and whether it is saved, or need not be: the
// saved count, else the one before the store was lost, else the configured one, which
// may be another one at the next start.
func (s *service) load(ctx context.Context) (count savedCount, saved bool, err error) {
	first := savedCount{Format: savedFormat, Replicas: 1, Version: 1}
	s.mu.Lock()
	store := s.store
	if s.config.Replicas != nil {
		first.Replicas = *s.config.Replicas
	}
	s.mu.Unlock()
	if store == nil {
		return first, true, nil
	}
	value, err := store.Load(ctx, s.key)
	if err != nil {
		return savedCount{}, false, fmt.Errorf("load the saved count of service %q: %w", s.name, err)
	}
	if value == nil {
		if s.earlier != nil {
			if replicas, known := s.earlier(s.name); known {
				first.Replicas = replicas
				return first, false, nil
			}
		}
		return first, true, nil
	}
	err = json.Unmarshal(value, &count)
	if err == nil && (count.Format != savedFormat || count.Replicas < 0) {
		err = fmt.Errorf("want format %d and a count of at least 0", savedFormat)
	}
	if err != nil {
		return savedCount{}, false, fmt.Errorf("%w: saved count %q of service %q cannot be read: %w; give the service another name, or start with an empty state directory", targets.ErrUnscalable, value, s.name, err)
	}
	return count, true, nil
}

// set changes the count: first what is saved, then the instances. A count that
// cannot be saved is set all the same, and told as a targets.PartialError: a full
// disk must not keep a fleet from growing.
func (s *service) set(ctx context.Context, n int32, version string) error {
	if err := s.lock(ctx); err != nil {
		return err
	}
	defer s.unlock()
	s.mu.Lock()
	next := savedCount{Format: savedFormat, Replicas: n, Version: s.version + 1}
	store, err := s.store, s.refuse(n, version)
	same := s.want == n
	s.mu.Unlock()
	if err != nil || same {
		return err
	}
	unsaved := s.save(ctx, store, next)
	if unsaved != nil && ctx.Err() != nil {
		return fmt.Errorf("%w: %w", targets.ErrTransient, unsaved)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.want, s.version, s.unsaved = next.Replicas, next.Version, unsaved != nil
	s.scale()
	if unsaved != nil {
		return &targets.PartialError{Reached: n, Err: fmt.Errorf("%w: a restart would begin with an older count: %w", targets.ErrTransient, unsaved)}
	}
	return nil
}

// save writes a count into the store, where there is one.
func (s *service) save(ctx context.Context, store targets.Store, count savedCount) error {
	if store == nil {
		return nil
	}
	value, err := json.Marshal(count)
	if err == nil {
		err = store.Save(ctx, s.key, value)
	}
	if err != nil {
		return fmt.Errorf("save the count of service %q: %w", s.name, err)
	}
	return nil
}

// saveLate tries again to save a count that could not be saved when it was set.
// Another change under way does that itself.
func (s *service) saveLate(ctx context.Context) {
	select {
	case s.writing <- struct{}{}:
		defer s.unlock()
	default:
		return
	}
	s.mu.Lock()
	store, unsaved := s.store, s.unsaved
	count := savedCount{Format: savedFormat, Replicas: s.want, Version: s.version}
	s.mu.Unlock()
	if !unsaved || s.save(ctx, store, count) != nil {
		return // set told that it is not saved
	}
	s.mu.Lock()
	s.unsaved = false
	s.mu.Unlock()
}

// refuse answers why a count cannot be set; nil means that it can. The caller
// holds the lock.
func (s *service) refuse(n int32, version string) error {
	highest := s.highest()
	switch {
	case s.nursery == nil || s.ended:
		return fmt.Errorf("%w: the fleet is not running", targets.ErrTransient)
	case !s.restored:
		return fmt.Errorf("%w: the saved count is not known", targets.ErrTransient)
	case n < 0 || highest != nil && n > *highest:
		return &targets.OutOfRangeError{Max: highest, Err: s.bounds(n)}
	case version != "" && version != s.versionText():
		return fmt.Errorf("%w: version %s is now %s", targets.ErrConflict, version, s.versionText())
	}
	return nil
}

func (s *service) bounds(n int32) error {
	if n < 0 {
		return fmt.Errorf("%d is below 0", n)
	}
	return fmt.Errorf("ports %q are %d, one for each instance", s.ports, s.ports.count())
}

// highest answers the bound on the count; nil means none.
func (s *service) highest() *int32 {
	if highest := s.ports.count(); highest > 0 {
		return &highest
	}
	return nil
}

func (s *service) versionText() string { return strconv.FormatUint(s.version, 10) }

// scale brings the instances to the wanted count, at once for those that stop
// and in the background for those that start. The highest index stops first.
// The caller holds the lock.
func (s *service) scale() {
	if s.ended {
		return
	}
	for len(s.living) < int(s.want) {
		i := newInstance(s.name, len(s.living), s.config, s.nursery, s.output)
		s.living = append(s.living, i)
		go func() {
			defer close(i.gone)
			i.run()
			s.forget(i)
		}()
	}
	s.stopDownTo(int(s.want))
}

func (s *service) stopDownTo(n int) {
	for index := len(s.living) - 1; index >= n; index-- {
		victim := s.living[index]
		s.living = s.living[:index]
		s.leaving = append(s.leaving, victim)
		victim.stop()
	}
}

func (s *service) forget(gone *instance) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leaving = slices.DeleteFunc(s.leaving, func(i *instance) bool { return i == gone })
}

// end stops the service for good, and answers what is stopping. The saved count
// stays.
func (s *service) end() []*instance {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	s.stopDownTo(0)
	stopping := slices.Clone(s.leaving)
	if s.before != nil {
		stopping = append(stopping, s.before.end()...)
	}
	return stopping
}

// read answers the service's reading.
func (s *service) read(ctx context.Context) targets.Reading {
	now := time.Now()
	if err := s.resume(ctx); err != nil {
		return targets.Reading{Err: classed(err), Observed: now}
	}
	if _, restored := s.count(); !restored {
		// The fleet was not started: this is what a start begins with.
		count, _, err := s.load(ctx)
		if err != nil {
			return targets.Reading{Err: classed(err), Observed: now}
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		return targets.Reading{SpecReplicas: count.Replicas, Max: s.highest(), Version: strconv.FormatUint(count.Version, 10), Observed: now}
	}
	s.saveLate(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return targets.Reading{Err: fmt.Errorf("%w: service %q was stopped", targets.ErrTransient, s.name), Observed: now}
	}
	reading := targets.Reading{
		SpecReplicas: s.want, StatusReplicas: int32(len(s.living)), Max: s.highest(),
		Version: s.versionText(), Observed: now,
	}
	all := slices.Concat(s.living, s.leaving, s.departing())
	reading.Instances = make([]policy.Instance, len(all))
	reading.Locations = make([]targets.Location, len(all))
	for i, each := range all {
		reading.Instances[i], reading.Locations[i] = each.read()
		reading.Instances[i].Tasks = s.tasks
	}
	return reading
}

// departing answers the instances of the service that this one replaces.
func (s *service) departing() []*instance {
	if s.before == nil {
		return nil
	}
	stopping := s.before.end()
	if len(stopping) == 0 {
		s.before = nil
	}
	return stopping
}

// instances answers the wanted instances.
func (s *service) instances() []*instance {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.living)
}
