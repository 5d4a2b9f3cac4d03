package nomad

import (
	"cmp"
	"context"
	"fmt"
	"net/url"

	"github.com/hashicorp/nomad/api"
	"golang.org/x/sync/errgroup"

	"github.com/hpad/hpad/policy"
)

// countFinished counts the finished allocations of batch jobs, if their list entries changed
// since they were counted.
func (s *snapshot) countFinished(ctx context.Context) {
	var group errgroup.Group
	group.SetLimit(s.fleet.config.fetching())
	for _, v := range s.surveys {
		for i := range v.jobs {
			job, key := &v.jobs[i], jobKey{scope: v.at, id: v.roster.jobs[i].id}
			if job.spec == nil || job.spec.jobType != api.JobTypeBatch || !job.complete {
				continue
			}
			group.Go(func() (err error) {
				job.finished, err = s.fleet.specifications.finished(key, job.stamp, func() (int, error) { return s.session.finished(ctx, key) })
				job.err = err
				return nil
			})
		}
	}
	_ = group.Wait() // each job has its own error
}

// finished returns the number of finished allocations of a batch job, as the leader has them.
// Of allocations with the same name only the newest counts: Nomad has run the work of the
// others again. Allocations that Nomad stopped are complete, too, and have not finished.
func (s *session) finished(ctx context.Context, key jobKey) (int, error) {
	leader, config := *s, *s.config
	config.Stale, leader.config = false, &config
	newest := map[string]*allocStub{}
	_, err := each(ctx, &leader, key.scope, "/v1/job/"+url.PathEscape(key.id)+"/allocations", nil, "", func(alloc *allocStub) {
		known := newest[alloc.Name]
		if known == nil || cmp.Or(cmp.Compare(known.JobVersion, alloc.JobVersion), cmp.Compare(known.CreateTime, alloc.CreateTime)) < 0 {
			newest[alloc.Name] = alloc
		}
	})
	if err != nil {
		return 0, fmt.Errorf("list allocations of job %q of %v: %w", key.id, key.scope, jobError(err))
	}
	n := 0
	for _, alloc := range newest {
		if alloc.ClientStatus == api.AllocClientStatusComplete && !alloc.stopping() {
			n++
		}
	}
	return n, nil
}

// finishedHold returns the hold of a batch job with finished allocations; nil for none. It
// is for all groups of the job: a count makes a new version of the job, for which Nomad runs
// finished work of every group again.
func finishedHold(job string, finished int) *policy.Hold {
	if finished == 0 {
		return nil
	}
	return &policy.Hold{Reason: AllocationsComplete, Message: fmt.Sprintf("batch job %q has finished work (%d complete allocations), which Nomad would run again after a change of a count", job, finished)}
}
