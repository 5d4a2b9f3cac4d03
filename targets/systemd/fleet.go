package systemd

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/hpad/hpad/guard"
	"github.com/hpad/hpad/targets"
)

// Fleet reads and scales the templates of one service manager. It is safe for
// concurrent use.
type Fleet struct {
	base    targets.Base[*target]
	config  *Config
	options targets.Env
	manager manager
	details *detailCache
	sampler *sampler
	// Close cancels ctx, which stops all background work.
	ctx        context.Context
	cancel     context.CancelFunc
	background guard.Tasks

	mu      sync.Mutex
	targets map[template]*target
	started bool
}

// New returns a fleet that connects at its first reading. The configuration must be valid with
// defaults applied; it is not modified.
func New(name string, config *Config, options targets.Env) *Fleet {
	return newFleet(name, config, options, newConnection(config))
}

func newFleet(name string, config *Config, options targets.Env, m manager) *Fleet {
	f := &Fleet{
		config: config, options: options, manager: m,
		details: newDetailCache(m), targets: map[template]*target{},
	}
	f.base.Name, f.base.Parse = name, f.targetOf
	f.ctx, f.cancel = context.WithCancel(context.Background())
	f.sampler = newSampler(config.ResourceInterval, m)
	return f
}

// Start makes the fleet maintain the counts: the next reading of a target restarts missing
// instances that hpad had started.
func (f *Fleet) Start(ctx context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("start fleet %q: %w", f.base.Name, err)
	}
	if f.started || f.base.IsClosed() {
		return fmt.Errorf("start fleet %q: already started or closed", f.base.Name)
	}
	f.started = true
	// A different fleet may have stored newer counts.
	f.targets = map[template]*target{}
	return nil
}

// Close stops the background work and closes the connection. It does not stop units.
func (f *Fleet) Close() error {
	f.mu.Lock()
	first := f.base.MarkClosed()
	f.cancel()
	all := maps.Clone(f.targets)
	f.mu.Unlock()
	if !first {
		return nil
	}
	f.background.Wait()
	for _, t := range all {
		if t.prober != nil {
			t.prober.close()
		}
	}
	f.sampler.Close()
	f.manager.close()
	return nil
}

