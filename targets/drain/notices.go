package drain

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hpad/hpad/policy"
)

// The conditions that readings have besides the platform's own.
const (
	// ConditionDraining: instances are drained, to be removed, or being removed.
	ConditionDraining policy.ConditionType = "Draining"
	// ConditionDrainFailed: an instance was to be removed and is there again.
	ConditionDrainFailed policy.ConditionType = "DrainFailed"
)

// failureShown is how long an operation that failed is a condition of its target.
const failureShown = time.Hour

// notices returns what a person should know of the target's operations.
func (t *target) notices(now time.Time) []policy.Notice {
	var found []policy.Notice
	draining, removing := 0, 0
	problem := ""
	for _, op := range t.operations {
		if !op.Removes() {
			continue
		}
		if op.State == Removing || op.State == Terminating {
			removing++
		} else {
			draining++
		}
		if op.Error != "" && problem == "" {
			problem = fmt.Sprintf("; instance %s: %s", op.Instance.ID, op.Error)
		}
	}
	var ways []string
	if draining > 0 {
		ways = append(ways, count(draining)+" drained, to be removed")
	}
	if removing > 0 {
		ways = append(ways, count(removing)+" being removed")
	}
	if len(ways) > 0 {
		found = append(found, policy.Notice{Condition: ConditionDraining, Reason: "InstancesDraining", Message: strings.Join(ways, ", ") + problem})
	}
	for _, op := range slices.Backward(t.operations) { // what came last counts
		if op.State != Ended || now.Sub(op.Ended) > failureShown {
			continue
		}
		if op.Outcome == Failed {
			found = append(found, policy.Notice{
				Condition: ConditionDrainFailed, Reason: "InstanceTakenBack",
				Message: fmt.Sprintf("instance %s was taken back: %s", op.Instance.ID, op.Why),
			})
		}
		break
	}
	return found
}

// count begins a sentence about so many instances.
func count(instances int) string {
	if instances == 1 {
		return "1 instance is"
	}
	return fmt.Sprintf("%d instances are", instances)
}
