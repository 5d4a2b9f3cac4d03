package process

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/hpad/hpad/guard"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/replicas"
	"github.com/hpad/hpad/targets/rollout"
)

// service is one target: a count and its instances. At a reload, a newer fleet takes it over.
type service struct {
	name  string
	fleet string
	// ctx is canceled when the service ends.
	ctx    context.Context
	cancel context.CancelFunc
	// writing is locked while the count is changed.
	writing *semaphore.Weighted

	mu         sync.Mutex
	env        targets.Env
	config     Service
	definition string
	ports      portRange
	tasks      []policy.Task
	counts     *replicas.Store[count]
	launcher   *launcher
	// current contains the instances of the count in the order of their indexes. stopping
	// contains the instances that are leaving or stopping.
	current, stopping []*instance
	progress          rollout.Progress
	// adopted reports whether the instances of an earlier hpad were adopted.
	adopted bool
	// ended reports whether the service was stopped permanently.
	ended bool
}

// count is the stored count of a service. No instances run until it is known.
type count struct {
	Format   int    `json:"format"`
	Replicas int32  `json:"replicas"`
	Version  uint64 `json:"version"`
	// Restarts is the number of replacements that were requested without a change of the service.
	Restarts uint64 `json:"restarts,omitzero"`
}

const (
	countFormat = 1
	countPrefix = "replicas/"
)

func (c count) version() string { return strconv.FormatUint(c.Version, 10) }

func newService(fleet, name string, config Service, env targets.Env, counts *replicas.Store[count]) *service {
	s := &service{name: name, fleet: fleet, writing: semaphore.NewWeighted(1)}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.takeOver(config, env, counts)
	return s
}

// takeOver passes a service to a fleet. Start then replaces instances with a different definition.
func (s *service) takeOver(config Service, env targets.Env, counts *replicas.Store[count]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.counts != nil {
		counts.Inherit(s.counts, s.name)
	}
	if definition := config.definition(); definition != s.definition {
		s.definition, s.progress = definition, rollout.Progress{}
	}
	s.config, s.env, s.counts = config, env, counts
	s.ports, _ = parsePorts(config.Ports) // the configuration is valid
	task := policy.Task{Name: s.name}
	for _, resource := range slices.Sorted(maps.Keys(config.Requests)) {
		task.Requests = append(task.Requests, config.Requests[resource].Amount(resource))
	}
	s.tasks = []policy.Task{task}
}

func (s *service) countStore() *replicas.Store[count] {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counts
}

// count returns the count, limited by the ports, or false if it is unknown.
func (s *service) count() (count, bool) {
	now, known := s.countStore().Get(s.name)
	if highest := s.maxReplicas(); highest != nil {
		now.Replicas = min(now.Replicas, *highest)
	}
	return now, known
}

// attach sets the launcher and adopts the processes of an earlier hpad.
func (s *service) attach(ctx context.Context, launcher *launcher) error {
	s.mu.Lock()
	s.launcher = launcher
	adopted := s.adopted
	s.mu.Unlock()
	if adopted {
		return nil
	}
	if err := s.writing.Acquire(ctx, 1); err != nil {
		return err
	}
	defer s.writing.Release(1)
	return s.adopt(ctx)
}

// start starts instances until their number equals the inherited, stored or configured count.
func (s *service) start(ctx context.Context) error {
	if err := s.restore(ctx); err != nil {
		return err
	}
	s.scale()
	return nil
}

// restore adopts the processes of an earlier hpad and reads the stored count, unless an earlier
// call has done so.
func (s *service) restore(ctx context.Context) error {
	s.mu.Lock()
	_, known := s.counts.Get(s.name)
	needed := s.launcher != nil && !s.ended && (!known || !s.adopted)
	s.mu.Unlock()
	if !needed {
		return nil
	}
	if err := s.writing.Acquire(ctx, 1); err != nil {
		return err
	}
	defer s.writing.Release(1)
	if err := s.adopt(ctx); err != nil {
		return err
	}
	if _, known := s.count(); !known {
		first, err := s.load(ctx)
		if err != nil {
			return err
		}
		s.countStore().Set(s.name, first)
	}
	s.scale()
	return nil
}