func (f *Fleet) targetOf(name string) (*target, error) {
	t, problem := parseTemplate(name)
	if problem != "" {
		return nil, &targets.ReasonError{Reason: templateNotFound, Err: fmt.Errorf("%w: %q: %s", targets.ErrTargetNotFound, name, problem)}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	found := f.targets[t]
	if found == nil {
		found = newTarget(t, f.config, f.options)
		f.targets[t] = found
		if f.started && !f.base.IsClosed() && found.config.ReadyProbe.probes() {
			found.prober = newProber(found, f.options.Store)
		}
	}
	return found, nil
}

// Snapshot lists the units once, and reads the details of new and changed units. It also lists
// the unit files if a template has no unit. A started fleet then starts missing instances in
// the background.
func (f *Fleet) Snapshot(ctx context.Context, refs []targets.Ref) (map[targets.Ref]targets.Reading, error) {
	return f.base.Snapshot(ctx, refs, f.snapshot)
}

func (f *Fleet) snapshot(ctx context.Context, wanted map[targets.Ref]*target) (map[targets.Ref]targets.Reading, error) {
	s, err := f.list(ctx, wanted, false)
	if err != nil {
		return nil, err
	}
	templates := make(map[template]Template, len(wanted))
	for _, t := range wanted {
		templates[t.template] = t.config
	}
	if err := f.details.update(ctx, templates, s.members()); err != nil {
		return nil, err
	}
	readings := make(map[targets.Ref]targets.Reading, len(wanted))
	for ref, t := range wanted {
		reading, err := f.reading(ctx, t, s)
		if err != nil {
			f.sampler.Withdraw(ref)
			reading = targets.Reading{Err: err, Observed: s.at}
		} else {
			f.sampler.Publish(ref, t.sampled(s.units[t.template], f.details))
		}
		readings[ref] = reading
	}
	return readings, nil
}

// unitList is the result of one list call.
type unitList struct {
	at    time.Time
	run   string
	units map[template]map[int32]unit
	// unusable maps templates to their errors.
	unusable map[template]error
}

func (s unitList) members() []unit {
	var all []unit
	for _, units := range s.units {
		all = slices.AppendSeq(all, maps.Values(units))
	}
	return all
}

// list lists the units of targets. It also lists the unit files of templates without units, or of
// all templates if all is set.
func (f *Fleet) list(ctx context.Context, wanted map[targets.Ref]*target, all bool) (unitList, error) {
	s := unitList{at: time.Now(), units: map[template]map[int32]unit{}, unusable: map[template]error{}}
	patterns := make([]string, 0, len(wanted)+1)
	patterns = append(patterns, shutdownTarget)
	for _, t := range wanted {
		patterns = append(patterns, t.template.pattern())
	}
	found, err := f.manager.list(ctx, patterns)
	if err != nil {
		return s, err
	}
	s.run = found.run
	byTemplate := map[template][]unit{}
	for _, status := range found.units {
		u := unit{UnitStatus: status, state: stateOf(status)}
		if u.Name == shutdownTarget && u.state.alive() {
			return s, errShutdown
		}
		byTemplate[templateOf(u.Name)] = append(byTemplate[templateOf(u.Name)], u)
	}
	var check []*target
	patterns = nil
	for _, t := range wanted {
		s.units[t.template] = t.unitsOf(byTemplate[t.template])
		if all || !anyLoaded(s.units[t.template]) {
			check = append(check, t)
			patterns = append(patterns, t.template.filePattern())
		}
	}
	states, err := f.fileStates(ctx, patterns)
	if err != nil {
		return s, err
	}
	for _, t := range check {
		if err := unusable(t.template, states); err != nil {
			s.unusable[t.template] = err
		}
	}
	return s, nil
}

// anyLoaded reports whether the manager has loaded a unit of a template.
func anyLoaded(units map[int32]unit) bool {
	for _, u := range units {
		if u.LoadState == "loaded" {
			return true
		}
	}
	return false
}

// unusable returns an error if the states of unit files show that a template cannot be used.
func unusable(t template, files map[string]string) error {
	state, found := files[t.file()]
	switch {
	case !found:
		return &targets.ReasonError{Reason: templateNotFound, Err: fmt.Errorf("%w: unit file %s not found; after you create it, run systemctl daemon-reload", targets.ErrTargetNotFound, t.file())}
	case isMasked(state):
		return &targets.ReasonError{Reason: TemplateMasked, Err: fmt.Errorf("%w: %s is masked; run systemctl unmask %s", targets.ErrUnscalable, t.file(), t.file())}
	case state == "bad":
		return &targets.ReasonError{Reason: templateInvalid, Err: fmt.Errorf("%w: the manager cannot load %s; run systemd-analyze verify %s", targets.ErrUnscalable, t.file(), t.file())}
	case state == "alias":
		return &targets.ReasonError{Reason: TemplateAlias, Err: fmt.Errorf("%w: %s is an alias; set the target to the template that it links to", targets.ErrUnscalable, t.file())}
	}
	return nil
}

func (f *Fleet) fileStates(ctx context.Context, patterns []string) (map[string]string, error) {
	if len(patterns) == 0 {
		return nil, nil
	}
	found, err := f.manager.files(ctx, patterns)
	if err != nil {
		return nil, err
	}
	states := make(map[string]string, len(found))
	for _, file := range found {
		states[filepath.Base(file.Path)] = file.Type
	}
	return states, nil
}

// reading returns one target's reading and starts its repair.
func (f *Fleet) reading(ctx context.Context, t *target, s unitList) (targets.Reading, error) {
	if err := s.unusable[t.template]; err != nil {
		return targets.Reading{}, err
	}
	units := s.units[t.template]
	f.mu.Lock()
	started := f.started
	f.mu.Unlock()
	if err := t.observe(ctx, units, s.run, s.at, false); err != nil {
		return targets.Reading{}, err
	}
	if t.prober != nil {
		t.prober.load(ctx)
	}
	reading := t.read(units, f.details, s.at)
	if t.prober != nil {
		t.prober.watch(units, f.details)
	}
	if started {
		_ = t.save(ctx) // the next reading retries
		f.repair(t, units)
	}
	return reading, nil
}

// Samples returns the CPU and memory usage of each running instance.
func (f *Fleet) Samples(ctx context.Context, refs []targets.Ref) (map[targets.Ref]targets.Samples, error) {
	return targets.CallUnlessClosed(ctx, &f.base, "sample", func(context.Context) (map[targets.Ref]targets.Samples, error) {
		return f.sampler.Samples(refs)
	})
}
