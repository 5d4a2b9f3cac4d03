package swarm

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/docker/docker/api/types/swarm"

	"github.com/hpad/hpad/policy"
)

// InsufficientCapacity: tasks wait for a node.
const InsufficientCapacity policy.ConditionType = "InsufficientCapacity"

// NoSuitableNode is the reason of InsufficientCapacity. The message contains the error of the
// swarm.
const NoSuitableNode = "NoSuitableNode"

// waiting returns the notice of tasks without a node; else nil.
func waiting(service *swarm.Service, members []member) *policy.Notice {
	count := 0
	why := map[string]bool{}
	for _, m := range members {
		if m.Status.State == swarm.TaskStatePending && m.Status.Err != "" && !m.leaving {
			count++
			why[m.Status.Err] = true
		}
	}
	if count == 0 {
		return nil
	}
	return &policy.Notice{
		Condition: InsufficientCapacity, Reason: NoSuitableNode,
		Message: fmt.Sprintf("%d tasks of service %q wait for a node: %s", count, service.Spec.Name, strings.Join(slices.Sorted(maps.Keys(why)), "; ")),
	}
}
