package nomad

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
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
	books          books
	rosters        targets.Usual[[]*roster]
	reach          reach
	records        *memory.Records[record]
	names          names
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
		reach: usual, records: newRecords(options.Store), speeds: newSpeeds(),
	}
	f.specifications.records = storedSpecifications(options.Store)
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

// Snapshot reads the given groups: two lists for each of their namespaces, and the
// allocations and the specification of each job that changed since they were read last.
// What was read before ctx ends is there; the rest have errors, and less is to be read
// next time.
func (f *Fleet) Snapshot(ctx context.Context, refs []targets.Ref) (map[targets.Ref]targets.Reading, error) {
	return f.base.Snapshot(ctx, refs, func(ctx context.Context, wanted map[targets.Ref]Target) (map[targets.Ref]targets.Reading, error) {
		session, err := f.open(ctx)
		if err == nil {
			err = f.records.Load(ctx, time.Now())
		}
		if err != nil {
			return nil, err
		}
		f.specifications.load(ctx, time.Now())
		s := &snapshot{fleet: f, session: session}
		for _, r := range f.rosters.Of(refs, func() []*roster { return newRosters(wanted, &f.books) }) {
			s.surveys = append(s.surveys, newSurvey(r, session, f.reach))
		}
		s.survey(ctx)
		if err := s.failure(); err != nil {
			return nil, err
		}
		s.specify(ctx)
		s.countFinished(ctx)
		s.explainWaiting(ctx)
		readings := s.readings(ctx)
		rejectTwins(wanted, readings)
		f.records.Save(ctx, time.Now())
		f.specifications.records.Save(ctx, time.Now())
		return readings, nil
	})
}

// rejectTwins gives an error to a target that names the agent's own region if the same
// group is a target without a region too: both have the same allocations.
func rejectTwins(wanted map[targets.Ref]Target, readings map[targets.Ref]targets.Reading) {
	var named []targets.Ref
	for ref, t := range wanted {
		if t.Region != "" {
			named = append(named, ref)
		}
	}
	if len(named) == len(wanted) {
		return // as in a fleet with a region
	}
	for _, ref := range named {
		reading, t := readings[ref], wanted[ref]
		t.Region = ""
		twin := targets.Ref{Fleet: ref.Fleet, Name: t.Name()}
		same := func(i policy.Instance) bool { return i.ID == reading.Instances[0].ID }
		if len(reading.Instances) > 0 && slices.ContainsFunc(readings[twin].Instances, same) {
			readings[ref] = targets.Reading{Observed: reading.Observed, Err: reasoned(DuplicateTarget,
				fmt.Errorf("%w: it is target %s too, which names no region", targets.ErrUnscalable, twin))}
		}
	}
}

// snapshot is one reading of targets under way.
type snapshot struct {
	fleet   *Fleet
	session *session
	surveys []*survey
	slabs   slabs
}

// survey reads the lists of all namespaces in use, a few at a time.
func (s *snapshot) survey(ctx context.Context) {
	var group errgroup.Group
	group.SetLimit(max(1, s.fleet.config.MaxConnections/6)) // of two lists each, and more
	for _, v := range s.surveys {
		group.Go(func() error {
			s.surveyScope(ctx, v)
			return nil
		})
	}
	_ = group.Wait() // each survey has its own errors
}

