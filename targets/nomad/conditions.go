package nomad

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/hpad/hpad/guard"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
)

// AllocationsFailing is the condition of a group with failed allocations or crash-looping tasks.
const AllocationsFailing policy.ConditionType = "AllocationsFailing"

// The reasons of AllocationsFailing.
const (
	// AllocationsFailed: allocations failed and have no replacement.
	AllocationsFailed = "AllocationsFailed"
	// TasksRestarting: tasks failed and are restarted in their allocations.
	TasksRestarting = "TasksRestarting"
)

// restartingWindow is how long a task is considered restarting after a restart.
const restartingWindow = time.Minute

// fault describes the last failure of a task. The zero value means that the task has not failed.
type fault struct {
	words string
	// restarted is the time of the last restart after a failure; zero without such a restart.
	restarted time.Time
}

// UnmarshalJSON reads the events of a task. Task events make up most of an allocation list, so
// events without a failure are not parsed.
func (f *fault) UnmarshalJSON(text []byte) error {
	*f = fault{}
	if !bytes.Contains(text, []byte(`Restarting"`)) && !bytes.Contains(text, []byte(`"FailsTask":true`)) {
		return nil
	}
	var events []struct {
		Type, DisplayMessage string
		FailsTask            bool
		Time                 int64
	}
	if err := json.Unmarshal(text, &events); err != nil {
		return err
	}
	requested := false // a user or a changed template requested a restart
	for _, event := range events {
		switch event.Type {
		case api.TaskRestartSignal:
			requested = true
		case api.TaskRestarting:
			if !requested {
				f.restarted = time.Unix(0, event.Time)
			}
			requested = false
		case api.TaskNotRestarting: // its message explains the missing restart, not the failure
			f.words = cmp.Or(f.words, event.DisplayMessage)
		case api.TaskTerminated, api.TaskDriverFailure, api.TaskArtifactDownloadFailed:
			if !requested {
				f.words = event.DisplayMessage
			}
		default:
			if event.FailsTask {
				f.words = event.DisplayMessage
			}
		}
	}
	return nil
}

// failing returns a notice about the failing allocations of a group, or nil.
func failing(allocs []*alloc, group string, now time.Time) *policy.Notice {
	const most = 3
	failed, restarting := 0, 0
	var failingAllocs []*alloc
	for _, alloc := range allocs {
		switch {
		case alloc.stopping() || alloc.canary():
			continue
		case alloc.failed():
			failed++
		case alloc.restarting(now):
			restarting++
		default:
			continue
		}
		failingAllocs = append(failingAllocs, alloc)
	}
	if len(failingAllocs) == 0 {
		return nil
	}
	slices.SortFunc(failingAllocs, func(a, b *alloc) int { return cmp.Or(cmp.Compare(a.index(), b.index()), cmp.Compare(a.ID, b.ID)) })
	descriptions := make([]string, 0, len(failingAllocs))
	for _, alloc := range failingAllocs {
		descriptions = append(descriptions, strings.TrimSpace(fmt.Sprintf("%s (%s) %s", alloc.Name, shortID(alloc.ID), alloc.faults)))
	}
	if len(descriptions) > most {
		descriptions = append(descriptions[:most:most], "and more")
	}
	notice := &policy.Notice{Condition: AllocationsFailing, Reason: AllocationsFailed}
	switch {
	case failed > 0 && restarting > 0:
		notice.Message = fmt.Sprintf("%d allocations of group %q failed and have no replacement, and tasks of %d other allocations are restarting", failed, group, restarting)
	case failed > 0:
		notice.Message = fmt.Sprintf("%d allocations of group %q failed and have no replacement", failed, group)
	default:
		notice.Reason = TasksRestarting
		notice.Message = fmt.Sprintf("tasks of %d allocations of group %q failed and are restarting", restarting, group)
	}
	notice.Message += ": " + strings.Join(descriptions, "; ")
	return notice
}

// InsufficientCapacity is the condition of a group with allocations that cannot be placed.
const InsufficientCapacity policy.ConditionType = "InsufficientCapacity"

// The reasons of InsufficientCapacity.
const (
	// ResourcesExhausted: the eligible nodes are full.
	ResourcesExhausted = "ResourcesExhausted"
	// constraintsFiltered: no node satisfies the job's constraints.
	constraintsFiltered = "ConstraintsFiltered"
	// quotaExhausted: a quota is reached.
	quotaExhausted = "QuotaExhausted"
	// noNodes: there is no node in the job's datacenters and node pool.
	noNodes = "NoNodes"
	// allocationsQueued: Nomad does not report a reason.
	allocationsQueued = "AllocationsQueued"
)

type blockedStub struct {
	JobID          string
	FailedTGAllocs map[string]*placement
}

// placement contains the scheduler's metrics for an allocation that it could not place.
type placement struct {
	NodesEvaluated     int
	NodesFiltered      int
	ClassFiltered      map[string]int
	ConstraintFiltered map[string]int
	NodesExhausted     int
	ClassExhausted     map[string]int
	DimensionExhausted map[string]int
	QuotaExhausted     []string
}

// explainWaiting reads the reasons for queued allocations with one list call per namespace. No
// scaling decision depends on them and the query is expensive for Nomad, so it has a short
// timeout.
func (s *snapshot) explainWaiting(ctx context.Context) {
	ctx, cancel := optional(ctx)
	defer cancel()
	var group guard.Group
	group.SetLimit(s.fleet.config.fetching())
	for _, r := range s.scopes {
		var waiting []string
		for id, job := range r.jobs {
			if slices.ContainsFunc(job.targets, func(t *targetState) bool { return job.waiting(t.Group) > 0 }) {
				waiting = append(waiting, id)
			}
		}
		if len(waiting) > 0 {
			group.Go(func() error {
				r.failures = s.failures(ctx, r, waiting)
				return nil
			})
		}
	}
	_ = group.Wait() // a missing reason is not an error
}