// load returns the stored count, or the configured count, which it does not store.
func (s *service) load(ctx context.Context) (count, error) {
	s.mu.Lock()
	counts, configured := s.counts, s.config.Replicas
	s.mu.Unlock()
	first, saved, err := counts.Read(ctx, s.name)
	corrupt, isCorrupt := errors.AsType[*replicas.CorruptError](err)
	switch {
	case isCorrupt:
		return count{}, fmt.Errorf("%w: stored count %q of service %q cannot be read: %w; give the service another name, or start with an empty state directory", targets.ErrUnscalable, corrupt.Text, s.name, err)
	case err != nil:
		return count{}, fmt.Errorf("load the stored count of service %q: %w", s.name, err)
	case saved:
		return first, nil
	}
	first = count{Format: countFormat, Replicas: 1, Version: 1}
	if configured != nil {
		first.Replicas = *configured
	}
	return first, nil
}

func (c *count) UnmarshalJSON(text []byte) error {
	type plain count
	err := json.Unmarshal(text, (*plain)(c))
	if err == nil && (c.Format != countFormat || c.Replicas < 0) {
		err = fmt.Errorf("want format %d and a count of at least 0", countFormat)
	}
	return err
}

// set stores the count and then starts or stops instances. If the count cannot be stored, it is
// set nevertheless, and set returns a targets.PartialError, because a full disk must not
// prevent a scale-up.
func (s *service) set(ctx context.Context, n int32, version string) error {
	if err := s.writing.Acquire(ctx, 1); err != nil {
		return err
	}
	defer s.writing.Release(1)
	now, known := s.count()
	if err := s.validateChange(now, known, n, version); err != nil {
		return err
	}
	change := func(before count) count { return before } // an earlier call may not have stored the count
	if now.Replicas != n {
		next := count{Format: countFormat, Replicas: n, Version: now.Version + 1, Restarts: now.Restarts}
		change = func(count) count { return next }
	}
	counts := s.countStore()
	unsaved := counts.Commit(ctx, s.name, change)
	if unsaved != nil {
		unsaved = fmt.Errorf("store the count of service %q: %w", s.name, unsaved)
		if ctx.Err() != nil {
			return fmt.Errorf("%w: %w", targets.ErrTransient, unsaved)
		}
		counts.Change(s.name, change)
	}
	s.scale()
	if unsaved != nil {
		return &targets.PartialError{Reached: n, Err: targets.WithClass(targets.ErrTransient, fmt.Errorf("%w; after a restart, hpad would start with an older count", unsaved))}
	}
	return nil
}

// restart makes all instances instances of an old definition, so that scale replaces them.
func (s *service) restart(ctx context.Context) error {
	if err := s.writing.Acquire(ctx, 1); err != nil {
		return err
	}
	defer s.writing.Release(1)
	now, known := s.count()
	err := s.validateChange(now, known, now.Replicas, "")
	if err != nil {
		return err
	}
	err = s.countStore().Commit(ctx, s.name, func(c count) count {
		c.Restarts++
		return c
	})
	if err != nil {
		return fmt.Errorf("%w: store the restart: %w", targets.ErrTransient, err)
	}
	s.mu.Lock()
	s.progress = rollout.Progress{}
	s.mu.Unlock()
	s.scale()
	return nil
}

// validateChange returns an error if the count cannot be set to n.
func (s *service) validateChange(now count, known bool, n int32, version string) error {
	s.mu.Lock()
	running, ports := s.launcher != nil && !s.ended, s.ports
	s.mu.Unlock()
	highest := s.maxReplicas()
	switch {
	case !running:
		return fmt.Errorf("%w: the fleet is not running", targets.ErrTransient)
	case !known:
		return fmt.Errorf("%w: the stored count is unknown", targets.ErrTransient)
	case n < 0:
		return &targets.OutOfRangeError{Max: highest, Err: fmt.Errorf("%d is less than 0", n)}
	case highest != nil && n > *highest:
		return &targets.OutOfRangeError{Max: highest, Err: fmt.Errorf("ports %q limit the count to %d", ports, *highest)}
	case version != "" && version != now.version():
		return fmt.Errorf("%w: version %s is now %s", targets.ErrConflict, version, now.version())
	}
	return nil
}

// maxReplicas returns the maximum count, or nil if there is no limit.
func (s *service) maxReplicas() *int32 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if highest := s.ports.count(); highest > 0 {
		return &highest
	}
	return nil
}

