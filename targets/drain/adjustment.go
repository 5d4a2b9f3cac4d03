package drain

import (
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
)

// adjustment is what the operations of a target make of a reading of it.
type adjustment struct {
	// leaving has the operations, by instance, of those that are there and on their
	// way out.
	leaving map[string]string
	// surplus are operations that would make the count smaller than it is wanted, the
	// newest first.
	surplus []string
	// spec is the wanted count without those that are leaving.
	spec int32
}

// adjustment returns what the operations make of a reading. An instance is subtracted
// for as long as the platform shows it, so that it does not matter how old the
// reading is; and no more than leaves the count that was decided and the least one
// of the platform, so that it does not matter who else lowered the count.
func (t *target) adjust(reading targets.Reading, observed time.Time) adjustment {
	present := map[string]bool{}
	for _, instance := range reading.Instances {
		present[instance.ID] = !instance.Deleting
	}
	c := adjustment{leaving: map[string]string{}}
	for _, op := range t.operations {
		stale := op.Outcome == Terminated && observed.Before(op.Ended)
		if present[op.Instance.ID] && (op.leaving() || stale) {
			c.leaving[op.Instance.ID] = op.ID
		}
	}
	floor := t.wanted
	if reading.Min != nil {
		floor = max(floor, *reading.Min)
	}
	most := max(0, int(reading.SpecReplicas)-int(floor))
	for _, op := range slices.Backward(t.operations) {
		if len(c.leaving) > most && op.returnable() && c.leaving[op.Instance.ID] == op.ID {
			delete(c.leaving, op.Instance.ID)
			c.surplus = append(c.surplus, op.ID)
		}
	}
	c.spec = reading.SpecReplicas - int32(min(len(c.leaving), most))
	return c
}

// apply returns the reading with the counts and instances as they are decided.
func (c adjustment) apply(reading targets.Reading) targets.Reading {
	reading.Version = c.version(reading)
	reading.SpecReplicas = c.spec
	if len(c.leaving) == 0 {
		return reading
	}
	reading.Instances = slices.Clone(reading.Instances)
	for i := range reading.Instances {
		instance := &reading.Instances[i]
		if c.leaving[instance.ID] == "" || instance.Deleting {
			continue
		}
		instance.Deleting = true
		if instance.Phase != policy.PhaseFailed && instance.Phase != policy.PhaseSucceeded {
			reading.StatusReplicas--
		}
	}
	return reading
}

// versionMark parts the inner fleet's version from what stands for the operations.
const versionMark = "~"

// version returns the reading's own version, and with it which instances are
// leaving: whoever writes by a version has seen both.
func (c adjustment) version(reading targets.Reading) string {
	if len(c.leaving) == 0 {
		return reading.Version
	}
	sum := fnv.New64a()
	_, _ = sum.Write([]byte(strings.Join(slices.Sorted(maps.Values(c.leaving)), " "))) // never fails
	return fmt.Sprintf("%s%s%016x", reading.Version, versionMark, sum.Sum64())
}

// existing returns how many instances of the target there are, of those that its
// count is for.
func existing(reading targets.Reading) int32 {
	count := int32(0)
	for i := range reading.Instances {
		if instance := &reading.Instances[i]; !instance.Deleting && instance.Phase != policy.PhaseSucceeded {
			count++
		}
	}
	return max(count, reading.StatusReplicas)
}

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
