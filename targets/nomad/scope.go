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

// scopeReading reads the groups in use in one scope. It lists all jobs and active
// deployments, and reads allocations of jobs with a new stamp, or with a stamp that does not
// reveal all changes; the others are taken from the cache.
type scopeReading struct {
	reach
	at      scope
	session *session
	cache   *cache
	began   time.Time
	// jobs are the jobs in use by their IDs, targets the targets that are read.
	jobs    map[string]*jobState
	targets []*targetState
	// failures are the reasons why allocations have no place, if they were read.
	failures map[groupKey]*placement
	observed time.Time
	// err concerns all jobs, unlisted the jobs that were not listed, and unread the
	// allocations that had to be read.
	err, unlisted, unread error
}

// reach is the numbers of jobs that are read in different ways.
type reach struct {
	// always is the number of jobs in use up to which all are read in each round.
	always int
	// filtered is the number of jobs up to which they are read in lists that name them: the
	// server examines all allocations of the namespace for each such list.
	filtered int
	// leastAgain and mostAgain limit the number of unchanged groups that a round reads again.
	leastAgain, mostAgain int
	// page is the number of allocations of a page.
	page int
}

// usual is the reach of all fleets, except in tests.
var usual = reach{always: maxFiltered, filtered: 5 * maxFiltered, leastAgain: 20, mostAgain: 500, page: 5000}

// jobState is a job in use.
type jobState struct {
	jobStub
	listed      bool
	deployments []deploymentStub
	// spec is the specification; nil if it could not be read, because of err.
	spec *specification
	err  error
	// finished is the number of finished allocations of a batch job.
	finished int
	groups   []*groupState
}

// groupState is a task group in use.
type groupState struct {
	key groupKey
	job *jobState
	// set is the allocations of this reading; nil if they could not be read. Last is the
	// set of the reading before; nil if there was no reading.
	set, last *allocSet
}

// targetState is a target that is read.
type targetState struct {
	ref targets.Ref
	Target
	group *groupState
}

// add adds a target.
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

// filter returns the filter of lists of the jobs in use, by the name of the field with the
// ID of the job; empty if there are too many.
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

