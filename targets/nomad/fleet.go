// Package nomad is the fleet kind for Nomad: each target is a task group of a job, and its
// instances are the group's allocations. The count of a parameterized job is the number of its
// children; see dispatch.go.
//
// In each round, a [scopeReading] lists the jobs and active deployments of each scope (region and
// namespace). It then reads allocations, and the specification of each job with a new
// JobModifyIndex. With at most 20 jobs in a scope, it reads all their allocations. With more jobs,
// it reads only those whose indexes changed or do not reveal all changes; all other allocations
// come from the [cache], and are read again periodically. Allocations are listed with filters for
// their jobs, or all together if that takes fewer requests; both lists contain the resources. The
// version of a reading is the JobModifyIndex. Each write contains it, so that it cannot overwrite
// another change.
//
// CPU is measured in cores. Nomad reports requests and usage in MHz; hpad divides both by the
// node's MHz per core.
package nomad

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"strconv"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/hpad/hpad/guard"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/memory"
)

// fetching returns the maximum number of parallel calls that read a single job, node or allocation.
// It leaves connections for lists and writes.
func (c *Config) fetching() int { return max(1, c.MaxConnections/3) }

// Fleet reads and scales the task groups of one Nomad cluster. It is safe for
// concurrent use.
type Fleet struct {
	base       targets.Base[Target]
	config     *Config
	connection *connection
	backoff    targets.Backoff
	store      targets.Store
	cache      cache
	readLimits readLimits
	records    *memory.Records[record]
	coreSpeeds coreSpeeds
	sampler    *sampler
}

// New returns a fleet, which connects on first use. The configuration must be valid and have its
// defaults set; New does not modify it. An error names the file that cannot be used.
func New(name string, config *Config, options targets.Env) (*Fleet, error) {
	connection, err := newConnection(config, options.Lease)
	if err != nil {
		return nil, fmt.Errorf("connect fleet %q: %w", name, err)
	}
	return &Fleet{
		base:   targets.Base[Target]{Name: name, Place: " at " + config.Address, Parse: parseName},
		config: config, connection: connection, store: options.Store,
		readLimits: defaultLimits, records: newRecords(options.Store), sampler: newSampler(config, connection),
	}, nil
}

// Close stops sampling, stops using the store and closes idle connections.
func (f *Fleet) Close() error {
	if f.base.MarkClosed() {
		f.sampler.Close()
		f.records.Close()
		f.connection.Close()
	}
	return nil
}

// open returns a session unless the fleet is closed, or calls are paused after throttling.
func (f *Fleet) open(ctx context.Context) (*session, error) {
	if err := cmp.Or(f.base.Usable(ctx), f.backoff.Wait()); err != nil {
		return nil, err
	}
	session, err := f.connection.session()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", targets.ErrForbidden, err)
	}
	return session, nil
}

// Snapshot reads the given groups. It reads two lists for each namespace, and the allocations and
// specification of each changed job. Targets that could not be read before ctx ended have errors.
func (f *Fleet) Snapshot(ctx context.Context, refs []targets.Ref) (map[targets.Ref]targets.Reading, error) {
	return f.base.Snapshot(ctx, refs, func(ctx context.Context, wanted map[targets.Ref]Target) (map[targets.Ref]targets.Reading, error) {
		session, err := f.open(ctx)
		if err != nil {
			return nil, err
		}
		f.records.Load(time.Now())
		s := &snapshot{fleet: f, session: session, scopes: map[scope]*scopeReading{}}
		for ref, t := range wanted {
			at := t.scope()
			if s.scopes[at] == nil {
				s.scopes[at] = &scopeReading{readLimits: f.readLimits, at: at, session: session, cache: &f.cache, jobs: map[string]*jobState{}}
			}
			s.scopes[at].add(ref, t)
		}
		s.eachScope(func(r *scopeReading) { r.list(ctx) })
		s.readJobs(ctx)
		s.eachScope(func(r *scopeReading) { s.conclude(ctx, r) })
		if err := s.failure(); err != nil {
			return nil, err
		}
		s.explainWaiting(ctx)
		readings := s.readings(ctx, len(wanted))
		f.save(ctx)
		if slices.ContainsFunc(slices.Collect(maps.Values(s.scopes)), func(r *scopeReading) bool { return r.whole }) {
			guard.Go(debug.FreeOSMemory) // the list needs several times the memory of the readings
		}
		f.cache.clean(time.Now())
		return readings, nil
	})
}

// save stores the records. It does not wait for a slow store longer than for an optional read, because
// the readings are complete.
func (f *Fleet) save(ctx context.Context) {
	ctx, cancel := optional(ctx)
	defer cancel()
	saved := make(chan struct{})
	guard.Go(func() {
		defer close(saved)
		f.records.Save(time.Now())
	})
	select {
	case <-saved:
	case <-ctx.Done():
	}
}

