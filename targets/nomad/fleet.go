package nomad

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/memory"
)

// fetching is how many specifications are read at once: a part of the
// connections, so that lists and writes find one too.
func (c *Config) fetching() int { return max(1, c.MaxConnections/3) }

// Fleet reads and scales the task groups of one Nomad cluster. It is safe for
// concurrent use.
type Fleet struct {
	base           targets.Base[Target]
	config         *Config
	connection     *connection
	backoff        backoff
	specifications specifications
	records        *memory.Records[record]
	speeds         *speeds
	sampler        *sampler
}

// New returns a fleet, which connects when it is first read. The configuration is
// defaulted and valid, and is not modified. An error names a file that cannot be
// used.
func New(name string, config *Config, options targets.Env) (*Fleet, error) {
	connection, err := newConnection(config)
	if err != nil {
		return nil, fmt.Errorf("connect fleet %q: %w", name, err)
	}
	f := &Fleet{
		base:   targets.Base[Target]{Name: name, Place: " at " + config.Address, Parse: parseName},
		config: config, connection: connection,
		records: newRecords(options.Store), speeds: newSpeeds(),
	}
	f.sampler = newSampler(config, connection)
	return f, nil
}

// Close ends the sampling and closes idle connections.
func (f *Fleet) Close() error {
	if f.base.End() {
		f.sampler.Close()
		f.connection.close()
	}
	return nil
}

// open returns a session with the token as it is now.
func (f *Fleet) open(ctx context.Context) (*session, error) {
	if err := f.base.Usable(ctx); err != nil {
		return nil, err
	}
	session, err := f.connection.session()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", targets.ErrForbidden, err)
	}
	return session, nil
}

// Snapshot reads the given groups: three lists for each of their namespaces, and
// the specification of each job that changed since it was read last.
func (f *Fleet) Snapshot(ctx context.Context, refs []targets.Ref) (map[targets.Ref]targets.Reading, error) {
	return f.base.Snapshot(ctx, refs, func(ctx context.Context, wanted map[targets.Ref]Target) (map[targets.Ref]targets.Reading, error) {
		session, err := f.open(ctx)
		if err == nil {
			err = f.records.Load(ctx, time.Now())
		}
		if err != nil {
			return nil, err
		}
		s := &snapshot{fleet: f, session: session, wanted: wanted}
		s.list(ctx)
		if err := s.failure(); err != nil {
			return nil, err
		}
		s.specify(ctx)
		s.explainWaiting(ctx)
		readings := s.readings(ctx)
		f.records.Save(ctx, time.Now())
		return readings, nil
	})
}

// snapshot is one reading of targets under way.
type snapshot struct {
	fleet    *Fleet
	session  *session
	wanted   map[targets.Ref]Target
	listings map[scope]*listing
	specs    map[jobKey]*specification
	specErrs map[jobKey]error
}

// list reads the lists of all namespaces in use, a few at a time.
func (s *snapshot) list(ctx context.Context) {
	jobs := map[scope][]string{}
	for _, t := range s.wanted {
		jobs[t.scope()] = append(jobs[t.scope()], t.Job)
	}
	s.listings = make(map[scope]*listing, len(jobs))
	var mu sync.Mutex
	var group errgroup.Group
	group.SetLimit(max(1, s.fleet.config.MaxConnections/6)) // of three lists each
	for at, ids := range jobs {
		group.Go(func() error {
			l := s.listScope(ctx, at, ids)
			mu.Lock()
			defer mu.Unlock()
			s.listings[at] = l
			return nil
		})
	}
	_ = group.Wait() // each listing has its own error
}

// listScope reads the lists of one namespace, unless Nomad wants to be left alone.
func (s *snapshot) listScope(ctx context.Context, at scope, jobs []string) *listing {
	if err := s.fleet.backoff.waiting(at, s.session.token, time.Now()); err != nil {
		return &listing{err: fmt.Errorf("list jobs of %v: %w", at, err)}
	}
	l := s.session.list(ctx, at, jobs)
	if l.err != nil {
		l.err = readError(l.err)
		if errors.Is(l.err, targets.ErrForbidden) {
			l.err = fmt.Errorf("%w; the token needs the capabilities list-jobs and read-job", l.err)
		}
	}
	s.fleet.backoff.record(at, l.err, time.Now())
	if l.err == nil {
		nodes := map[string]bool{}
		for _, allocs := range l.allocs {
			for _, alloc := range allocs {
				nodes[alloc.NodeID] = true
			}
		}
		l.err = s.fleet.speeds.learn(ctx, s.session, at.region, nodes)
	}
	if l.err != nil {
		l.err = fmt.Errorf("list jobs of %v: %w", at, l.err)
	}
	return l
}

// failure returns an error unless some namespace could be read.
func (s *snapshot) failure() error {
	var first error
	for _, l := range s.listings {
		if l.err == nil {
			return nil
		}
		first = l.err
	}
	return first
}