// list lists jobs and deployments. If the list of jobs is interrupted, the jobs before are
// valid.
func (v *scopeReading) list(ctx context.Context) {
	v.began = time.Now()
	var h headers
	listed := 0
	var group errgroup.Group
	group.Go(func() error {
		h, v.unlisted = readPages(ctx, v.session, v.at, list{path: "/v1/jobs", filter: v.filter("ID"), size: jobsPage}, func(stub *jobStub) {
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
		v.err = v.unlisted
	}
	if v.err == nil {
		v.cache.observe(v.at, h.index, v.began, v.observed)
	}
}

// allocSets are sets by their groups.
type allocSets map[groupKey]*allocSet

// jobs returns the IDs of the jobs of the sets, in no order.
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

// empty returns the set of a group before its allocations are read.
func (v *scopeReading) empty(g *groupState) *allocSet {
	set := &allocSet{at: v.at, key: g.key, stamp: g.job.stamp(), read: v.began, since: v.began, deployed: len(g.job.deployments) > 0}
	if g.last != nil && g.last.stamp == set.stamp {
		set.since = g.last.since
	}
	return set
}

// due returns the empty sets of the groups that have to be read.
func (v *scopeReading) due() allocSets {
	due := allocSets{}
	v.cache.fill(v)
	for _, job := range v.jobs {
		for _, group := range job.groups {
			switch {
			case !job.listed:
				group.set = nil
			case len(v.jobs) <= v.always || len(job.deployments) > 0 || !v.current(group.set, job.stamp()):
				group.set = nil
				due[group.key] = v.empty(group)
			}
		}
	}
	return due
}

// staleness is the time by which a server that knows the leader can be behind it.
const staleness = time.Minute

// current reports whether a known set contains the allocations of now.
func (v *scopeReading) current(set *allocSet, now stamp) bool {
	switch {
	case set == nil || set.stamp != now || set.deployed || set.built && !set.settled:
		return false
	case v.session.config.Stale && set.read.Sub(set.since) < staleness:
		return false // read from a server that may not have had the change
	}
	return true
}

// accept takes sets that were read, unless their job changed since the reading began. It
// removes them from the sets that are due.
func (v *scopeReading) accept(due, read allocSets) {
	for key, set := range read {
		if due[key] == nil {
			continue
		}
		job := v.jobs[key.job]
		if set.stamp != job.stamp() || set.deployed != (len(job.deployments) > 0) {
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

// read reads the allocations of the groups that are due. The sets that were read before an
// error are accepted.
func (v *scopeReading) read(ctx context.Context, due allocSets) error {
	if n := len(due.jobs()); n > maxFiltered && 2*n > len(v.jobs) { // most of the allocations have to be read
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

// pages is a reading of all allocations of a scope, page by page. If it is interrupted, the
// next round continues it.
type pages struct {
	sets allocSets
	// token is the token of the next page; the page before was read at last.
	token string
	last  time.Time
}

// pagesExpire is how long an interrupted reading of all allocations can be continued.
const pagesExpire = 10 * time.Minute

// readAll reads all allocations of the scope, and accepts the sets that were due when
// the reading began.
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

// allocations is the list of allocations of a filter, with resources.
func (v *scopeReading) allocations(filter string) list {
	return list{path: "/v1/allocations", filter: filter, params: map[string]string{"resources": "true"}, size: v.page}
}

// readJobs reads the allocations of jobs, size of them in one call of read, and several calls
// in parallel. After an error it begins no further call.
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

// readNamed reads the allocations of up to maxFiltered jobs in one list.
func (v *scopeReading) readNamed(ctx context.Context, jobs []string, take func(*alloc)) error {
	_, err := readPages(ctx, v.session, v.at, v.allocations(both(presentAllocs, jobFilter("JobID", jobs))), func(stub *allocStub) {
		take(newAlloc(stub, reservedBy(stub.AllocatedResources)))
	})
	return err
}

// readJob reads the allocations of one job. Its list contains no resources, which
// are read by the ID of each allocation that is not in the cache.
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
			err = fmt.Errorf("%w: allocation %s of job %q is gone since it was listed", targets.ErrTransient, shortID(stub.ID), stub.JobID)
		}
	}
	return err
}

// Unchanged jobs are read again in turn, since the stamp of a job does not reveal a task
// that restarted before its client reported that it had ended: all of them within
// verifyAllIn, within the limits of reach.
const verifyAllIn = 5 * time.Minute

// verify reads unchanged jobs again. Without a response in time the known allocations are
// used. The error is the first one of a call.
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
	ctx, cancel := spare(ctx)
	defer cancel()
	return v.readJobs(ctx, due, due.jobs(), 1, v.readJob)
}

// Reading that no decision needs takes at most longestSpare, and this part of the time that
// is left.
const (
	longestSpare = 2 * time.Second
	spareShare   = 4
)

// spare returns a context for reading that no decision needs.
func spare(ctx context.Context) (context.Context, context.CancelFunc) {
	timeout := longestSpare
	if deadline, ok := ctx.Deadline(); ok {
		timeout = min(timeout, time.Until(deadline)/spareShare)
	}
	return context.WithTimeout(ctx, timeout)
}

// nothing reports whether no allocations are known.
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

// unbuilt returns the groups with allocations and without instances.
func (v *scopeReading) unbuilt() []*groupState {
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

// found returns the job of a target and the specification of its group, or why they are
// unknown.
func (v *scopeReading) found(t *targetState) (*jobState, *group, error) {
	job := t.group.job
	switch {
	case v.err != nil:
		return nil, nil, v.err
	case !job.listed && v.unlisted != nil:
		return nil, nil, v.unlisted
	case !job.listed:
		return nil, nil, reasoned(JobNotFound, fmt.Errorf("%w: there is no job %q in %v", targets.ErrTargetNotFound, t.Job, t.scope()))
	case job.err != nil:
		return nil, nil, job.err
	}
	g, err := job.spec.find(&t.Target)
	return job, g, err
}
