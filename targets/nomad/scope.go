package nomad

import (
	"context"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"time"

	"github.com/hpad/hpad/guard"
	"github.com/hpad/hpad/targets"
)

// scopeReading reads the groups in use in one scope, as described in the package comment.
type scopeReading struct {
	readLimits
	at       scope
	session  *session
	cache    *cache
	began    time.Time
	jobs     map[string]*jobState
	targets  []*targetState
	failures map[groupKey]*placement
	observed time.Time
	// err affects all jobs. listErr affects the jobs that were not listed. unread affects the jobs
	// whose allocations could not be read.
	err, listErr, unread error
}

// readLimits contains the limits that determine how jobs are read.
type readLimits struct {
	// always is a number of jobs. If at most this many jobs are in use, each round reads the
	// allocations of all jobs.
	always int
	// mostAgain limits the number of unchanged groups that a round reads again, because they were
	// last read more than againAfter ago.
	mostAgain  int
	againAfter time.Duration
	// page is the number of allocations in a page of a list.
	page int
}

// A job's indexes do not reveal a task that restarted within one update interval of its client,
// so unchanged groups are read again.
var defaultLimits = readLimits{always: maxFiltered, mostAgain: 500, againAfter: 5 * time.Minute, page: 5000}

type jobState struct {
	jobStub
	listed      bool
	deployments []deploymentStub
	// spec is the specification; nil if err is set.
	spec     *specification
	err      error
	finished int
	groups   []*groupState
}

type groupState struct {
	key groupKey
	job *jobState
	// set contains the allocations of this reading; nil if they could not be read. last is the set
	// of the previous reading; it may be nil.
	set, last *allocSet
}

type targetState struct {
	ref targets.Ref
	Target
	group *groupState
}

func (r *scopeReading) add(ref targets.Ref, t Target) {
	job := r.jobs[t.Job]
	if job == nil {
		job = new(jobState)
		r.jobs[t.Job] = job
	}
	i := slices.IndexFunc(job.groups, func(g *groupState) bool { return g.key.group == t.Group })
	if i < 0 {
		i = len(job.groups)
		job.groups = append(job.groups, &groupState{key: t.groupKey(), job: job})
	}
	r.targets = append(r.targets, &targetState{ref: ref, Target: t, group: job.groups[i]})
}

// list reads the job and deployment lists. If the job list is interrupted, the jobs on complete
// pages are valid.
func (r *scopeReading) list(ctx context.Context) {
	r.began = time.Now()
	ids := slices.Collect(maps.Keys(r.jobs))
	var h headers
	listed := 0
	var group guard.Group
	group.Go(func() error {
		h, r.listErr = readPages(ctx, r.session, r.at, list{path: "/v1/jobs", filter: jobFilter("ID", ids), size: jobsPage}, func(stub *jobStub) {
			if job := r.jobs[stub.ID]; job != nil {
				job.jobStub, job.listed = *stub, true
				listed++
			}
		})
		return nil
	})
	group.Go(func() error {
		_, err := readPages(ctx, r.session, r.at, list{path: "/v1/deployments", filter: both(activeDeployments, jobFilter("JobID", ids)), size: jobsPage}, func(stub *deploymentStub) {
			if job := r.jobs[stub.JobID]; job != nil {
				job.deployments = append(job.deployments, *stub)
			}
		})
		return err
	})
	r.err = group.Wait()
	r.observed = time.Now()
	if r.err == nil && listed == 0 {
		r.err = r.listErr
	}
	if r.err == nil && r.listErr == nil { // an incomplete list has no index
		r.cache.observe(r.at, h.index, r.began, r.observed)
	}
}

// maxListed is the maximum number of jobs that hpad reads with filtered lists, because the server
// examines all allocations in the namespace for each list.
const maxListed = 5 * maxFiltered

type allocSets map[groupKey]*allocSet

// jobs returns the job IDs of the sets, in no particular order.
func (s allocSets) jobs() []string {
	seen := map[string]bool{}
	var ids []string
	for key := range s {
		if !seen[key.job] {
			seen[key.job] = true
			ids = append(ids, key.job)
		}
	}
	return ids
}

// newSet returns an empty set for a group.
func (r *scopeReading) newSet(g *groupState) *allocSet {
	set := &allocSet{at: r.at, key: g.key, jobIndexes: g.job.jobIndexes(), read: r.began, since: r.began, deploying: len(g.job.deployments) > 0}
	if g.last != nil && g.last.jobIndexes == set.jobIndexes {
		set.since = g.last.since
	}
	return set
}