// specify reads the specifications of all wanted jobs that are not known as they are
// now.
func (s *snapshot) specify(ctx context.Context) {
	s.specs, s.specErrs = map[jobKey]*specification{}, map[jobKey]error{}
	var mu sync.Mutex
	var group errgroup.Group
	group.SetLimit(s.fleet.config.fetching())
	now := time.Now()
	begun := map[jobKey]bool{}
	for _, t := range s.wanted {
		key := t.jobKey()
		l := s.listings[key.scope]
		if begun[key] || l.err != nil || l.jobs[t.Job] == nil {
			continue
		}
		begun[key] = true
		if spec := s.fleet.specifications.at(key, l.jobs[t.Job].JobModifyIndex, now); spec != nil {
			mu.Lock()
			s.specs[key] = spec
			mu.Unlock()
			continue
		}
		group.Go(func() error {
			spec, err := s.session.read(ctx, key)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				s.specErrs[key] = fmt.Errorf("read job %q of %v: %w", key.id, key.scope, jobError(err))
				return nil
			}
			s.specs[key] = spec
			s.fleet.specifications.remember(key, spec, now)
			return nil
		})
	}
	_ = group.Wait() // each job has its own error
}

// readings returns the readings of all targets.
func (s *snapshot) readings(ctx context.Context) map[targets.Ref]targets.Reading {
	answer := make(map[targets.Ref]targets.Reading, len(s.wanted))
	now := time.Now()
	checks := s.checks(ctx)
	for ref, t := range s.wanted {
		reading, err := s.reading(ref, t, checks, now)
		if err != nil {
			s.fleet.sampler.Withdraw(ref)
			reading = targets.Reading{Err: err, Observed: now}
		}
		answer[ref] = reading
	}
	return answer
}

// reading returns the reading of one target.
func (s *snapshot) reading(ref targets.Ref, t Target, checks map[string]policy.Readiness, now time.Time) (targets.Reading, error) {
	key := t.jobKey()
	l := s.listings[key.scope]
	if l.err != nil {
		return targets.Reading{}, l.err
	}
	job := l.jobs[t.Job]
	if job == nil {
		return targets.Reading{}, reasoned(JobNotFound, fmt.Errorf("%w: there is no job %q in %v", targets.ErrTargetNotFound, t.Job, t.scope()))
	}
	if err := s.specErrs[key]; err != nil {
		return targets.Reading{}, err
	}
	spec := s.specs[key]
	g, err := spec.find(t)
	if err != nil {
		return targets.Reading{}, err
	}
	reading := targets.Reading{SpecReplicas: g.count, Min: g.min, Max: g.max, Version: versionOf(spec.index), Observed: l.observed}
	count := g.count
	if job.Stop || spec.stopped {
		count = 0
	}
	var living []*allocStub
	allocs := l.allocs[groupKey{job: t.Job, group: t.Group}]
	for _, alloc := range allocs {
		if !alloc.stopping() && !alloc.canary() && !alloc.failed() {
			living = append(living, alloc)
		}
	}
	beyond := surplus(living, count)
	var sampled []sampledAlloc
	for _, alloc := range allocs {
		if alloc.canary() {
			continue
		}
		instance := s.instance(alloc, g, checks, now)
		instance.Deleting = alloc.stopping() || beyond[alloc.ID]
		if !instance.Deleting && !alloc.failed() {
			reading.StatusReplicas++
		}
		reading.Instances = append(reading.Instances, instance)
		reading.Locations = append(reading.Locations, alloc.location())
		if instance.Phase == policy.PhaseRunning && !instance.Deleting {
			sampled = append(sampled, sampledAlloc{id: alloc.ID, node: alloc.NodeID, at: t.scope(), mhz: s.fleet.speeds.of(alloc.NodeID), tasks: taskNames(instance.Tasks)})
		}
	}
	reading.Hold = hold(job, spec, l.deployments[t.Job], t)
	reading.Notices = s.notices(t, allocs, now)
	s.fleet.sampler.Publish(ref, sampled)
	return reading, nil
}

// instance returns an allocation as an instance.
func (s *snapshot) instance(alloc *allocStub, g *group, checks map[string]policy.Readiness, now time.Time) policy.Instance {
	checked, ok := checks[alloc.ID]
	if !ok {
		checked = policy.ReadinessTrue
	}
	known := s.fleet.records.See(alloc.ID, now, func(before record, _ bool) record { return judge(alloc, g, before, checked, now) })
	return policy.Instance{
		ID: alloc.ID, Phase: alloc.phase(), Readiness: known.Readiness,
		StartedAt: known.Started, ReadinessChanged: known.Changed,
		Tasks: alloc.tasks(s.fleet.speeds.of(alloc.NodeID)),
	}
}

func taskNames(tasks []policy.Task) map[string]bool {
	names := make(map[string]bool, len(tasks))
	for _, task := range tasks {
		names[task.Name] = true
	}
	return names
}
