package nomad

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/sync/errgroup"

	"github.com/hpad/hpad/targets"
)

// survey is the reading of the groups in use in one scope. The lists of jobs and of
// deployments are read each time; allocations are where something moved, and what the
// book has of the others is good.
type survey struct {
	session *session
	at      scope
	book    *book
	roster  *roster
	reach

	began time.Time
	// jobs and groups are those of the roster.
	jobs   []jobState
	groups []groupState
	// present is about how many allocations there are in the scope.
	present int
	// failures are why allocations found no place, where that was read.
	failures map[groupKey]*placement
	observed time.Time
	// err is why nothing is known of any job, unlisted why nothing is of those that were
	// not listed, unread why nothing is of allocations that were to be read, unmeasured
	// why the speed of their nodes is not known.
	err, unlisted, unread, unmeasured error
}

// reach is how many jobs are read in which way.
type reach struct {
	// always is up to how many jobs of a namespace are read each time, whether they moved
	// or not.
	always int
	// filtered is up to how many are read in lists that are filtered by them: the server
	// looks at all allocations for each such list.
	filtered int
}

// usual is how many it is but in tests.
var usual = reach{always: maxFiltered, filtered: 5 * maxFiltered}

// jobState is a job in use.
type jobState struct {
	jobStub
	listed bool
	// deployments are those that are active.
	deployments []*deploymentStub
	// spec is its specification; nil where it could not be read, for the reason of err.
	spec *specification
	err  error
	// finished is the number of finished allocations of a batch job.
	finished int
}

// groupState is a group in use.
type groupState struct {
	// known is what is known of its allocations; nil where they are to be read.
	known *knownGroup
	// remember means that the memory of its allocations is to be kept up.
	remember bool
}

// newSurvey returns a survey of the groups of a roster.
func newSurvey(r *roster, session *session, reach reach) *survey {
	return &survey{at: r.at, session: session, book: r.book, roster: r, reach: reach, jobs: make([]jobState, len(r.jobs)), groups: make([]groupState, len(r.groups))}
}

// job returns the job of a group.
func (v *survey) job(group int) *jobState { return &v.jobs[v.roster.groups[group].job] }

// few reports whether the jobs are so few that lists are filtered by them.
func (v *survey) few() bool { return len(v.jobs) <= maxFiltered }

// filter returns the filter of lists of what is in use, by the name of the field with
// the job's id; "" where that is too much.
func (v *survey) filter(field string) string {
	if !v.few() {
		return ""
	}
	ids := make([]string, len(v.jobs))
	for i := range ids {
		ids[i] = v.roster.jobs[i].id
	}
	return jobFilter(field, ids)
}

