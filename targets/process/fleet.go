package process

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/proc"
	"github.com/hpad/hpad/targets/replicas"
)

// Fleet runs the services of one configuration. It is safe for concurrent use.
type Fleet struct {
	base    targets.Base[*service]
	config  *Config
	env     targets.Env
	counts  *replicas.Store[count]
	sampler *sampler

	mu       sync.Mutex
	services map[string]*service
	// older is the fleet whose services this fleet takes over at Start.
	older    *Fleet
	launcher *launcher
	started  bool
}

// New returns a fleet that has not been started. The configuration must be valid with defaults
// applied; it is not modified.
func New(name string, config *Config, env targets.Env) *Fleet {
	f := &Fleet{config: config, env: env, services: map[string]*service{}}
	f.base.Name, f.base.Parse = name, f.service
	f.counts = replicas.New[count](env.Store, countPrefix)
	for service, c := range config.Services {
		f.services[service] = newService(name, service, c, env, f.counts)
	}
	f.sampler = newSampler(config.ResourceInterval)
	return f
}

// Succeed prepares this fleet to take over the services of an older fleet of the same name at
// Start. Instances of unchanged services continue to run and keep their output; a service is
// unchanged if its processes would be started in the same way. After Start, instances of changed
// services are replaced gradually. Succeed returns false if the older fleet is not a running fleet
// of this kind.
func (f *Fleet) Succeed(older any) bool {
	o, ok := older.(*Fleet)
	if !ok || o == f || o.base.Name != f.base.Name {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.started || o.base.IsClosed() || f.started || f.base.IsClosed() {
		return false
	}
	f.older = o
	return true
}

// Start starts the instances of every service that is not running yet, according to the stored or
// configured count. If a stored count cannot be read, the service's readings return the error.
func (f *Fleet) Start(ctx context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.started || f.base.IsClosed() {
		return fmt.Errorf("start fleet %q: already started or closed", f.base.Name)
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("start fleet %q: %w", f.base.Name, err)
	}
	f.started = true
	f.takeOver()
	if f.launcher == nil {
		f.launcher = newLauncher(f.env.OutputDir)
		f.addRemoved(ctx)
	}
	names := slices.Sorted(maps.Keys(f.services))
	for _, name := range names { // reserve all ports in use before a service takes new ones
		_ = f.services[name].attach(ctx, f.launcher) // start returns the error
	}
	for _, name := range names {
		_ = f.services[name].start(ctx) // the service's readings return the error
	}
	return nil
}

// addRemoved adds services that were removed from the configuration while hpad did not run, with
// the count 0, so that their processes end. After an error, the next start of hpad adds them. The
// caller must hold mu.
func (f *Fleet) addRemoved(ctx context.Context) {
	if f.env.Store == nil {
		return
	}
	stored, err := f.env.Store.List(ctx, recordPrefix)
	if err == nil && len(stored) == 0 && len(f.services) == 0 && f.env.OutputDir != "" {
		_ = os.RemoveAll(f.env.OutputDir) // the fleet itself was removed
	}
	for key := range stored {
		name := strings.TrimPrefix(path.Dir(key), recordPrefix)
		if f.services[name] == nil {
			f.services[name] = newService(f.base.Name, name, Service{MaxSurge: new(int32)}, f.env, f.counts)
			f.counts.Set(name, count{})
		}
	}
}

// takeOver takes over the services of the older fleet unless that fleet was closed. The caller
// must hold mu.
func (f *Fleet) takeOver() {
	o := f.older
	f.older = nil
	if o == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.base.IsClosed() {
		return
	}
	f.launcher = o.launcher.share()
	f.sampler.Inherit(o.sampler)
	for name, s := range f.services {
		if running := o.services[name]; running != nil {
			running.takeOver(s.config, f.env, f.counts)
			f.services[name] = running
		}
	}
}

// Close stops all instances that no newer fleet has taken over, and waits until they have
// ended. An error names the instances that have not ended.
func (f *Fleet) Close() error {
	launcher, stopping := f.end()
	f.sampler.Close()
	grace := time.Duration(0)
	for _, i := range stopping {
		grace = max(grace, i.config.StopGracePeriod)
	}
	if err := await(stopping, grace+killDelay); err != nil {
		// Keep the launcher, because ending it would kill its children.
		return fmt.Errorf("close fleet %q: %w", f.base.Name, err)
	}
	if launcher != nil {
		launcher.release()
	}
	return nil
}

// end closes the fleet. It returns the stopping instances and the launcher, which is nil if the
// fleet was already closed.
func (f *Fleet) end() (*launcher, []*instance) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.base.MarkClosed() {
		return nil, nil
	}
	var stopping []*instance
	for _, name := range slices.Sorted(maps.Keys(f.services)) {
		if s := f.services[name]; s.countStore() == f.counts { // no newer fleet has taken it over
			stopping = append(stopping, s.end()...)
		}
	}
	return f.launcher, stopping
}