// due returns an empty set for each group that must be read.
func (r *scopeReading) due() allocSets {
	due := allocSets{}
	r.cache.fill(r)
	for _, job := range r.jobs {
		for _, group := range job.groups {
			switch {
			case !job.listed:
				group.set = nil
			case len(r.jobs) <= r.always || len(job.deployments) > 0 || !r.current(group.set, job.jobIndexes()):
				group.set = nil
				due[group.key] = r.newSet(group)
			}
		}
	}
	return due
}

// staleness is the maximum lag of a server that has contact with the leader.
const staleness = time.Minute

func (r *scopeReading) current(set *allocSet, now jobIndexes) bool {
	switch {
	case set == nil || set.jobIndexes != now || set.deploying || set.built && !set.tracked:
		return false
	case r.session.config.Stale && set.read.Sub(set.since) < staleness:
		return false // the server that was read may not have had the change yet
	}
	return true
}

// accept stores sets that were read, unless their job has changed since then, and removes them
// from due.
func (r *scopeReading) accept(due, read allocSets) {
	for key, set := range read {
		if due[key] == nil {
			continue
		}
		job := r.jobs[key.job]
		if set.jobIndexes != job.jobIndexes() || set.deploying != (len(job.deployments) > 0) {
			continue
		}
		delete(due, key)
		for _, group := range job.groups {
			if group.key == key {
				group.set = set
			}
		}
		r.cache.putSet(set, r.began)
	}
}

// read reads the allocations of the groups that are due. It accepts the sets that were read
// before an error.
func (r *scopeReading) read(ctx context.Context, due allocSets) error {
	if n := len(due.jobs()); n > maxFiltered && 2*n > len(r.jobs) { // most allocations must be read
		if err := r.readAll(ctx, due); err != nil {
			return err
		}
	}
	jobs := due.jobs()
	if len(jobs) > maxListed || slices.ContainsFunc(jobs, unnamed) {
		return r.readJobs(ctx, due)
	}
	for chunk := range slices.Chunk(jobs, maxFiltered) {
		read := maps.Clone(due)
		maps.DeleteFunc(read, func(key groupKey, _ *allocSet) bool { return !slices.Contains(chunk, key.job) })
		_, err := readPages(ctx, r.session, r.at, r.allocations(both(presentAllocs, jobFilter("JobID", chunk))), func(stub *allocStub) {
			if set := read[stub.key()]; set != nil {
				set.allocs = append(set.allocs, newAlloc(stub, reservedBy(stub.AllocatedResources)))
			}
		})
		if err != nil {
			return err
		}
		r.accept(due, read)
	}
	return nil
}

// pages is the progress of a call that lists all allocations of a scope, page by page. If it is
// interrupted, the next call continues it.
type pages struct {
	sets allocSets
	// token is the token of the next page, and last is the time at which the last page was read.
	token string
	last  time.Time
}

// pagesExpire is the time for which an interrupted list can be continued.
const pagesExpire = 10 * time.Minute

// readAll reads all allocations of the scope, and accepts the sets that were due when the reading
// started.
func (r *scopeReading) readAll(ctx context.Context, due allocSets) error {
	p := r.cache.takePages(r.at)
	if p == nil || r.began.Sub(p.last) > pagesExpire {
		p = &pages{sets: allocSets{}, last: r.began}
		maps.Copy(p.sets, due)
	}
	for {
		var page []*alloc
		h, err := readPage(ctx, r.session, r.at, r.allocations(presentAllocs), p.token, func(stub *allocStub) {
			if p.sets[stub.key()] != nil {
				page = append(page, newAlloc(stub, reservedBy(stub.AllocatedResources)))
			}
		})
		if err != nil {
			r.cache.putPages(r.at, p)
			return err
		}
		for _, alloc := range page {
			set := p.sets[alloc.key()]
			set.allocs = append(set.allocs, alloc)
		}
		p.token, p.last = h.next, time.Now()
		if p.token == "" {
			r.accept(due, p.sets)
			return nil
		}
	}
}

func (r *scopeReading) allocations(filter string) list {
	return list{path: "/v1/allocations", filter: filter, params: map[string]string{"resources": "true"}, size: r.page}
}

