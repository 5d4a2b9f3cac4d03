package nomad

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

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

// explainWaiting reads why allocations wait, in one list for each namespace in which
// allocations of the targets wait. Without a response in time the reasons are unknown: no
// decision needs them, and Nomad searches all its evaluations for them.
func (s *snapshot) explainWaiting(ctx context.Context) {
	ctx, cancel := spare(ctx)
	defer cancel()
	var group errgroup.Group
	group.SetLimit(s.fleet.config.fetching())
	for _, v := range s.scopes {
		var waiting []string
		for id, job := range v.jobs {
			if slices.ContainsFunc(job.groups, func(g *groupState) bool { return job.waiting(g.key.group) > 0 }) {
				waiting = append(waiting, id)
			}
		}
		if len(waiting) > 0 {
			group.Go(func() error {
				v.failures = s.failures(ctx, v.at, waiting)
				return nil
			})
		}
	}
	_ = group.Wait() // a missing reason is no error
}

// failures reads why allocations of some jobs of a namespace found no place.
func (s *snapshot) failures(ctx context.Context, at scope, jobs []string) map[groupKey]*placement {
	failures := map[groupKey]*placement{}
	blocked := list{path: "/v1/evaluations", filter: both(`Status == "blocked"`, jobFilter("JobID", jobs)), size: jobsPage}
	_, err := readPages(ctx, s.session, at, blocked, func(evaluation *blockedStub) {
		for name, failed := range evaluation.FailedTGAllocs {
			failures[groupKey{job: evaluation.JobID, group: name}] = failed
		}
	})
	if err = readError(err); errors.Is(err, targets.ErrThrottled) {
		s.fleet.recordError(err)
	}
	return failures
}

// notices returns the notices of a target of a job, of which failing may be one.
func (v *scopeReading) notices(t *Target, job *jobState, failing *policy.Notice) []policy.Notice {
	var notices []policy.Notice
	for _, notice := range []*policy.Notice{v.unplaced(t, job), failing} {
		if notice != nil {
			notices = append(notices, *notice)
		}
	}
	return notices
}

// unplaced returns a notice of allocations that find no place; nil for none.
func (v *scopeReading) unplaced(t *Target, job *jobState) *policy.Notice {
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