type snapshot struct {
	fleet   *Fleet
	session *session
	scopes  map[scope]*scopeReading
}

// eachScope calls do for all namespaces in use, a few at a time.
func (s *snapshot) eachScope(do func(r *scopeReading)) {
	var group guard.Group
	group.SetLimit(max(1, s.fleet.config.MaxConnections/6)) // each namespace takes several parallel requests
	for _, r := range s.scopes {
		group.Go(func() error {
			do(r)
			return nil
		})
	}
	_ = group.Wait() // errors are stored per scope
}

// readJobs reads allocations and specifications at the same time, so that a job whose allocations
// were read before the limit of the read also has its specification. A tenth of the time remains for
// the calls that follow.
func (s *snapshot) readJobs(ctx context.Context) {
	const share = 10
	if deadline, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, deadline.Add(-time.Until(deadline)/share))
		defer cancel()
	}
	var group guard.Group
	group.Go(func() error {
		s.readSpecifications(ctx)
		return nil
	})
	s.eachScope(func(r *scopeReading) {
		if r.err != nil {
			return
		}
		r.unread = r.read(ctx, r.due())
		r.unread = cmp.Or(r.unread, r.readChildren(ctx))
		if r.unread == nil {
			if err := readError(r.readAgain(ctx)); errors.Is(err, targets.ErrThrottled) {
				s.fleet.recordError(err)
			}
		}
	})
	_ = group.Wait() // errors are stored per job
}

// conclude reads the speed of new nodes, and completes the errors of a scope.
func (s *snapshot) conclude(ctx context.Context, r *scopeReading) {
	if r.err == nil {
		r.readSpeeds(ctx, &s.fleet.coreSpeeds)
		if r.unread != nil && len(r.targets((*targetState).read)) == 0 {
			r.err = r.unread
		}
	}
	for _, err := range []*error{&r.err, &r.listErr, &r.unread} {
		if *err = readError(*err); *err == nil {
			continue
		}
		*err = fmt.Errorf("list jobs of %v: %w", r.at, withCapabilities(*err))
	}
	s.fleet.recordError(cmp.Or(r.err, r.unread))
}

// recordError starts a pause after an ErrThrottled; nil resets the length of the next pause.
// Scopes, discovery, node calls and writes check the pause before they start; sampling and the
// calls of a started read do not.
func (f *Fleet) recordError(err error) {
	now := time.Now()
	f.backoff.Record(err, now, now)
}

// readSpeeds reads the nodes if allocations are on new nodes. If it fails, their targets fail.
func (r *scopeReading) readSpeeds(ctx context.Context, speeds *coreSpeeds) {
	waiting := r.targets(func(t *targetState) bool {
		return t.unbuilt() && slices.ContainsFunc(t.set.allocs, func(a *alloc) bool { return speeds.unknown(a.NodeID) })
	})
	if len(waiting) == 0 {
		return
	}
	if err := speeds.learn(ctx, r.session, r.at.region); err != nil {
		r.unread = cmp.Or(r.unread, err)
		for _, t := range waiting {
			t.set = nil
		}
	}
}

// failure returns an error if no namespace could be read.
func (s *snapshot) failure() error {
	var failed error
	for _, r := range s.scopes {
		if r.err == nil {
			return nil
		}
		failed = r.err
	}
	return failed
}

// readSpecifications reads the specification of each changed job, and the finished work of changed
// batch jobs.
func (s *snapshot) readSpecifications(ctx context.Context) {
	var group guard.Group
	group.SetLimit(s.fleet.config.fetching())
	for _, r := range s.scopes {
		for id, job := range r.jobs {
			if r.err != nil || !job.listed {
				continue
			}
			key := jobKey{scope: r.at, id: id}
			if job.spec = s.fleet.cache.spec(key, job.JobModifyIndex); job.spec != nil && (job.spec.jobType != api.JobTypeBatch || !job.complete()) {
				continue
			}
			group.Go(func() error {
				if job.spec, job.err = s.fleet.specification(ctx, s.session, key, job.JobModifyIndex); job.err == nil && job.spec.jobType == api.JobTypeBatch && job.complete() {
					job.finished, job.err = s.fleet.cache.finished(key, job.jobIndexes(), func() (int, error) { return s.session.finished(ctx, key) })
				}
				return nil
			})
		}
	}
	_ = group.Wait() // errors are stored per job
}

func (s *snapshot) readings(ctx context.Context, n int) map[targets.Ref]targets.Reading {
	answer := make(map[targets.Ref]targets.Reading, n)
	now := time.Now()
	checks := s.checks(ctx)
	for _, r := range s.scopes {
		for _, t := range r.targets(func(*targetState) bool { return true }) {
			reading, err := s.reading(r, t, checks, now)
			if err != nil {
				s.fleet.sampler.Withdraw(t.ref)
				reading = targets.Reading{Err: err, Observed: now}
			}
			answer[t.ref] = reading
		}
	}
	return answer
}