// readJobs reads the allocations of each job that is due, with separate calls for each job. After
// an error it starts no further calls.
func (r *scopeReading) readJobs(ctx context.Context, due allocSets) error {
	byJob := map[string]allocSets{}
	for key, set := range due {
		if byJob[key.job] == nil {
			byJob[key.job] = allocSets{}
		}
		byJob[key.job][key] = set
	}
	jobs := due.jobs()
	complete := make([]bool, len(jobs))
	group, failed := guard.WithContext(ctx)
	group.SetLimit(r.session.config.fetching())
	for i, job := range jobs {
		group.Go(func() error {
			if failed.Err() != nil {
				return ctx.Err()
			}
			err := r.readJob(ctx, job, byJob[job])
			complete[i] = err == nil
			return err
		})
	}
	err := group.Wait()
	for i, job := range jobs {
		if complete[i] {
			r.accept(due, byJob[job])
		}
	}
	return err
}

// readJob reads the allocations of one job. The list does not contain resources, so readJob reads
// each new allocation individually.
func (r *scopeReading) readJob(ctx context.Context, job string, sets allocSets) error {
	take := func(stub *allocStub, resources reserved) {
		if set := sets[stub.key()]; set != nil {
			set.allocs = append(set.allocs, newAlloc(stub, resources))
		}
	}
	details := map[string]*detail{}
	for _, group := range r.jobs[job].groups {
		if group.last != nil {
			for i := range group.last.details {
				details[group.last.instances[i].ID] = &group.last.details[i]
			}
		}
	}
	var stubs []allocStub
	_, err := readPages(ctx, r.session, r.at, list{path: "/v1/job/" + url.PathEscape(job) + "/allocations", params: map[string]string{"all": "true"}}, func(stub *allocStub) {
		if stub.present() {
			stubs = append(stubs, *stub)
		}
	})
	for i := 0; i < len(stubs) && err == nil; i++ {
		stub, d := &stubs[i], details[stubs[i].ID]
		if d != nil && d.version == stub.JobVersion {
			take(stub, d.reserved)
			continue
		}
		var resources reserved
		one := list{path: "/v1/allocations", params: map[string]string{"resources": "true", "prefix": stub.ID}}
		_, err = readPages(ctx, r.session, r.at, one, func(whole *allocStub) { resources = reservedBy(whole.AllocatedResources) })
		switch {
		case resources.taskSet != nil:
			take(stub, resources)
		case err == nil:
			err = fmt.Errorf("%w: allocation %s of job %q disappeared after it was listed", targets.ErrTransient, shortID(stub.ID), stub.JobID)
		}
	}
	return err
}

// readAgain reads unchanged jobs again, the oldest readings first. If it fails, the cached
// allocations are used.
func (r *scopeReading) readAgain(ctx context.Context) error {
	var old []*groupState
	for _, job := range r.jobs {
		for _, group := range job.groups {
			if group.set != nil && group.set.read.Before(r.began.Add(-r.againAfter)) {
				old = append(old, group)
			}
		}
	}
	slices.SortFunc(old, func(a, b *groupState) int { return a.set.read.Compare(b.set.read) })
	due := allocSets{}
	for _, group := range old[:min(len(old), r.mostAgain)] {
		due[group.key] = r.newSet(group)
	}
	ctx, cancel := optional(ctx)
	defer cancel()
	return r.readJobs(ctx, due)
}

// An optional read takes at most longestOptional, and at most a quarter of the remaining time.
const (
	longestOptional = 2 * time.Second
	optionalShare   = 4
)

// optional returns a context for a read on which no scaling decision depends.
func optional(ctx context.Context) (context.Context, context.CancelFunc) {
	timeout := longestOptional
	if deadline, ok := ctx.Deadline(); ok {
		timeout = min(timeout, time.Until(deadline)/optionalShare)
	}
	return context.WithTimeout(ctx, timeout)
}

// hasSets reports whether the allocations of at least one group are available.
func (r *scopeReading) hasSets() bool {
	for _, job := range r.jobs {
		if slices.ContainsFunc(job.groups, func(g *groupState) bool { return g.set != nil }) {
			return true
		}
	}
	return false
}

func (r *scopeReading) unbuilt() []*groupState {
	var groups []*groupState
	for _, job := range r.jobs {
		for _, group := range job.groups {
			if group.set != nil && !group.set.built {
				groups = append(groups, group)
			}
		}
	}
	return groups
}

// found returns the job and the group specification of a target, or an error.
func (r *scopeReading) found(t *targetState) (*jobState, *group, error) {
	job := t.group.job
	switch {
	case r.err != nil:
		return nil, nil, r.err
	case !job.listed && r.listErr != nil:
		return nil, nil, r.listErr
	case !job.listed:
		return nil, nil, reasoned(JobNotFound, fmt.Errorf("%w: no job %q in %v", targets.ErrTargetNotFound, t.Job, t.scope()))
	case job.err != nil:
		return nil, nil, job.err
	}
	g, err := job.spec.find(&t.Target)
	return job, g, err
}
