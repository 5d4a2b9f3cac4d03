package nomad

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hpad/hpad/targets"
)

// scopeReading reads the groups in use in one scope. It lists jobs and active deployments, and
// reads the allocations of jobs whose indexes changed or do not reveal all changes. All other
// allocations come from the cache.
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
	// always is the maximum number of jobs in use for which each round reads the allocations of all
	// jobs.
	always int
	// filtered is the maximum number of jobs that hpad reads with filtered lists. For each such
	// list, the server examines all allocations in the namespace.
	filtered int
	// leastAgain and mostAgain limit the number of unchanged groups that a round reads again.
	leastAgain, mostAgain int
	// page is the number of allocations in a page of a list.
	page int
}

var defaultLimits = readLimits{always: maxFiltered, filtered: 5 * maxFiltered, leastAgain: 20, mostAgain: 500, page: 5000}

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

func (v *scopeReading) add(ref targets.Ref, t Target) {
	job := v.jobs[t.Job]
	if job == nil {
		job = new(jobState)
		v.jobs[t.Job] = job
	}
	i := slices.IndexFunc(job.groups, func(g *groupState) bool { return g.key.group == t.Group })
	if i < 0 {
		i = len(job.groups)
		job.groups = append(job.groups, &groupState{key: t.groupKey(), job: job})
	}
	v.targets = append(v.targets, &targetState{ref: ref, Target: t, group: job.groups[i]})
}

// filter returns a list filter for the jobs in use, with the given field for the job ID; "" if
// there are too many.
func (v *scopeReading) filter(field string) string {
	if len(v.jobs) > maxFiltered {
		return ""
	}
	ids := make([]string, 0, len(v.jobs))
	for id := range v.jobs {
		ids = append(ids, id)
	}
	return jobFilter(field, ids)
}

// list reads the job and deployment lists. If the job list is interrupted, the jobs on complete
// pages are valid.
func (v *scopeReading) list(ctx context.Context) {
	v.began = time.Now()
	var h headers
	listed := 0
	var group errgroup.Group
	group.Go(func() error {
		h, v.listErr = readPages(ctx, v.session, v.at, list{path: "/v1/jobs", filter: v.filter("ID"), size: jobsPage}, func(stub *jobStub) {
			if job := v.jobs[stub.ID]; job != nil {
				job.jobStub, job.listed = *stub, true
				listed++
			}
		})
		return nil
	})
	group.Go(func() error {
		_, err := readPages(ctx, v.session, v.at, list{path: "/v1/deployments", filter: both(activeDeployments, v.filter("JobID")), size: jobsPage}, func(stub *deploymentStub) {
			if job := v.jobs[stub.JobID]; job != nil {
				job.deployments = append(job.deployments, *stub)
			}
		})
		return err
	})
	v.err = group.Wait()
	v.observed = time.Now()
	if v.err == nil && listed == 0 {
		v.err = v.listErr
	}
	if v.err == nil {
		v.cache.observe(v.at, h.index, v.began, v.observed)
	}
}

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

// empty returns a new, empty set for a group.
func (v *scopeReading) empty(g *groupState) *allocSet {
	set := &allocSet{at: v.at, key: g.key, jobIndexes: g.job.jobIndexes(), read: v.began, since: v.began, deployed: len(g.job.deployments) > 0}
	if g.last != nil && g.last.jobIndexes == set.jobIndexes {
		set.since = g.last.since
	}
	return set
}

// due returns an empty set for each group that must be read.
func (v *scopeReading) due() allocSets {
	due := allocSets{}
	v.cache.fill(v)
	for _, job := range v.jobs {
		for _, group := range job.groups {
			switch {
			case !job.listed:
				group.set = nil
			case len(v.jobs) <= v.always || len(job.deployments) > 0 || !v.current(group.set, job.jobIndexes()):
				group.set = nil
				due[group.key] = v.empty(group)
			}
		}
	}
	return due
}

// staleness is the maximum lag of a server that has contact with the leader.
const staleness = time.Minute

func (v *scopeReading) current(set *allocSet, now jobIndexes) bool {
	switch {
	case set == nil || set.jobIndexes != now || set.deployed || set.built && !set.settled:
		return false
	case v.session.config.Stale && set.read.Sub(set.since) < staleness:
		return false // the server that was read may not have had the change yet
	}
	return true
}