func (s *snapshot) reading(r *scopeReading, t *targetState, checks map[string]checkResult, now time.Time) (targets.Reading, error) {
	job := t.job
	g, err := r.group(t)
	if err != nil {
		return targets.Reading{}, err
	}
	set := t.set
	switch {
	case set == nil && r.unread != nil:
		return targets.Reading{}, r.unread
	case set == nil:
		return targets.Reading{}, fmt.Errorf("list jobs of %v: %w: the allocations of job %q were not read", r.at, targets.ErrTransient, t.Job)
	case !set.built:
		set = s.fleet.build(set, job, g, checks, now)
		s.fleet.cache.putSet(set)
	}
	if !set.tracked && set.read.Before(r.began) {
		return targets.Reading{}, fmt.Errorf("list jobs of %v: %w: the allocations of job %q were read %v ago, and may have changed", r.at, targets.ErrTransient, t.Job, r.began.Sub(set.read).Round(time.Second))
	}
	s.fleet.sampler.PublishFunc(t.ref, set.sampled)
	reading := targets.Reading{
		SpecReplicas: g.count, StatusReplicas: set.status, Min: g.min, Max: g.max, Version: versionOf(job.spec.index), Observed: r.observed,
		Instances: set.instances, Locations: set, Hold: hold(job, &t.Target, g), Notices: r.notices(&t.Target, job, set.failing),
	}
	if job.ParameterizedJob {
		job.dispatches(&reading)
	}
	return reading, nil
}

// SetReplicas scales a group if its job has not changed since version. It does not write an unchanged
// count, because each write creates a new job version.
func (f *Fleet) SetReplicas(ctx context.Context, ref targets.Ref, n int32, version, reason string) error {
	err := f.base.Scale(ctx, ref, n, "group", func(ctx context.Context, t Target) error {
		return f.setReplicas(ctx, ref, t, n, version, reason)
	})
	if errors.Is(err, targets.ErrThrottled) {
		f.recordError(err)
	}
	return err
}

func (f *Fleet) setReplicas(ctx context.Context, ref targets.Ref, t Target, n int32, version, reason string) error {
	session, err := f.open(ctx)
	if err != nil {
		return err
	}
	index, _ := strconv.ParseUint(version, 10, 64) // 0 if the version is empty
	spec, err := f.specification(ctx, session, t.jobKey(), index)
	if err != nil {
		return err
	}
	g, err := spec.find(&t)
	if err != nil {
		return err
	}
	stopped := &targets.HeldError{Hold: policy.Hold{Reason: JobStopped, Message: fmt.Sprintf("job %q is stopped", t.Job)}}
	switch {
	case spec.parameterized && spec.stopped:
		return stopped
	case spec.parameterized:
		return f.dispatch(ctx, session, ref, t, n, version)
	case version != "" && version != versionOf(spec.index):
		return fmt.Errorf("%w: job %q changed from index %s to %d", targets.ErrConflict, t.Job, version, spec.index)
	case g.count == n:
		return nil
	case spec.stopped:
		return stopped
	}
	if spec.jobType == api.JobTypeBatch { // work may have finished since the reading
		finished, err := session.finished(ctx, t.jobKey())
		if err != nil {
			return err
		}
		if hold := finishedHold(t.Job, finished); hold != nil {
			return &targets.HeldError{Hold: *hold}
		}
	}
	if g.min != nil && n < *g.min || g.max != nil && n > *g.max {
		return &targets.OutOfRangeError{Min: g.min, Max: g.max, Err: fmt.Errorf("the scaling block of group %q forbids %d replicas", t.Group, n)}
	}
	return writeError(session.scale(ctx, t.scope(), t.Job, request(ref, t, g.count, n, version, spec.index, reason)), g)
}

// specification returns the specification of a job at an index from the cache, or reads the current
// specification. A write at an index does not read the job again, because Nomad compares the index.
func (f *Fleet) specification(ctx context.Context, session *session, key jobKey, index uint64) (*specification, error) {
	if spec := f.cache.spec(key, index); spec != nil {
		return spec, nil
	}
	err := context.Cause(ctx)
	var spec *specification
	if err == nil {
		spec, err = session.read(ctx, key)
	}
	if err != nil {
		return nil, fmt.Errorf("read job %q of %v: %w", key.id, key.scope, jobError(err))
	}
	f.cache.putSpec(key, spec)
	return spec, nil
}

func request(ref targets.Ref, t Target, from, to int32, version string, index uint64, reason string) *api.ScalingRequest {
	count := int64(to)
	r := &api.ScalingRequest{
		Count:   &count,
		Target:  map[string]string{"Job": t.Job, "Group": t.Group},
		Message: "hpad: " + reason,
		Meta:    map[string]any{"scaled_by": "hpad", "hpad_target": ref.String(), "from": from, "to": to, "reason": reason},
	}
	if version != "" {
		r.JobModifyIndex = index
	}
	return r
}