// scale starts and stops instances according to the count and the definition. It is called after
// each change to the count, the definition or the readiness of an instance, and before each
// reading. New instances use the lowest free indexes.
func (s *service) scale() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.counts.Get(s.name); s.ended || !known || !s.adopted || s.launcher == nil {
		return
	}
	counts, old, fresh := s.rolloutLocked()
	strategy, working := s.strategyLocked(old)
	step := counts.Next(strategy)
	victims := slices.Concat(s.victimsLocked(old, step.StopOld), s.victimsLocked(fresh, step.StopFresh))
	index := 0
	add := func(n int, config Service, definition string) {
		for ; n > 0; index++ {
			if _, taken := slices.BinarySearchFunc(s.current, index, compareIndex); !taken {
				s.addLocked(newInstance(s, index, config, definition))
				n--
			}
		}
	}
	add(step.StartFresh, s.config, s.currentDefinition())
	if step.StartOld > 0 {
		add(step.StartOld, working.config, working.definition)
	}
	s.removeLocked(victims)
}

func compareIndex(i *instance, index int) int { return i.index - index }

// removeLocked stops leaving instances in the background after the drain delay.
func (s *service) removeLocked(victims []*instance) {
	if len(victims) == 0 {
		return
	}
	env, delay := s.env, s.config.DrainDelay
	victims = slices.Clone(victims) // remove modifies s.stopping, which adopt passes
	guard.Go(func() {
		if !env.Leave(s.ctx, targets.Ref{Fleet: s.fleet, Name: s.name}, delay) {
			return // end stops or detaches them
		}
		for _, victim := range victims {
			victim.stop()
		}
	})
}

// victimsLocked makes n of the given instances leave, and returns them in the order in which they
// must be stopped. Among equal instances, the highest index comes first.
func (s *service) victimsLocked(among []*instance, n int) []*instance {
	if n <= 0 {
		return nil
	}
	read := make(map[*instance]policy.Instance, len(among))
	for _, i := range among {
		read[i], _ = i.read()
	}
	victims := slices.SortedFunc(slices.Values(among), func(a, b *instance) int {
		first, second := read[a], read[b]
		return cmp.Or(targets.CompareForRemoval(&first, &second, 0), cmp.Compare(b.index, a.index))
	})[:n]
	for _, victim := range victims {
		s.current = slices.DeleteFunc(s.current, func(i *instance) bool { return i == victim })
		s.stopping = append(s.stopping, victim)
		victim.leave()
	}
	return victims
}

func (s *service) remove(ended *instance) {
	isEnded := func(i *instance) bool { return i == ended }
	s.mu.Lock()
	s.stopping = slices.DeleteFunc(s.stopping, isEnded)
	s.current = slices.DeleteFunc(s.current, isEnded)
	s.mu.Unlock()
	s.scale()
}

// end stops or detaches the instances permanently without the drain delay, and returns them. The
// stored count is kept.
func (s *service) end() []*instance {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	s.cancel()
	if s.env.Exiting != nil && s.env.Exiting() && !s.config.StopWithHpad {
		all := slices.Concat(s.current, s.stopping)
		for _, i := range all {
			i.cancel(errDetached)
		}
		return all
	}
	s.victimsLocked(s.current, len(s.current))
	for _, i := range s.stopping {
		i.stop()
	}
	return slices.Clone(s.stopping)
}

// read returns the service's reading. Before Start, the reading contains the count that Start would
// use.
func (s *service) read(ctx context.Context) targets.Reading {
	reading := targets.Reading{Max: s.maxReplicas(), Observed: time.Now()}
	err := s.restore(ctx)
	s.scale()
	now, known := s.count()
	if err == nil && !known {
		now, err = s.load(ctx)
	}
	if err != nil {
		if !errors.Is(err, targets.ErrUnscalable) {
			err = fmt.Errorf("%w: %w", targets.ErrTransient, err)
		}
		return targets.Reading{Err: err, Observed: reading.Observed}
	}
	if known {
		_ = s.countStore().Save(ctx, s.name) // set has already returned the error
	}
	reading.SpecReplicas, reading.Version = now.Replicas, now.version()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended && known {
		return targets.Reading{Err: fmt.Errorf("%w: service %q was stopped", targets.ErrTransient, s.name), Observed: reading.Observed}
	}
	reading.StatusReplicas = int32(len(s.current))
	all := slices.Concat(s.current, s.stopping)
	reading.Instances = make([]policy.Instance, len(all))
	locations := make(targets.LocationList, len(all))
	for i, each := range all {
		reading.Instances[i], locations[i] = each.read()
		reading.Instances[i].Tasks = s.tasks
	}
	reading.Locations = locations
	for _, notice := range []*policy.Notice{s.notice(reading.Observed), s.replacement(reading.Observed)} {
		if notice != nil {
			reading.Notices = append(reading.Notices, *notice)
		}
	}
	return reading
}

func (s *service) instances() []*instance {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.current)
}
