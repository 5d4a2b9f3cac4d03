package process

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/replicas"
)

// Output returns the writer of an instance's output, by service and instance id, and
// is called once for each instance. The writer gets one line with each call, never two
// calls at once, and is closed, if it can be, when the instance is gone. Lines that
// begin with "hpad: " are hpad's own, of starts that failed and processes that ended.
type Output func(service, instance string) io.Writer

// Fleet runs the services of one configuration. It is safe for concurrent use.
type Fleet struct {
	base    targets.Base[*service]
	config  *Config
	counts  *replicas.Store[count]
	sampler *sampler

	mu       sync.Mutex
	services map[string]*service
	// older is the fleet to take over from at Start.
	older *Fleet
	// lent are the names of services that a newer fleet took.
	lent    map[string]bool
	nursery *nursery
	started bool
}

// New returns a fleet of that name that has not been started. The configuration
// is defaulted and valid, and is not modified.
func New(name string, config *Config, options targets.Env) *Fleet {
	f := &Fleet{config: config, services: map[string]*service{}, lent: map[string]bool{}}
	f.base.Name, f.base.Parse = name, f.service
	f.counts = replicas.New[count](options.Store, countPrefix)
	for service, c := range config.Services {
		f.services[service] = newService(service, c, options, f.counts)
	}
	f.sampler = newSampler(config.ResourceInterval)
	return f
}

// Succeed prepares to take over from an older fleet of the same name at Start.
// Instances of services whose configuration is the same go on, with the output
// they have; requests and the first count may differ. Those of changed services
// are stopped and replaced at Start. It returns false when the older one is none, or
// has nothing that runs.
func (f *Fleet) Succeed(older any) bool {
	o, ok := older.(*Fleet)
	if !ok || o == f || o.base.Name != f.base.Name {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.started || o.base.Ended() || f.started || f.base.Ended() {
		return false
	}
	f.older = o
	f.nursery = o.nursery.share()
	for name, running := range o.services {
		c, ok := f.config.Services[name]
		if !ok {
			continue
		}
		o.lent[name] = true
		if sameProcesses(running.config, c) {
			running.takeOver(c, f.counts)
			f.services[name] = running
		}
	}
	f.sampler.Inherit(o.sampler)
	return true
}

// Start starts the saved count of every service that is not running yet, or else the
// configured one. A service whose saved count cannot be read has
// the error in its readings, and holds up none of the others.
func (f *Fleet) Start(ctx context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.started || f.base.Ended() {
		return fmt.Errorf("start fleet %q: it was started or closed before", f.base.Name)
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("start fleet %q: %w", f.base.Name, err)
	}
	f.started = true
	if f.nursery == nil {
		f.nursery = newNursery()
	}
	for _, name := range slices.Sorted(maps.Keys(f.services)) {
		s := f.services[name]
		var before *service
		if f.older != nil {
			before = f.older.services[name]
		}
		if before == s {
			continue
		}
		if before != nil {
			before.end()
		}
		_ = s.start(ctx, f.nursery, before) // its readings have the error
	}
	f.older = nil
	return nil
}

// Close stops all instances that no newer fleet has taken, all at once, and
// returns when they are gone. An error names those that did not end even so.
func (f *Fleet) Close() error {
	nursery, stopping := f.end()
	f.sampler.Close()
	grace := time.Duration(0)
	for _, i := range stopping {
		grace = max(grace, i.config.StopGracePeriod)
	}
	if err := await(stopping, grace+killDelay); err != nil {
		// The nursery stays: it must not end before its children.
		return fmt.Errorf("close fleet %q: %w", f.base.Name, err)
	}
	if nursery != nil {
		nursery.leave()
	}
	return nil
}

// end ends the fleet, and returns its nursery, nil where there is none to leave, and
// the instances that are stopping.
func (f *Fleet) end() (*nursery, []*instance) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.base.End() {
		return nil, nil
	}
	if f.older != nil { // Start did not come
		older := f.older
		older.mu.Lock()
		for name := range older.lent {
			if older.base.Ended() {
				f.services[name] = older.services[name]
			} else {
				f.lent[name] = true
			}
		}
		if !older.base.Ended() {
			clear(older.lent)
		}
		older.mu.Unlock()
	}
	var stopping []*instance
	for _, name := range slices.Sorted(maps.Keys(f.services)) {
		if !f.lent[name] {
			stopping = append(stopping, f.services[name].end()...)
		}
	}
	return f.nursery, stopping
}

// killDelay is how long a killed process may take to go: the kernel lets one
// that waits for a device finish.
const killDelay = 10 * time.Second

func await(stopping []*instance, limit time.Duration) error {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for n, i := range stopping {
		select {
		case <-i.gone:
		case <-timer.C:
			return fmt.Errorf("%d of %d instances, %s among them, have not ended %v after SIGTERM; look for processes in state D", len(stopping)-n, len(stopping), i.id, limit)
		}
	}
	return nil
}

// Snapshot reads the given services, without a call: the fleet itself is the
// platform. Before Start it reads what a start would begin with.
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

// SetReplicas saves a service's new count and starts or stops its instances. A
// count that the service has already changes nothing.
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

// Samples returns cpu and memory of each running instance, as its process group
// used them, and begins to sample when nobody has asked for a while.
func (f *Fleet) Samples(ctx context.Context, refs []targets.Ref) (map[targets.Ref]targets.Samples, error) {
	return targets.Ask(ctx, &f.base, "sample", func(context.Context) (map[targets.Ref]targets.Samples, error) {
		return f.sampler.Samples(refs)
	})
}

// Check returns what would keep instances from running: programs and directories
// that are not there, a shell to guard with, and, of a started fleet, what went
// wrong with its instances.
func (f *Fleet) Check(ctx context.Context) ([]string, error) {
	return targets.Ask(ctx, &f.base, "check", func(context.Context) ([]string, error) {
		if _, err := exec.LookPath("sh"); err != nil {
			return nil, fmt.Errorf("the shell that ends instances when hpad is killed: %w; install a POSIX shell in hpad's PATH", err)
		}
		var found []string
		for _, name := range slices.Sorted(maps.Keys(f.config.Services)) {
			if trouble := f.config.Services[name].check(); trouble != "" {
				found = append(found, fmt.Sprintf("service %q: %s", name, trouble))
			}
			running, err := f.service(name)
			if err != nil {
				return nil, err
			}
			for _, i := range running.instances() {
				if trouble := i.state(); trouble != "" {
					found = append(found, fmt.Sprintf("service %q: instance %s: %s", name, i.id, trouble))
				}
			}
		}
		return found, nil
	})
}

// check returns what of a service is not there; "" for nothing.
func (s Service) check() string {
	if s.Dir != "" {
		info, err := os.Stat(s.Dir)
		switch {
		case err != nil:
			return fmt.Sprintf("dir: %v", err)
		case !info.IsDir():
			return fmt.Sprintf("dir: %s is not a directory", s.Dir)
		}
	}
	program := s.Command[0]
	if s.Dir != "" && filepath.Base(program) != program && !filepath.IsAbs(program) { // found from there
		program = filepath.Join(s.Dir, program)
	}
	if _, err := exec.LookPath(program); err != nil {
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
