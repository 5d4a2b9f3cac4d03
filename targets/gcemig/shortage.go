package gcemig

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/api/compute/v1"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets/cloud"
)

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