// surveyScope reads the lists of one namespace, unless Nomad wants to be left alone.
func (s *snapshot) surveyScope(ctx context.Context, v *survey) {
	backoff := &s.fleet.backoff
	if err := backoff.waiting(v.at, s.session.token, time.Now()); err != nil {
		v.err = fmt.Errorf("list jobs of %v: %w", v.at, err)
		return
	}
	v.list(ctx)
	if v.err == nil {
		v.unread = v.read(ctx, v.moved(ctx))
		if v.unread != nil && v.nothing() {
			v.err = v.unread
		}
	}
	for _, err := range []*error{&v.err, &v.unlisted, &v.unread} {
		*err = readError(*err)
		if errors.Is(*err, targets.ErrForbidden) {
			*err = fmt.Errorf("%w; the token needs the capabilities list-jobs and read-job", *err)
		}
	}
	backoff.record(v.at, cmp.Or(v.err, v.unread), time.Now())
	if v.err == nil {
		v.unmeasured = s.fleet.speeds.learn(ctx, s.session, v.at.region, v.nodes())
	}
	for _, err := range []*error{&v.err, &v.unlisted, &v.unread, &v.unmeasured} {
		if *err != nil {
			*err = fmt.Errorf("list jobs of %v: %w", v.at, *err)
		}
	}
}

// failure returns an error unless some namespace could be read.
func (s *snapshot) failure() error {
	var first error
	for _, v := range s.surveys {
		if v.err == nil {
			return nil
		}
		if first == nil {
			first = v.err
		}
	}
	return first
}

// specify reads the specifications of all wanted jobs that are not known as they are
// now.
func (s *snapshot) specify(ctx context.Context) {
	var group errgroup.Group
	group.SetLimit(s.fleet.config.fetching())
	now := time.Now()
	for _, v := range s.surveys {
		for i := range v.jobs {
			job, key := &v.jobs[i], jobKey{scope: v.at, id: v.roster.jobs[i].id}
			if v.err != nil || !job.listed {
				continue
			}
			if job.spec = s.fleet.specifications.find(key, &job.jobStub, now); job.spec != nil {
				continue
			}
			if ctx.Err() != nil {
				job.err = fmt.Errorf("read job %q of %v: %w", key.id, key.scope, readError(context.Cause(ctx)))
				continue
			}
			group.Go(func() error {
				spec, err := s.session.read(ctx, key)
				if err != nil {
					job.err = fmt.Errorf("read job %q of %v: %w", key.id, key.scope, jobError(err))
					return nil
				}
				job.spec = spec
				s.fleet.specifications.remember(key, spec, now)
				return nil
			})
		}
	}
	_ = group.Wait() // each job has its own error
}

// readings returns the readings of all targets.
func (s *snapshot) readings(ctx context.Context) map[targets.Ref]targets.Reading {
	all, unmade := 0, 0
	for _, v := range s.surveys {
		all += len(v.roster.targets)
		for range v.unmade() {
			unmade++
		}
	}
	s.slabs = newSlabs(unmade, all)
	answer := make(map[targets.Ref]targets.Reading, all)
	now := time.Now()
	checks := s.checks(ctx)
	for _, v := range s.surveys {
		for i := range v.roster.targets {
			t := &v.roster.targets[i]
			reading, err := s.reading(v, t, checks, now)
			if err != nil {
				s.fleet.sampler.Withdraw(t.ref)
				reading = targets.Reading{Err: err, Observed: now}
			}
			answer[t.ref] = reading
		}
	}
	return answer
}

// reading returns the reading of one target.
func (s *snapshot) reading(v *survey, t *rosterTarget, checks map[string]policy.Readiness, now time.Time) (targets.Reading, error) {
	job, state, err := v.found(t)
	if err != nil {
		return targets.Reading{}, err
	}
	g, err := job.spec.find(&t.Target)
	if err != nil {
		return targets.Reading{}, err
	}
	m, err := s.members(v, job, state, t.Target, g, checks, now)
	if err != nil {
		return targets.Reading{}, err
	}
	s.fleet.sampler.PublishFunc(t.ref, m.listSampled)
	return targets.Reading{
		SpecReplicas: g.count, StatusReplicas: m.status, Min: g.min, Max: g.max, Version: versionOf(job.spec.index), Observed: v.observed,
		Instances: m.instances(), Locations: m, Hold: hold(job, &t.Target, g), Notices: v.notices(&t.Target, job, m.failing),
	}, nil
}