func (s *snapshot) failures(ctx context.Context, r *scopeReading, jobs []string) map[groupKey]*placement {
	failures := map[groupKey]*placement{}
	blocked := list{path: "/v1/evaluations", filter: both(filterAll("JobID", jobs, r.filter), `Status == "blocked"`), size: jobsPage}
	_, err := readPages(ctx, s.session, r.at, blocked, func(evaluation *blockedStub) {
		for name, failed := range evaluation.FailedTGAllocs {
			failures[groupKey{job: evaluation.JobID, group: name}] = failed
		}
	})
	if err = readError(err); errors.Is(err, targets.ErrThrottled) {
		s.fleet.recordError(err)
	}
	return failures
}

func (r *scopeReading) notices(t *Target, job *jobState, failing *policy.Notice) []policy.Notice {
	var notices []policy.Notice
	for _, notice := range []*policy.Notice{r.unplaced(t, job), failing} {
		if notice != nil {
			notices = append(notices, *notice)
		}
	}
	return notices
}

func (r *scopeReading) unplaced(t *Target, job *jobState) *policy.Notice {
	waiting := job.waiting(t.Group)
	if waiting == 0 {
		return nil
	}
	notice := &policy.Notice{
		Condition: InsufficientCapacity, Reason: allocationsQueued,
		Message: fmt.Sprintf("%d allocations of group %q are queued", waiting, t.Group),
	}
	if failed := r.failures[t.groupKey()]; failed != nil {
		reason, words := failed.why()
		notice.Reason = reason
		notice.Message += ": " + words
	}
	return notice
}

// why returns the reason for a failed placement, in the wording of Nomad's command line.
func (m *placement) why() (reason, words string) {
	var reasons []string
	add := func(form string, counts map[string]int) {
		for _, what := range slices.Sorted(maps.Keys(counts)) {
			reasons = append(reasons, fmt.Sprintf(form, what, counts[what]))
		}
	}
	reason = allocationsQueued
	if m.NodesEvaluated == 0 {
		reason = noNodes
		reasons = append(reasons, "no nodes were eligible for evaluation")
	}
	if m.NodesFiltered > 0 || len(m.ConstraintFiltered) > 0 {
		reason = constraintsFiltered
	}
	add("class %q: %d nodes excluded by filter", m.ClassFiltered)
	add("constraint %q: %d nodes excluded by filter", m.ConstraintFiltered)
	if m.NodesExhausted > 0 {
		reason = ResourcesExhausted
		reasons = append(reasons, fmt.Sprintf("resources exhausted on %d nodes", m.NodesExhausted))
	}
	add("class %q exhausted on %d nodes", m.ClassExhausted)
	add("dimension %q exhausted on %d nodes", m.DimensionExhausted)
	if len(m.QuotaExhausted) > 0 {
		reason = quotaExhausted
		reasons = append(reasons, fmt.Sprintf("quota limit hit %q", m.QuotaExhausted))
	}
	if len(reasons) == 0 {
		return reason, "Nomad returned no reason"
	}
	return reason, strings.Join(reasons, ", ")
}

// finished returns the number of finished allocations of a batch job. It reads from the leader. Of
// several allocations with the same name it counts only the newest, because Nomad has repeated the
// work of the older allocations. A stopped allocation is complete, but not finished.
func (s *session) finished(ctx context.Context, key jobKey) (int, error) {
	newest := map[string]*allocStub{}
	_, err := readPages(ctx, s.consistent(), key.scope, list{path: "/v1/job/" + url.PathEscape(key.id) + "/allocations"}, func(alloc *allocStub) {
		last := newest[alloc.Name]
		if last == nil || cmp.Or(cmp.Compare(last.JobVersion, alloc.JobVersion), cmp.Compare(last.CreateTime, alloc.CreateTime)) < 0 {
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

// finishedHold returns a hold for a batch job with finished allocations, or nil. The hold applies
// to all groups of the job: changing a count creates a new job version, for which Nomad repeats
// the finished work of every group.
func finishedHold(job string, finished int) *policy.Hold {
	if finished == 0 {
		return nil
	}
	return &policy.Hold{Reason: AllocationsComplete, Message: fmt.Sprintf("batch job %q has %d complete allocations, whose work Nomad would repeat after a change of the count", job, finished)}
}

func hold(job *jobState, t *Target, g *group) *policy.Hold {
	if job.Stop || job.spec.stopped {
		return &policy.Hold{Reason: JobStopped, Message: fmt.Sprintf("job %q is stopped, so its count has no effect; start or purge it", t.Job)}
	}
	if finished := finishedHold(t.Job, job.finished); finished != nil {
		return finished
	}
	wanted := func(g group) bool { return g.count > 0 }
	if job.dead() && (g.count > 0 || job.spec.jobType == api.JobTypeBatch && slices.ContainsFunc(job.spec.groups, wanted)) {
		return &policy.Hold{Reason: jobDead, Message: fmt.Sprintf("job %q is dead: all its allocations have ended; run it again", t.Job)}
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
			message += fmt.Sprintf("; %d allocations of group %q are queued", waiting, t.Group)
		}
		return &policy.Hold{Reason: DeploymentActive, Message: message}
	}
	return nil
}

func versionOf(index uint64) string { return strconv.FormatUint(index, 10) }
