package nomad

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
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
	failures map[groupKey]*placement
	observed time.Time
	// allocs is the number of allocations of the listed jobs.
	allocs int
	// whole reports whether all allocations were listed.
	whole bool
	// err affects all jobs. listErr affects the jobs that were not listed. unread affects the jobs
	// whose allocations could not be read.
	err, listErr, unread error
}

// readLimits contains the limits that determine how jobs are read.
type readLimits struct {
	// always is a number of jobs. If at most this many jobs are in use, each round reads the
	// allocations of all jobs.
	always int
	// againAfter is the maximum age of the allocations of an unchanged job.
	againAfter time.Duration
	// page is the number of allocations in a page of a list.
	page int
	// filter is the maximum length of a job filter in a URL, in bytes.
	filter int
}

// A job's indexes do not reveal a task that restarted within one update interval of its client,
// so unchanged jobs are read again.
var defaultLimits = readLimits{always: 20, againAfter: 5 * time.Minute, page: 5000, filter: longestFilter}

type jobState struct {
	jobStub
	listed      bool
	deployments []deploymentStub
	// spec is the specification; nil if err is set.
	spec     *specification
	err      error
	finished int
	// children contains the submit times of the pending and running children of a parameterized job,
	// by their IDs.
	children map[string]int64
	// queued contains the number of queued allocations of the children, by the name of the group.
	queued  map[string]int32
	targets []*targetState
}

type targetState struct {
	ref targets.Ref
	Target
	job *jobState
	// set contains the allocations of the group in this reading; nil if they could not be read. last
	// is the set of the previous reading; it may be nil.
	set, last *allocSet
}

func (r *scopeReading) add(ref targets.Ref, t Target) {
	job := r.jobs[t.Job]
	if job == nil {
		job = &jobState{jobStub: jobStub{ID: t.Job}}
		r.jobs[t.Job] = job
	}
	job.targets = append(job.targets, &targetState{ref: ref, Target: t, job: job})
}

// targets returns the targets that satisfy a condition, in no particular order.
func (r *scopeReading) targets(which func(*targetState) bool) []*targetState {
	var found []*targetState
	for _, job := range r.jobs {
		for _, t := range job.targets {
			if which(t) {
				found = append(found, t)
			}
		}
	}
	return found
}

func (t *targetState) read() bool { return t.set != nil }

// unbuilt reports whether the allocations were read, and the instances are not known yet.
func (t *targetState) unbuilt() bool { return t.set != nil && !t.set.built }

func (j *jobState) deploying() bool { return len(j.deployments) > 0 }

// read reports whether the allocations of all groups in use are available.
func (j *jobState) read() bool {
	return !slices.ContainsFunc(j.targets, func(t *targetState) bool { return !t.read() })
}

