package daemon

import (
	"fmt"

	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/daemon/state"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
)

// implausibleReason is the condition reason while a reading is not believed.
const implausibleReason = "ImplausibleReading"

// doubt holds the target while its reading is one that the guard does not
// believe: some count collapsed since the reading before, and hpad did not write
// it. The caller then learns nothing from the reading. What is believed in the
// end, because enough readings agreed, is an ordinary reading.
func (p *pass) doubt(observation *policy.Observation, reading *targets.Reading) bool {
	a, def := p.plan.autoscaler, p.plan.definition
	if def.strict || def.Guard.Confirm == 0 || observation.ReadError != "" {
		return false
	}
	seen := countsOf(reading)
	what := a.collapsed(def, seen)
	if what == "" || a.doubts >= def.Guard.Confirm {
		a.doubts = 0
		a.seen = &counts{target: def.Target, Counts: seen}
		return false
	}
	a.doubts++
	p.round.daemon.metrics.Doubted(a.name)
	observation.Hold = &policy.Hold{
		Reason: implausibleReason,
		Message: fmt.Sprintf("%s between two rounds without hpad having written it; not believed yet, %d of %d readings in a row",
			what, a.doubts, def.Guard.Confirm+1),
	}
	return true
}

// counts are those of the last reading that was believed. They are never changed.
type counts struct {
	target targets.Ref
	state.Counts
}

func countsOf(reading *targets.Reading) state.Counts {
	living := int32(0)
	for i := range reading.Instances {
		if instance := &reading.Instances[i]; !instance.Deleting && instance.Phase != policy.PhaseFailed && instance.Phase != policy.PhaseSucceeded {
			living++
		}
	}
	return state.Counts{Spec: reading.SpecReplicas, Status: reading.StatusReplicas, Instances: living}
}

// collapsed says which count has collapsed since the reading that was believed
// last; empty when none has. What hpad itself wrote since is expected.
func (a *autoscaler) collapsed(def *definition, seen state.Counts) string {
	before := a.seen
	if before == nil || before.target != def.Target {
		return ""
	}
	wanted := a.wanted(def, before.Spec)
	for _, count := range []struct {
		name    string
		was, is int32
	}{
		{"wanted replicas", wanted, seen.Spec},
		{"observed replicas", min(before.Status, wanted), seen.Status},
		{"instances", min(before.Instances, wanted), seen.Instances},
	} {
		if collapses(def.Guard, count.was, count.is) {
			return fmt.Sprintf("the number of %s fell from %d to %d", count.name, count.was, count.is)
		}
	}
	return ""
}

// wanted is the lowest count that hpad may have left the target with.
func (a *autoscaler) wanted(def *definition, before int32) int32 {
	switch {
	case a.intention != nil && a.intended == def.Target:
		return min(a.intention.From, a.intention.To)
	case a.left != nil && a.left.target == def.Target:
		return a.left.replicas
	}
	return before
}

// collapses says whether a count fell by more than the guard's share.
func collapses(guard config.Guard, was, is int32) bool {
	return int64(is)*100 < int64(was)*int64(100-guard.Drop)
}

// same says whether two readings were of the same target and had the same counts.
func (c *counts) same(other *counts) bool {
	if c == nil || other == nil {
		return c == other
	}
	return *c == *other
}

// of answers the counts of a target, nil when they are not known.
func (c *counts) of(target targets.Ref) *state.Counts {
	if c == nil || c.target != target {
		return nil
	}
	return &c.Counts
}
