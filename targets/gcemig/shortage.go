package gcemig

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"google.golang.org/api/compute/v1"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets/cloud"
)

// toldWithin is the age up to which an error explains a shortage.
const toldWithin = 15 * time.Minute

// explain reads how changes ended that were under way, and why groups have lacked
// instances for a while where these have no error of their own. What fails is read
// again in the next round.
func (s *snapshot) explain(ctx context.Context) {
	now := time.Now()
	s.each(s.good, func(a *wanted) {
		name := a.target.Name()
		s.fleet.settle(ctx, s.session, &a.target)
		if !s.fleet.shortages.Update(name, short(a), now) || launchNotice(a.members) != nil {
			return
		}
		if found, err := s.session.failures(ctx, &a.target); err == nil {
			s.fleet.shortages.Explain(name, failureNotice(found, now), now)
		}
	})
}

// short reports whether a group has fewer running instances than it should.
func short(a *wanted) bool {
	running := int64(0)
	for _, m := range a.members {
		if s := standingOf(m); s.counted && s.phase == policy.PhaseRunning && !s.deleting {
			running++
		}
	}
	return running < a.group.TargetSize
}

// notices returns what a person should know of a group.
func (f *Fleet) notices(a *wanted, now time.Time) []policy.Notice {
	name := a.target.Name()
	var notices []policy.Notice
	if notice := launchNotice(a.members); notice != nil {
		notices = append(notices, *notice)
	} else {
		notices = f.shortages.Notices(name)
	}
	return append(notices, f.changes.failures.Notices(name, false, now)...)
}

// failure is why a machine did not start.
type failure struct{ code, message string }

// launchNotice returns why instances do not start, by their own errors; nil when none
// has any.
func launchNotice(members []*compute.ManagedInstance) *policy.Notice {
	counts := map[failure]int{}
	for _, m := range members {
		s := standingOf(m)
		if !s.counted || s.deleting || s.phase == policy.PhaseRunning || m.LastAttempt == nil || m.LastAttempt.Errors == nil {
			continue
		}
		for _, said := range m.LastAttempt.Errors.Errors {
			if said != nil {
				counts[failure{code: said.Code, message: said.Message}]++
				break
			}
		}
	}
	if len(counts) == 0 {
		return nil
	}
	most := slices.SortedFunc(maps.Keys(counts), func(a, b failure) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), strings.Compare(a.code, b.code), strings.Compare(a.message, b.message))
	})[0]
	return &policy.Notice{
		Condition: cloud.InsufficientCapacity, Reason: launchReason(most.code),
		Message: fmt.Sprintf("%d instances do not start: %s: %s", counts[most], most.code, most.message),
	}
}

// failureNotice returns the latest of a group's errors; nil when there is none of
// late.
func failureNotice(found []*compute.InstanceManagedByIgmError, now time.Time) *policy.Notice {
	var latest *compute.InstanceManagedByIgmError
	var at time.Time
	for _, one := range found {
		when, err := time.Parse(time.RFC3339, one.Timestamp)
		if err == nil && one.Error != nil && now.Sub(when) <= toldWithin && when.After(at) {
			latest, at = one, when
		}
	}
	if latest == nil {
		return nil
	}
	return &policy.Notice{
		Condition: cloud.InsufficientCapacity, Reason: launchReason(latest.Error.Code),
		Message: fmt.Sprintf("%s: %s", latest.Error.Code, latest.Error.Message),
	}
}
