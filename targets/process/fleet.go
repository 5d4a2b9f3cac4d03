package process

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"sync"
	"time"

	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/ledger"
)

// Options are what a fleet is given besides its configuration.
type Options struct {
	// Store keeps the counts; nil keeps none, so that every start begins with the
	// configured ones.
	Store targets.Store
	// Earlier returns the count that a service had before the store lost it; false
	// where that is not known. Nil knows nothing.
	Earlier func(service string) (int32, bool)
	// Output answers where an instance's output goes; nil, as a function or as its
	// answer, discards it.
	Output Output
}

// Output answers the writer of an instance's output, by service and instance id.
// It is asked once for each instance. The writer gets one line with each call,
// never two calls at once, and is closed, if it can be, when the instance is
// gone. A line that begins with "hpad: " is hpad's own and tells of starts that
// failed and processes that ended.
type Output func(service, instance string) io.Writer

// Fleet runs the services of one configuration. It is safe for concurrent use.
type Fleet struct {
	name    string
	config  *Config
	life    targets.Life
	counts  *ledger.Ledger[count]
	sampler *sampler

	mu       sync.Mutex
	services map[string]*service
	// older is the fleet to take over from at Start.
	older *Fleet
	// lent names the services that a newer fleet took.
	lent    map[string]bool
	nursery *nursery
	started bool
}

// New answers a fleet of that name that has not been started. The configuration
// is defaulted and valid, and is not modified.
func New(name string, config *Config, options Options) *Fleet {
	f := &Fleet{name: name, config: config, services: map[string]*service{}, lent: map[string]bool{}}
	f.counts = ledger.New[count](options.Store, countPrefix)
	for service, c := range config.Services {
		f.services[service] = newService(service, c, options, f.counts)
	}
	f.sampler = newSampler(config.ResourceInterval, f.sampled)
	return f
}

