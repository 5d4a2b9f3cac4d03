package drain

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strings"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
)

// tally is what the operations of a target make of a reading of it.
type tally struct {
	// leaving are the operations whose instances are there and on their way out, in
	// the order of operations, by instance.
	leaving map[string]*Operation
	// surplus are those that would make the count smaller than it is wanted, the
	// newest first: to be taken back.
	surplus []*Operation
	// spec is the wanted count without those that are leaving.
	spec int32
}

// tally answers what the operations make of a reading. An instance is subtracted
// for as long as the platform shows it, so that it does not matter how old the
// reading is; and no more than leaves the count that was decided and the least one
// of the platform, so that it does not matter who else lowered the count.
func (t *target) tally(reading targets.Reading) tally {
	present := map[string]bool{}
	for i := range reading.Instances {
		if instance := &reading.Instances[i]; !instance.Deleting {
			present[instance.ID] = true
		}
	}
	c := tally{leaving: map[string]*Operation{}}
	for _, op := range t.operations {
		stale := op.Outcome == Terminated && t.clock.Of(reading.Observed).Before(op.Ended)
		if present[op.Instance.ID] && (op.leaving() || stale) {
			c.leaving[op.Instance.ID] = op
		}
	}
	floor := t.wanted
	if reading.Min != nil {
		floor = max(floor, *reading.Min)
	}
	room := max(0, int(reading.SpecReplicas)-int(floor))
	for _, op := range slices.Backward(t.operations) {
		if len(c.leaving) > room && op.returnable() && c.leaving[op.Instance.ID] == op {
			delete(c.leaving, op.Instance.ID)
			c.surplus = append(c.surplus, op)
		}
	}
	c.spec = reading.SpecReplicas - int32(min(len(c.leaving), room))
	return c
}

// apply answers the reading with the counts and instances as they are decided.
func (c tally) apply(reading targets.Reading) targets.Reading {
	reading.Version = c.version(reading)
	reading.SpecReplicas = c.spec
	if len(c.leaving) == 0 {
		return reading
	}
	reading.Instances = slices.Clone(reading.Instances)
	for i := range reading.Instances {
		instance := &reading.Instances[i]
		if c.leaving[instance.ID] == nil || instance.Deleting {
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

// version answers the reading's own version, and with it which instances are
// leaving: whoever writes by a version has seen both.
func (c tally) version(reading targets.Reading) string {
	if len(c.leaving) == 0 {
		return reading.Version
	}
	var ids []string
	for _, op := range c.leaving {
		ids = append(ids, op.ID)
	}
	slices.Sort(ids)
	sum := fnv.New64a()
	_, _ = sum.Write([]byte(strings.Join(ids, " "))) // never fails
	return fmt.Sprintf("%s%s%016x", reading.Version, versionMark, sum.Sum64())
}

// byAge puts the older operation first. Those of one decision are as old as each
// other, and stay in their order.
func byAge(a, b *Operation) int { return a.Begun.Compare(b.Begun) }

// existing answers how many instances of the target there are, of those that its
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

// describe answers what a Drainer is told of the i-th instance of a reading.
func describe(ref targets.Ref, reading targets.Reading, i int) Instance {
	instance := Instance{Target: ref, ID: reading.Instances[i].ID}
	if reading.Locations != nil {
		at := reading.Locations[i]
		instance.Name, instance.Node, instance.Addresses, instance.Labels = at.Name, at.Node, at.Addresses, at.Labels
	}
	return instance
}