// accept stores sets that were read, unless their job has changed since then, and removes them
// from due.
func (v *scopeReading) accept(due, read allocSets) {
	for key, set := range read {
		if due[key] == nil {
			continue
		}
		job := v.jobs[key.job]
		if set.jobIndexes != job.jobIndexes() || set.deployed != (len(job.deployments) > 0) {
			continue
		}
		delete(due, key)
		for _, group := range job.groups {
			if group.key == key {
				group.set = set
			}
		}
		v.cache.putSet(set, v.began)
	}
}

// read reads the allocations of the groups that are due. It accepts the sets that were read
// before an error.
func (v *scopeReading) read(ctx context.Context, due allocSets) error {
	if n := len(due.jobs()); n > maxFiltered && 2*n > len(v.jobs) { // most allocations must be read
		if err := v.readAll(ctx, due); err != nil {
			return err
		}
	}
	jobs := due.jobs()
	if len(jobs) > v.filtered {
		return v.readJobs(ctx, due, jobs, 1, v.readJob)
	}
	named := slices.DeleteFunc(slices.Clone(jobs), unnamed)
	others := slices.DeleteFunc(jobs, func(job string) bool { return !unnamed(job) })
	err := v.readJobs(ctx, due, named, maxFiltered, v.readNamed)
	return cmp.Or(err, v.readJobs(ctx, due, others, 1, v.readJob))
}

// pages is a reading of all allocations of a scope, page by page. If it is interrupted, the next
// round continues it.
type pages struct {
	sets allocSets
	// token is the token of the next page, and last is the time at which the last page was read.
	token string
	last  time.Time
}

// pagesExpire is the time for which an interrupted reading can be continued.
const pagesExpire = 10 * time.Minute

// readAll reads all allocations of the scope, and accepts the sets that were due when the reading
// started.
func (v *scopeReading) readAll(ctx context.Context, due allocSets) error {
	p := v.cache.takePages(v.at)
	if p == nil || v.began.Sub(p.last) > pagesExpire {
		p = &pages{sets: allocSets{}, last: v.began}
		maps.Copy(p.sets, due)
	}
	for {
		var page []*alloc
		h, err := readPage(ctx, v.session, v.at, v.allocations(presentAllocs), p.token, func(stub *allocStub) {
			if p.sets[stub.key()] != nil {
				page = append(page, newAlloc(stub, reservedBy(stub.AllocatedResources)))
			}
		})
		if err != nil {
			v.cache.putPages(v.at, p)
			return err
		}
		for _, alloc := range page {
			set := p.sets[alloc.key()]
			set.allocs = append(set.allocs, alloc)
		}
		p.token, p.last = h.next, time.Now()
		if p.token == "" {
			v.accept(due, p.sets)
			return nil
		}
	}
}

func (v *scopeReading) allocations(filter string) list {
	return list{path: "/v1/allocations", filter: filter, params: map[string]string{"resources": "true"}, size: v.page}
}

// readJobs reads the allocations of jobs in parallel calls of read, with size jobs per call.
// After an error it starts no further calls.
func (v *scopeReading) readJobs(ctx context.Context, due allocSets, jobs []string, size int, read func(ctx context.Context, jobs []string, take func(*alloc)) error) error {
	byJob := map[string]allocSets{}
	for key, set := range due {
		if byJob[key.job] == nil {
			byJob[key.job] = allocSets{}
		}
		byJob[key.job][key] = set
	}
	var mu sync.Mutex
	group, failed := errgroup.WithContext(ctx)
	group.SetLimit(v.session.config.fetching())
	for chunk := range slices.Chunk(jobs, size) {
		group.Go(func() error {
			if failed.Err() != nil {
				return ctx.Err()
			}
			err := read(ctx, chunk, func(alloc *alloc) {
				if set := byJob[alloc.JobID][alloc.key()]; set != nil {
					set.allocs = append(set.allocs, alloc)
				}
			})
			if err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			for _, job := range chunk {
				v.accept(due, byJob[job])
			}
			return nil
		})
	}
	return group.Wait()
}

