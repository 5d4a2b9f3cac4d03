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

// adjustment is the effect of a target's operations on a reading.
type adjustment struct {
	// leaving maps the instances that are being drained or removed, and are still present, to the
	// IDs of their operations.
	leaving map[string]string
	// surplus lists the operations that would lower the count below the decided count, newest
	// first.
	surplus []string
	// spec is the platform's count minus the leaving instances.
	spec int32
}

// adjust returns the effect of the operations on a reading. An instance is subtracted as long as
// the platform reports it, so the age of the reading does not matter. The result is at least the
// decided count and the platform's minimum, so that a count change by an external writer is not
// subtracted twice.
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

// versionMark separates the inner fleet's version from the hash of the operations.
const versionMark = "~"

// version appends a hash of the operations of leaving instances to the reading's version, so that a
// write at this version fails if the reading or the operations have changed.
func (c adjustment) version(reading targets.Reading) string {
	if len(c.leaving) == 0 {
		return reading.Version
	}
	sum := fnv.New64a()
	_, _ = sum.Write([]byte(strings.Join(slices.Sorted(maps.Values(c.leaving)), " "))) // never fails
	return fmt.Sprintf("%s%s%016x", reading.Version, versionMark, sum.Sum64())
}

// existing returns the number of instances that are neither terminal nor terminating.
func existing(reading targets.Reading) int32 {
	count := int32(0)
	for i := range reading.Instances {
		if instance := &reading.Instances[i]; !instance.Deleting && instance.Phase != policy.PhaseSucceeded {
			count++
		}
	}
	return max(count, reading.StatusReplicas)
}

// The conditions that drains add to readings.
const (
	// ConditionDraining: instances are being drained or removed.
	ConditionDraining policy.ConditionType = "Draining"
	// ConditionDrainFailed: the removal of an instance failed and was undone.
	ConditionDrainFailed policy.ConditionType = "DrainFailed"
)

// failureShown is the time for which a failed operation is reported as a condition of its target.
const failureShown = time.Hour

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
		ways = append(ways, count(draining)+" being drained before removal")
	}
	if removing > 0 {
		ways = append(ways, count(removing)+" being removed")
	}
	if len(ways) > 0 {
		found = append(found, policy.Notice{Condition: ConditionDraining, Reason: "InstancesDraining", Message: strings.Join(ways, ", ") + problem})
	}
	for _, op := range slices.Backward(t.operations) { // only the latest operation is reported
		if op.State != Ended || now.Sub(op.Ended) > failureShown {
			continue
		}
		if op.Outcome == Failed {
			found = append(found, policy.Notice{
				Condition: ConditionDrainFailed, Reason: "InstanceTakenBack",
				Message: fmt.Sprintf("instance %s was returned to service: %s", op.Instance.ID, op.Why),
			})
		}
		break
	}
	return found
}

func count(instances int) string {
	if instances == 1 {
		return "1 instance is"
	}
	return fmt.Sprintf("%d instances are", instances)
}