// Succeed prepares to take over from an older fleet of the same name at Start.
// Instances of services whose configuration is the same go on, with the output
// they have; requests and the first count may differ. Those of changed services
// are stopped and replaced at Start. It says false when the older one is none, or
// has nothing that runs.
func (f *Fleet) Succeed(older any) bool {
	o, ok := older.(*Fleet)
	if !ok || o == f || o.name != f.name {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.started || o.life.Ended() || f.started || f.life.Ended() {
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
	f.sampler.inherit(o.sampler)
	return true
}

// Start begins the saved count of every service that is not running yet, or else the
// earlier, or else the configured one. A service whose saved count cannot be read says so in its
// readings, and holds up none of the others.
func (f *Fleet) Start(ctx context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.started || f.life.Ended() {
		return fmt.Errorf("start fleet %q: it was started or closed before", f.name)
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("start fleet %q: %w", f.name, err)
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
		// What is wrong with one service is said in its readings.
		_ = s.start(ctx, f.nursery, before)
	}
	f.older = nil
	return nil
}

// Close stops all instances that no newer fleet has taken, all at once, and
// returns when they are gone. An error names those that did not end even so.
func (f *Fleet) Close() error {
	f.mu.Lock()
	if !f.life.End() {
		f.mu.Unlock()
		return nil
	}
	nursery := f.nursery
	var stopping []*instance
	grace := time.Duration(0)
	f.giveBack()
	for _, name := range slices.Sorted(maps.Keys(f.services)) {
		if !f.lent[name] {
			stopping = append(stopping, f.services[name].end()...)
		}
	}
	f.mu.Unlock()
	f.sampler.clock.Close()
	for _, i := range stopping {
		grace = max(grace, i.config.StopGracePeriod)
	}
	if err := await(stopping, grace+killDelay); err != nil {
		// The nursery stays: it must not end before its children.
		return fmt.Errorf("close fleet %q: %w", f.name, err)
	}
	if nursery != nil {
		nursery.leave()
	}
	return nil
}

// giveBack returns what was taken from an older fleet when Start did not come,
// or owns it where the older one is closed by now. The caller holds the lock.
func (f *Fleet) giveBack() {
	if f.older == nil {
		return
	}
	f.older.mu.Lock()
	defer f.older.mu.Unlock()
	for name := range f.older.lent {
		if f.older.life.Ended() {
			f.services[name] = f.older.services[name]
		} else {
			f.lent[name] = true
		}
	}
	if !f.older.life.Ended() {
		clear(f.older.lent)
	}
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

// Snapshot reads the given services. It asks nobody: the fleet itself is the
// platform. Before Start it answers what a start would begin with.
func (f *Fleet) Snapshot(ctx context.Context, refs []targets.Ref) (map[targets.Ref]targets.Reading, error) {
	if err := f.life.Usable(ctx); err != nil {
		return nil, fmt.Errorf("read fleet %q: %w", f.name, err)
	}
	readings := make(map[targets.Ref]targets.Reading, len(refs))
	for _, ref := range refs {
		s, err := f.service(ref)
		if err != nil {
			readings[ref] = targets.Reading{Err: err, Observed: time.Now()}
			continue
		}
		readings[ref] = s.read(ctx)
	}
	return readings, nil
}

// SetReplicas saves a service's new count and starts or stops its instances. A
// count that the service has already changes nothing.
func (f *Fleet) SetReplicas(ctx context.Context, ref targets.Ref, n int32, version, _ string) error {
	err := f.life.Usable(ctx)
	if err == nil {
		var s *service
		if s, err = f.service(ref); err == nil {
			err = s.set(ctx, n, version)
		}
	}
	if err != nil {
		return fmt.Errorf("scale service %q of fleet %q to %d replicas: %w", ref.Name, f.name, n, err)
	}
	return nil
}

// Samples answers cpu and memory of each running instance, as its process group
// used them, and begins to sample when nobody has asked for a while.
func (f *Fleet) Samples(ctx context.Context, refs []targets.Ref) (map[targets.Ref]targets.Samples, error) {
	if err := f.life.Usable(ctx); err != nil {
		return nil, fmt.Errorf("sample fleet %q: %w", f.name, err)
	}
	samples, err := f.sampler.ask(time.Now())
	if err != nil {
		return nil, fmt.Errorf("sample fleet %q: %w: %w", f.name, targets.ErrTransient, err)
	}
	answer := make(map[targets.Ref]targets.Samples, len(refs))
	for _, ref := range refs {
		if s, ok := samples[ref.Name]; ok && ref.Fleet == f.name {
			answer[ref] = s
		}
	}
	return answer, nil
}

// Check answers what would keep instances from running: programs and directories
// that are not there, a shell to guard with, and, of a started fleet, what went
// wrong with its instances.
func (f *Fleet) Check(ctx context.Context) ([]string, error) {
	if err := f.life.Usable(ctx); err != nil {
		return nil, fmt.Errorf("check fleet %q: %w", f.name, err)
	}
	var found []string
	if _, err := exec.LookPath("sh"); err != nil {
		return nil, fmt.Errorf("check fleet %q: the shell that ends instances when hpad is killed: %w; install a POSIX shell in hpad's PATH", f.name, err)
	}
	for _, name := range slices.Sorted(maps.Keys(f.config.Services)) {
		found = append(found, f.config.Services[name].check(name)...)
		f.mu.Lock()
		running := f.services[name]
		f.mu.Unlock()
		for _, i := range running.instances() {
			if trouble := i.state(); trouble != "" {
				found = append(found, fmt.Sprintf("service %q: instance %s: %s", name, i.id, trouble))
			}
		}
	}
	return found, nil
}

// check answers what of a service is not there.
func (s Service) check(name string) []string {
	var found []string
	// Without a directory of its own the program is found from hpad's.
	if s.Dir == "" {
		if _, err := exec.LookPath(s.Command[0]); err != nil {
			found = append(found, fmt.Sprintf("service %q: %v", name, err))
		}
	} else if info, err := os.Stat(s.Dir); err != nil {
		found = append(found, fmt.Sprintf("service %q: dir: %v", name, err))
	} else if !info.IsDir() {
		found = append(found, fmt.Sprintf("service %q: dir: %s is not a directory", name, s.Dir))
	}
	return found
}

func (f *Fleet) service(ref targets.Ref) (*service, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if s, ok := f.services[ref.Name]; ok && ref.Fleet == f.name {
		return s, nil
	}
	return nil, fmt.Errorf("%w: %s", targets.ErrTargetNotFound, f.config.CheckTarget(ref.Name))
}

// sampled answers the instances to sample, by service.
func (f *Fleet) sampled() map[string][]*instance {
	f.mu.Lock()
	services := maps.Clone(f.services)
	f.mu.Unlock()
	all := make(map[string][]*instance, len(services))
	for name, s := range services {
		all[name] = s.instances()
	}
	return all
}