// list reads the lists of jobs and of deployments. A list of jobs that is cut off is
// good for those that are in it.
func (v *survey) list(ctx context.Context) {
	v.began = time.Now()
	var headers reply
	var listed int
	var group errgroup.Group
	group.Go(func() (err error) {
		list := v.roster.relist()
		headers, err = v.session.stream(ctx, v.at, "/v1/jobs", nil, v.filter("ID"), func(d *jsontext.Decoder) error {
			job, stub, err := list.next(d)
			if err != nil {
				return err
			}
			if stub != nil {
				v.jobs[job.number].jobStub, v.jobs[job.number].listed = *stub, true
				listed++
			}
			v.present += int(job.present)
			return nil
		})
		list.end(err)
		v.unlisted = err
		return nil
	})
	group.Go(func() error {
		_, err := each(ctx, v.session, v.at, "/v1/deployments", nil, both(activeDeployments, v.filter("JobID")), func(deployment *deploymentStub) {
			if i, inUse := v.roster.numbers[deployment.JobID]; inUse {
				v.jobs[i].deployments = append(v.jobs[i].deployments, deployment)
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
		v.book.heed(headers.index, v.present, v.began, v.observed)
	}
}

// staleness is how much older than its last contact with the leader a server may be.
const staleness = time.Second

// moved returns the groups whose allocations are to be read, with nothing in them, also
// those that moved without any list telling.
func (v *survey) moved(ctx context.Context) map[groupKey]*knownGroup {
	due := v.due()
	if !v.few() && len(due) < len(v.groups) && v.book.look(ctx, v.session, v.at) {
		return v.due()
	}
	return due
}

// unknown returns a group of which only its job is known.
func (v *survey) unknown(group int) *knownGroup {
	job := v.job(group)
	return &knownGroup{stamp: job.stamp, read: v.began, since: v.began, deployed: len(job.deployments) > 0}
}

// due returns the groups whose allocations are to be read by what is known of
// them and was listed.
func (v *survey) due() map[groupKey]*knownGroup {
	due := map[groupKey]*knownGroup{}
	v.book.lookUp(v.roster, v.groups, v.began)
	for i := range v.groups {
		state, job := &v.groups[i], v.job(i)
		if !job.listed {
			state.known = nil
			continue
		}
		if len(v.jobs) > v.always && len(job.deployments) == 0 && v.good(state.known, job.stamp) {
			continue
		}
		state.known = nil
		due[v.roster.key(i)] = v.unknown(i)
	}
	return due
}

// good reports whether what is known of a group is how it is now.
func (v *survey) good(known *knownGroup, now stamp) bool {
	switch {
	case known == nil || known.stamp != now || known.deployed || known.members != nil && !known.members.settled:
		return false
	case v.session.config.Stale && known.read.Sub(known.since) < known.contact+staleness:
		return false // by a server that may not have known of what moved
	}
	return known.read.After(v.began.Add(-trusted)) || v.book.swept().After(v.began.Add(-trusted))
}

// read reads the allocations of groups that are due. What was read before an error is
// good.
func (v *survey) read(ctx context.Context, due map[groupKey]*knownGroup) error {
	begun := v.book.takeGathering()
	for len(due) > 0 {
		var err error
		switch jobs := jobsOf(due); {
		case begun != nil || v.worthAll(len(jobs)):
			if begun == nil {
				begun = newGathering(due, len(v.groups), v.present, v.began)
			}
			err = begun.read(ctx, v.session, v.at)
			if len(begun.parts) > 0 {
				v.book.keepGathering(begun)
				return err
			}
			for _, known := range begun.groups {
				known.contact = begun.contact
			}
			v.take(due, begun.groups)
			begun = nil
		case len(jobs) > v.filtered:
			err = v.readEach(ctx, due, jobs)
		default:
			err = v.readNamed(ctx, due, jobs)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// fewAllocs is how many allocations are all read rather than those of more than
// maxFiltered jobs, perCall how many are read in a list of all rather than by one call
// more, mostCalls how many calls a reading takes in the place of such a list.
const (
	fewAllocs = 1000
	perCall   = 10
	mostCalls = 2000
)

// worthAll reports whether all allocations are to be read for those of so many jobs.
func (v *survey) worthAll(jobs int) bool {
	switch {
	case v.few() || jobs <= maxFiltered:
		return false
	case 2*jobs > len(v.jobs) || v.present <= fewAllocs:
		return true
	}
	calls := jobs + jobs*v.present/len(v.jobs)
	return jobs > v.filtered && (calls > mostCalls || perCall*calls > v.present)
}

// jobsOf returns the ids of the jobs of groups, in order.
func jobsOf(groups map[groupKey]*knownGroup) []string {
	ids := make([]string, 0, len(groups))
	for key := range groups {
		ids = append(ids, key.job)
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// take takes groups that were read out of those that are due, unless their job moved
// since the reading began.
func (v *survey) take(due, groups map[groupKey]*knownGroup) {
	for key, known := range groups {
		i, inUse := v.roster.find(key)
		if due[key] == nil || !inUse || known.stamp != v.job(i).stamp || known.deployed != (len(v.job(i).deployments) > 0) {
			continue
		}
		delete(due, key)
		state := &v.groups[i]
		if state.known == nil || state.known.read.Before(known.read) {
			state.known = known
			v.book.enter(key, known, v.began)
		}
	}
}

// readNamed reads the allocations of groups that are due by filters of their jobs. Jobs that
// no filter can name are read one by one.
func (v *survey) readNamed(ctx context.Context, due map[groupKey]*knownGroup, jobs []string) error {
	named := slices.DeleteFunc(slices.Clone(jobs), unnamed)
	err := v.readChunks(ctx, due, named, maxFiltered, func(ctx context.Context, named []string, take func(*allocStub)) (reply, error) {
		return v.session.readAllocs(ctx, v.at, "", both(presentAllocs, jobFilter("JobID", named)), nil, take)
	})
	others := slices.DeleteFunc(slices.Clone(jobs), func(job string) bool { return !unnamed(job) })
	return cmp.Or(err, v.readChunks(ctx, due, others, 1, func(ctx context.Context, one []string, take func(*allocStub)) (reply, error) {
		return v.session.readJobAllocs(ctx, v.at, one[0], take)
	}))
}

// readEach reads the allocations of groups that are due job by job, which costs the
// server no look at those of others. It ends with the first error: there are many calls.
func (v *survey) readEach(ctx context.Context, due map[groupKey]*knownGroup, jobs []string) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	err := v.readChunks(ctx, due, jobs, 1, func(ctx context.Context, named []string, take func(*allocStub)) (reply, error) {
		headers, err := v.session.readJobAllocs(ctx, v.at, named[0], take)
		if err != nil && ctx.Err() == nil {
			cancel(err)
		}
		return headers, err
	})
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// readChunks reads the allocations of groups that are due by a function that reads
// those of so many jobs, several at once. What was read before an error is kept.
func (v *survey) readChunks(ctx context.Context, due map[groupKey]*knownGroup, jobs []string, size int, read func(ctx context.Context, named []string, take func(*allocStub)) (reply, error)) error {
	byJob := map[string]map[groupKey]*knownGroup{}
	for key, known := range due {
		if byJob[key.job] == nil {
			byJob[key.job] = map[groupKey]*knownGroup{}
		}
		byJob[key.job][key] = known
	}
	var mu sync.Mutex
	var group errgroup.Group
	group.SetLimit(v.session.config.fetching())
	for named := range slices.Chunk(jobs, size) {
		group.Go(func() error {
			found := map[groupKey]*knownGroup{}
			for _, job := range named {
				maps.Copy(found, byJob[job])
			}
			headers, err := read(ctx, named, func(alloc *allocStub) {
				if known := found[alloc.key()]; known != nil {
					known.add(alloc)
				}
			})
			if err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			for _, known := range found {
				known.contact = headers.contact
			}
			v.take(due, found)
			return nil
		})
	}
	return group.Wait()
}

// nothing reports whether nothing is known of any group.
func (v *survey) nothing() bool {
	return !slices.ContainsFunc(v.groups, func(state groupState) bool { return state.known != nil })
}

// unmade yields what is known of groups that are to be made into members.
func (v *survey) unmade() iter.Seq2[int, *knownGroup] {
	return func(yield func(int, *knownGroup) bool) {
		for i := range v.groups {
			if known := v.groups[i].known; known != nil && known.members == nil && !yield(i, known) {
				return
			}
		}
	}
}

// nodes returns the nodes of allocations that are to be made into members.
func (v *survey) nodes() map[string]bool {
	nodes := map[string]bool{}
	for _, known := range v.unmade() {
		for _, alloc := range known.allocs {
			nodes[alloc.NodeID] = true
		}
	}
	return nodes
}

// found returns the job of a target and what is known of its group, or why nothing is.
func (v *survey) found(t *rosterTarget) (*jobState, *groupState, error) {
	if v.err != nil {
		return nil, nil, v.err
	}
	job := v.job(t.group)
	switch {
	case !job.listed && v.unlisted != nil:
		return nil, nil, v.unlisted
	case !job.listed:
		return nil, nil, reasoned(JobNotFound, fmt.Errorf("%w: there is no job %q in %v", targets.ErrTargetNotFound, t.Job, t.scope()))
	case job.err != nil:
		return nil, nil, job.err
	}
	return job, &v.groups[t.group], nil
}