// killDelay is the maximum time until a killed process ends, because the kernel may wait for
// devices.
const killDelay = 10 * time.Second

func await(stopping []*instance, limit time.Duration) error {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for n, i := range stopping {
		select {
		case <-i.ended:
		case <-timer.C:
			return fmt.Errorf("%d of %d instances, including %s, have not exited %v after SIGTERM; look for processes in state D", len(stopping)-n, len(stopping), i.id, limit)
		}
	}
	return nil
}

// Snapshot reads the given services. Before Start, it returns the counts that Start would use.
func (f *Fleet) Snapshot(ctx context.Context, refs []targets.Ref) (map[targets.Ref]targets.Reading, error) {
	return f.base.Snapshot(ctx, refs, func(ctx context.Context, wanted map[targets.Ref]*service) (map[targets.Ref]targets.Reading, error) {
		readings := make(map[targets.Ref]targets.Reading, len(wanted))
		for ref, s := range wanted {
			readings[ref] = s.read(ctx)
			f.sampler.Publish(ref, s.instances())
		}
		return readings, nil
	})
}

// SetReplicas stores a service's new count and starts or stops its instances.
func (f *Fleet) SetReplicas(ctx context.Context, ref targets.Ref, n int32, version, _ string) error {
	err := f.base.Usable(ctx)
	if err == nil {
		var s *service
		if s, err = f.base.Target(ref); err == nil {
			err = s.set(ctx, n, version)
		}
	}
	if err != nil {
		return fmt.Errorf("scale service %q of fleet %q to %d replicas: %w", ref.Name, f.base.Name, n, err)
	}
	return nil
}

// Restart replaces all instances of a service as after a change of the service.
func (f *Fleet) Restart(ctx context.Context, ref targets.Ref) error {
	err := f.base.Usable(ctx)
	if err == nil {
		var s *service
		if s, err = f.base.Target(ref); err == nil {
			err = s.restart(ctx)
		}
	}
	if err != nil {
		return fmt.Errorf("restart service %q of fleet %q: %w", ref.Name, f.base.Name, err)
	}
	return nil
}

// Samples returns the CPU and memory usage of each running instance, including its process
// group.
func (f *Fleet) Samples(ctx context.Context, refs []targets.Ref) (map[targets.Ref]targets.Samples, error) {
	return targets.CallUnlessClosed(ctx, &f.base, "sample", func(context.Context) (map[targets.Ref]targets.Samples, error) {
		return f.sampler.Samples(refs)
	})
}

// Check returns missing programs and directories.
func (f *Fleet) Check(ctx context.Context) ([]string, error) {
	return targets.CallUnlessClosed(ctx, &f.base, "check", func(context.Context) ([]string, error) {
		var found []string
		for _, name := range slices.Sorted(maps.Keys(f.config.Services)) {
			if problem := f.config.Services[name].check(); problem != "" {
				found = append(found, fmt.Sprintf("service %q: %s", name, problem))
			}
		}
		return found, nil
	})
}

// check returns a problem with the program or directory of a service, or "".
func (s Service) check() string {
	err := proc.CheckDir(s.Dir)
	if err == nil {
		err = proc.CheckProgram(s.Command[0], s.Dir)
	}
	if err != nil {
		return err.Error()
	}
	return ""
}

func (f *Fleet) service(name string) (*service, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if s, ok := f.services[name]; ok {
		return s, nil
	}
	return nil, fmt.Errorf("%w: %s", targets.ErrTargetNotFound, f.config.CheckTarget(name))
}
