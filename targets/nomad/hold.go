package nomad

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"slices"
	"strconv"

	"github.com/hashicorp/nomad/api"

	"github.com/hpad/hpad/policy"
)

// finished returns the number of finished allocations of a batch job, as the leader has them.
// Of allocations with the same name only the newest counts: Nomad has run the work of the
// others again. Allocations that Nomad stopped are complete, too, and have not finished.
func (s *session) finished(ctx context.Context, key jobKey) (int, error) {
	leader, config := *s, *s.config
	config.Stale, leader.config = false, &config
	newest := map[string]*allocStub{}
	_, err := readPages(ctx, &leader, key.scope, list{path: "/v1/job/" + url.PathEscape(key.id) + "/allocations"}, func(alloc *allocStub) {
		known := newest[alloc.Name]
		if known == nil || cmp.Or(cmp.Compare(known.JobVersion, alloc.JobVersion), cmp.Compare(known.CreateTime, alloc.CreateTime)) < 0 {
			this := *alloc
			newest[alloc.Name] = &this
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

// hold returns why a job must not be scaled now; nil if it may be.
func hold(job *jobState, t *Target, g *group) *policy.Hold {
	if job.Stop || job.spec.stopped {
		return &policy.Hold{Reason: JobStopped, Message: fmt.Sprintf("job %q is stopped; run it again, or purge it, for its count to mean something", t.Job)}
	}
	if finished := finishedHold(t.Job, job.finished); finished != nil {
		return finished
	}
	wanted := func(g group) bool { return g.count > 0 }
	if job.dead() && (g.count > 0 || job.spec.jobType == api.JobTypeBatch && slices.ContainsFunc(job.spec.groups, wanted)) {
		return &policy.Hold{Reason: JobDead, Message: fmt.Sprintf("job %q is dead: all its allocations ended, and Nomad starts no others; run it again", t.Job)}
	}
	for _, d := range job.deployments {
		if d.JobCreateIndex != job.spec.createIndex {
			continue
		}
		message := fmt.Sprintf("deployment %s of job %q is %s", shortID(d.ID), t.Job, d.Status)
		if d.StatusDescription != "" {
			message += ": " + d.StatusDescription
		}
		if waiting := job.waiting(t.Group); waiting > 0 {
			message += fmt.Sprintf("; %d allocations of group %q wait for a place", waiting, t.Group)
		}
		return &policy.Hold{Reason: DeploymentActive, Message: message}
	}
	return nil
}

// versionOf returns the version of a reading.
func versionOf(index uint64) string { return strconv.FormatUint(index, 10) }