// lastRead returns the time of the oldest reading of a group's allocations; zero if a group has not
// been read.
func (j *jobState) lastRead() (oldest time.Time) {
	for i, t := range j.targets {
		set := cmp.Or(t.set, t.last)
		if set == nil {
			return time.Time{}
		}
		if i == 0 || set.read.Before(oldest) {
			oldest = set.read
		}
	}
	return oldest
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
		h, r.listErr = readPages(ctx, r.session, r.at, list{path: "/v1/jobs", filter: filterAll("ID", ids, r.filter), size: jobsPage}, func(stub *jobStub) {
			r.allocs += stub.allocs()
			if job := r.jobs[stub.ID]; job != nil {
				job.jobStub, job.listed = *stub, true
				listed++
			}
		})
		return nil
	})
	group.Go(func() error {
		_, err := readPages(ctx, r.session, r.at, list{path: "/v1/deployments", filter: both(filterAll("JobID", ids, r.filter), activeDeployments), size: jobsPage}, func(stub *deploymentStub) {
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

// due returns the jobs whose allocations must be read, those that were read first at the front. All
// other listed jobs get their allocations from the cache.
func (r *scopeReading) due() []*jobState {
	var due []*jobState
	r.cache.fill(r)
	for _, job := range r.jobs {
		changed := func(t *targetState) bool { return !r.current(t.set, job.jobIndexes()) }
		isDue := len(r.jobs) <= r.always || job.deploying() || job.ParameterizedJob || slices.ContainsFunc(job.targets, changed)
		if job.listed && !isDue {
			continue
		}
		for _, t := range job.targets {
			t.set = nil
		}
		if job.listed && !job.ParameterizedJob { // readChildren reads its allocations
			due = append(due, job)
		}
	}
	sortByAge(due)
	return due
}

func sortByAge(jobs []*jobState) {
	slices.SortFunc(jobs, func(a, b *jobState) int { return a.lastRead().Compare(b.lastRead()) })
}

// staleness is the maximum lag of a server that has contact with the leader.
const staleness = time.Minute

func (r *scopeReading) current(set *allocSet, now jobIndexes) bool {
	switch {
	case set == nil || set.jobIndexes != now || set.deploying || set.built && !set.tracked:
		return false
	case !set.built && slices.ContainsFunc(set.allocs, func(a *alloc) bool { return !a.tracked(a.JobVersion, r.began) }):
		return false
	case r.session.config.Stale && set.read.Sub(set.since) < staleness:
		return false // the server that was read may not have had the change yet
	}
	return true
}

// read reads the allocations of jobs. It lists them with filters for their jobs, or lists all
// allocations if that takes fewer requests. After an error, the jobs of complete lists have been
// read.
func (r *scopeReading) read(ctx context.Context, due []*jobState) error {
	if pages := 1 + r.allocs/r.page; r.requests(due) > pages {
		r.whole = true
		if err := r.readAll(ctx, due); err != nil {
			return err
		}
		due = slices.DeleteFunc(due, (*jobState).read)
	}
	for len(due) > 0 {
		n, err := r.readFirst(ctx, due)
		if err != nil {
			return err
		}
		due = due[max(1, n):] // no filter can contain the ID of a job that does not fit
	}
	return nil
}

// requests returns the number of lists with filters that read the given jobs.
func (r *scopeReading) requests(due []*jobState) int {
	requests := 0
	for ids := idsOf(due); len(ids) > 0; requests++ {
		_, n := filterFirst("JobID", ids, r.filter)
		if n == 0 {
			return math.MaxInt
		}
		ids = ids[n:]
	}
	return requests
}

func idsOf(jobs []*jobState) []string {
	ids := make([]string, len(jobs))
	for i, job := range jobs {
		ids[i] = job.ID
	}
	return ids
}

// readFirst reads the allocations of the first jobs, as many as fit in one filter, and returns their
// number.
func (r *scopeReading) readFirst(ctx context.Context, jobs []*jobState) (int, error) {
	filter, n := filterFirst("JobID", idsOf(jobs), r.filter)
	if n == 0 {
		return 0, nil
	}
	return n, r.readList(ctx, r.newListing(jobs[:n]), filter)
}

// listing is the progress of a call that lists allocations page by page. The call that lists all
// allocations of a scope continues an interrupted listing.
type listing struct {
	sets map[groupKey]*allocSet
	// token selects the next page, and last is the time when the last page was read.
	token string
	last  time.Time
}

// listingExpires is how long an interrupted listing can be continued.
const listingExpires = 10 * time.Minute

func (r *scopeReading) newListing(jobs []*jobState) *listing {
	l := &listing{sets: map[groupKey]*allocSet{}, last: r.began}
	for _, job := range jobs {
		for _, t := range job.targets {
			set := &allocSet{at: r.at, key: t.groupKey(), jobIndexes: job.jobIndexes(), read: r.began, since: r.began, deploying: job.deploying()}
			if t.last != nil && t.last.jobIndexes == set.jobIndexes {
				set.since = t.last.since
			}
			l.sets[set.key] = set
		}
	}
	return l
}

// readAll lists all allocations of the scope for the jobs that were due when the listing started.
func (r *scopeReading) readAll(ctx context.Context, due []*jobState) error {
	l := r.cache.takeListing(r.at)
	if l == nil || r.began.Sub(l.last) > listingExpires {
		l = r.newListing(due)
	}
	err := r.readList(ctx, l, "")
	if err != nil {
		r.cache.putListing(r.at, l)
	}
	return err
}

// readList reads the remaining pages of a listing, and then accepts its sets.
func (r *scopeReading) readList(ctx context.Context, l *listing, filter string) error {
	all := list{path: "/v1/allocations", filter: both(filter, presentAllocs), params: map[string]string{"resources": "true"}, size: r.page}
	for {
		var page []*alloc
		h, err := readPage(ctx, r.session, r.at, all, l.token, func(stub *allocStub) {
			if l.sets[stub.key()] != nil {
				page = append(page, newAlloc(stub))
			}
		})
		if err != nil {
			return err
		}
		for _, alloc := range page {
			set := l.sets[alloc.key()]
			set.allocs = append(set.allocs, alloc)
		}
		l.token, l.last = h.next, time.Now()
		if l.token == "" {
			r.accept(l.sets)
			return nil
		}
	}
}

// accept stores sets that were read, unless their job has changed since the listing started.
func (r *scopeReading) accept(read map[groupKey]*allocSet) {
	for key, set := range read {
		job := r.jobs[key.job]
		if job == nil || set.jobIndexes != job.jobIndexes() || set.deploying != job.deploying() {
			continue
		}
		r.cache.putSet(set)
		for _, t := range job.targets {
			if t.Group == key.group {
				t.set = set
			}
		}
	}
}

// readAgain reads unchanged jobs again, the oldest readings first, as many as fit in one filter. If
// it fails, the cached allocations are used.
func (r *scopeReading) readAgain(ctx context.Context) error {
	var old []*jobState
	for _, job := range r.jobs {
		if job.read() && job.lastRead().Before(r.began.Add(-r.againAfter)) {
			old = append(old, job)
		}
	}
	sortByAge(old)
	ctx, cancel := optional(ctx)
	defer cancel()
	_, err := r.readFirst(ctx, old)
	return err
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

// group returns the group specification of a target, or an error.
func (r *scopeReading) group(t *targetState) (*group, error) {
	switch {
	case r.err != nil:
		return nil, r.err
	case !t.job.listed && r.listErr != nil:
		return nil, r.listErr
	case !t.job.listed:
		return nil, reasoned(jobNotFound, fmt.Errorf("%w: no job %q in %v", targets.ErrTargetNotFound, t.Job, t.scope()))
	case t.job.err != nil:
		return nil, t.job.err
	}
	return t.job.spec.find(&t.Target)
}
