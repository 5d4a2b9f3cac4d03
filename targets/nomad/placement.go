package nomad

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
)

// InsufficientCapacity is the condition of a group with allocations that find no
// place.
const InsufficientCapacity policy.ConditionType = "InsufficientCapacity"

// The reasons of InsufficientCapacity.
const (
	// ResourcesExhausted: the nodes that would do are full.
	ResourcesExhausted = "ResourcesExhausted"
	// ConstraintsFiltered: no node fulfills the job's constraints.
	ConstraintsFiltered = "ConstraintsFiltered"
	// QuotaExhausted: a quota allows no more.
	QuotaExhausted = "QuotaExhausted"
	// NoNodes: there is no node in the job's datacenters and node pool.
	NoNodes = "NoNodes"
	// AllocationsQueued: Nomad does not say why.
	AllocationsQueued = "AllocationsQueued"
)

// blockedStub is an evaluation in a list that waits for a place.
type blockedStub struct {
	JobID          string
	FailedTGAllocs map[string]*placement
}

// placement is why the scheduler found no place for an allocation: how many nodes it
// looked at, and what spoke against them.
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

// waiting returns how many allocations of a group of the job wait for a place.
func (j *jobState) waiting(group string) int {
	if j.stopped {
		return 0
	}
	return j.queued[group]
}

// The reasons why allocations wait are worth at most this much time, and this part of
// what a reading has left: no decision needs them, and Nomad searches all its
// evaluations for them.
const (
	longestExplanation = 2 * time.Second
	explanationShare   = 4
)

// explainWaiting reads why allocations wait, in one call for each namespace where
// some of the targets' do. Without a response in time the reasons are unknown.
func (s *snapshot) explainWaiting(ctx context.Context) {
	jobs := map[*survey][]string{}
	for _, v := range s.surveys {
		for i := range v.groups {
			if v.job(i).waiting(v.roster.groups[i].name) > 0 {
				jobs[v] = append(jobs[v], v.roster.key(i).job)
			}
		}
	}
	if len(jobs) == 0 {
		return
	}
	timeout := longestExplanation
	if deadline, ok := ctx.Deadline(); ok {
		timeout = min(timeout, time.Until(deadline)/explanationShare)
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var group errgroup.Group
	group.SetLimit(s.fleet.config.fetching())
	for v, ids := range jobs {
		group.Go(func() error {
			v.failures = s.failures(ctx, v.at, ids)
			return nil
		})
	}
	_ = group.Wait() // nothing is an error
}

// failures reads why allocations of some jobs of a namespace found no place.
func (s *snapshot) failures(ctx context.Context, at scope, jobs []string) map[groupKey]*placement {
	slices.Sort(jobs)
	failures := map[groupKey]*placement{}
	filter := both(`Status == "blocked"`, jobFilter("JobID", slices.Compact(jobs)))
	_, err := each(ctx, s.session, at, "/v1/evaluations", nil, filter, func(evaluation *blockedStub) {
		for name, failed := range evaluation.FailedTGAllocs {
			failures[groupKey{job: evaluation.JobID, group: name}] = failed
		}
	})
	if err = readError(err); errors.Is(err, targets.ErrThrottled) {
		s.fleet.backoff.record(at, err, time.Now())
	}
	return failures
}

// notices returns the notices of a target of a job, of which failing may be one.
func (v *survey) notices(t *Target, job *jobState, failing *policy.Notice) []policy.Notice {
	var notices []policy.Notice
	for _, notice := range []*policy.Notice{v.unplaced(t, job), failing} {
		if notice != nil {
			notices = append(notices, *notice)
		}
	}
	return notices
}

// unplaced returns a notice of allocations that find no place; nil for none.
func (v *survey) unplaced(t *Target, job *jobState) *policy.Notice {
	waiting := job.waiting(t.Group)
	if waiting == 0 {
		return nil
	}
	notice := &policy.Notice{
		Condition: InsufficientCapacity, Reason: AllocationsQueued,
		Message: fmt.Sprintf("%d allocations of group %q wait for a place", waiting, t.Group),
	}
	if failed := v.failures[t.groupKey()]; failed != nil {
		reason, words := failed.why()
		notice.Reason = reason
		notice.Message += ": " + words
	}
	return notice
}

// why returns why there was no place, in the words of Nomad's command line.
func (m *placement) why() (reason, words string) {
	var said []string
	add := func(form string, counts map[string]int) {
		for _, what := range slices.Sorted(maps.Keys(counts)) {
			said = append(said, fmt.Sprintf(form, what, counts[what]))
		}
	}
	reason = AllocationsQueued
	if m.NodesEvaluated == 0 {
		reason = NoNodes
		said = append(said, "no nodes were eligible for evaluation")
	}
	if m.NodesFiltered > 0 || len(m.ConstraintFiltered) > 0 {
		reason = ConstraintsFiltered
	}
	add("class %q: %d nodes excluded by filter", m.ClassFiltered)
	add("constraint %q: %d nodes excluded by filter", m.ConstraintFiltered)
	if m.NodesExhausted > 0 {
		reason = ResourcesExhausted
		said = append(said, fmt.Sprintf("resources exhausted on %d nodes", m.NodesExhausted))
	}
	add("class %q exhausted on %d nodes", m.ClassExhausted)
	add("dimension %q exhausted on %d nodes", m.DimensionExhausted)
	if len(m.QuotaExhausted) > 0 {
		reason = QuotaExhausted
		said = append(said, fmt.Sprintf("quota limit hit %q", m.QuotaExhausted))
	}
	if len(said) == 0 {
		return reason, "Nomad does not say why"
	}
	return reason, strings.Join(said, ", ")
}