func (v *scopeReading) readNamed(ctx context.Context, jobs []string, take func(*alloc)) error {
	_, err := readPages(ctx, v.session, v.at, v.allocations(both(presentAllocs, jobFilter("JobID", jobs))), func(stub *allocStub) {
		take(newAlloc(stub, reservedBy(stub.AllocatedResources)))
	})
	return err
}

// readJob reads the allocations of one job. The list does not contain resources, so readJob reads
// each new allocation individually.
func (v *scopeReading) readJob(ctx context.Context, jobs []string, take func(*alloc)) error {
	known := map[string]*detail{}
	for _, group := range v.jobs[jobs[0]].groups {
		if group.last != nil {
			for i := range group.last.details {
				known[group.last.instances[i].ID] = &group.last.details[i]
			}
		}
	}
	var stubs []allocStub
	_, err := readPages(ctx, v.session, v.at, list{path: "/v1/job/" + url.PathEscape(jobs[0]) + "/allocations", params: map[string]string{"all": "true"}}, func(stub *allocStub) {
		if stub.present() {
			stubs = append(stubs, *stub)
		}
	})
	for i := 0; i < len(stubs) && err == nil; i++ {
		stub, d := &stubs[i], known[stubs[i].ID]
		if d != nil && d.version == stub.JobVersion {
			take(newAlloc(stub, d.reserved))
			continue
		}
		var r *reserved
		one := list{path: "/v1/allocations", params: map[string]string{"resources": "true", "prefix": stub.ID}}
		_, err = readPages(ctx, v.session, v.at, one, func(whole *allocStub) { r = reservedBy(whole.AllocatedResources) })
		switch {
		case r != nil:
			take(newAlloc(stub, r))
		case err == nil:
			err = fmt.Errorf("%w: allocation %s of job %q disappeared after it was listed", targets.ErrTransient, shortID(stub.ID), stub.JobID)
		}
	}
	return err
}

// verifyAllIn is the time within which all unchanged jobs are read again, as far as readLimits
// allow. A job's indexes do not reveal a task that restarted within one update interval of its
// client.
const verifyAllIn = 5 * time.Minute

// verify reads unchanged jobs again. If it fails, the cached allocations are used.
func (v *scopeReading) verify(ctx context.Context) error {
	var known []*groupState
	for _, job := range v.jobs {
		for _, group := range job.groups {
			if group.set != nil && group.set.read.Before(v.began) {
				known = append(known, group)
			}
		}
	}
	if len(known) == 0 || v.mostAgain == 0 {
		return nil
	}
	share := min(float64(v.cache.sinceVerified(v.at, v.began))/float64(verifyAllIn), 1)
	n := min(max(int(share*float64(len(known))), v.leastAgain), v.mostAgain, len(known))
	slices.SortFunc(known, func(a, b *groupState) int { return a.set.read.Compare(b.set.read) })
	due := allocSets{}
	for _, group := range known[:n] {
		due[group.key] = v.empty(group)
	}
	ctx, cancel := optional(ctx)
	defer cancel()
	return v.readJobs(ctx, due, due.jobs(), 1, v.readJob)
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

func (v *scopeReading) nothing() bool {
	for _, job := range v.jobs {
		for _, group := range job.groups {
			if group.set != nil {
				return false
			}
		}
	}
	return true
}

func (v *scopeReading) withoutInstances() []*groupState {
	var groups []*groupState
	for _, job := range v.jobs {
		for _, group := range job.groups {
			if group.set != nil && !group.set.built {
				groups = append(groups, group)
			}
		}
	}
	return groups
}

// found returns the job and the group specification of a target, or an error.
func (v *scopeReading) found(t *targetState) (*jobState, *group, error) {
	job := t.group.job
	switch {
	case v.err != nil:
		return nil, nil, v.err
	case !job.listed && v.listErr != nil:
		return nil, nil, v.listErr
	case !job.listed:
		return nil, nil, reasoned(JobNotFound, fmt.Errorf("%w: there is no job %q in %v", targets.ErrTargetNotFound, t.Job, t.scope()))
	case job.err != nil:
		return nil, nil, job.err
	}
	g, err := job.spec.find(&t.Target)
	return job, g, err
}
