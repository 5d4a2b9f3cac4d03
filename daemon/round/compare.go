package round

import (
	"fmt"

	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/daemon/records"
	"github.com/hpad/hpad/daemon/state"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
)

// implausibleReason is the condition reason while the guard rejects a reading.
const implausibleReason = "ImplausibleReading"

// rejectImplausible rejects a reading in which a count has collapsed since the last accepted reading without a
// write by hpad. It adds a hold to the observation, so that the pass does not write. After
// def.Guard.Confirm consecutive rejections, it accepts the collapsed count.
func (p *pass) rejectImplausible(observation *policy.Observation, reading *targets.Reading) (rejected bool) {
	def, record := p.definition, &p.after.Record
	if def.strict || def.Guard.Confirm == 0 || observation.ReadError != "" {
		return false
	}
	seen, what := countsOf(reading), ""
	if before := record.LastCounts; before != nil {
		what = collapsed(before, def.Guard, records.LowestCount(record, before.Spec), seen)
	}
	if what == "" || record.ImplausibleReadings >= def.Guard.Confirm {
		record.ImplausibleReadings, record.LastCounts = 0, records.Keep(record.LastCounts, seen)
		return false
	}
	record.ImplausibleReadings++
	p.env.Metrics.ImplausibleReading(p.autoscaler.Name)
	observation.Hold = &policy.Hold{
		Reason: implausibleReason,
		Message: fmt.Sprintf("%s between two rounds without a write by hpad; not accepted yet (%d of %d consecutive readings)",
			what, record.ImplausibleReadings, def.Guard.Confirm+1),
	}
	return true
}

func countsOf(reading *targets.Reading) state.Counts {
	alive := int32(0)
	for i := range reading.Instances {
		if instance := &reading.Instances[i]; !instance.Deleting && instance.Phase != policy.PhaseFailed && instance.Phase != policy.PhaseSucceeded {
			alive++
		}
	}
	return state.Counts{Spec: reading.SpecReplicas, Status: reading.StatusReplicas, Instances: alive}
}

// collapsed describes the count that has collapsed since the last accepted reading. It returns an
// empty string if no count has collapsed. wanted is the lowest count that hpad might have written
// since then.
func collapsed(before *state.Counts, guard config.Guard, wanted int32, seen state.Counts) string {
	for _, count := range []struct {
		name    string
		was, is int32
	}{
		{"wanted replicas", wanted, seen.Spec},
		{"observed replicas", min(before.Status, wanted), seen.Status},
		{"instances", min(before.Instances, wanted), seen.Instances},
	} {
		if collapses(guard, count.was, count.is) {
			return fmt.Sprintf("the number of %s fell from %d to %d", count.name, count.was, count.is)
		}
	}
	return ""
}

// collapses reports whether a count fell by more than guard.Drop percent.
func collapses(guard config.Guard, was, is int32) bool {
	return int64(is)*100 < int64(was)*int64(100-guard.Drop)
}

// settleIntention determines the outcome of a write that got no response. An unchanged count means
// that the write was not made; any other count is taken as proof that it was made. A count between the
// previous and the intended one is what the write reached before it was cut off. If the count is
// beyond them, an external writer changed it after the write.
func (p *pass) settleIntention(observation *policy.Observation) []policy.Event {
	def, record := p.definition, &p.after.Record
	intention := record.Intention
	if intention == nil || observation.ReadError != "" {
		return nil
	}
	record.Intention = nil
	found, reached := observation.SpecReplicas, intention.To
	switch low, high := min(intention.From, intention.To), max(intention.From, intention.To); {
	case found == intention.From || observation.Finite && found < intention.From:
		reached = intention.From
	case low < found && found < high:
		reached = found
	}
	if intention.Reason != policy.Commanded { // the breaker does not count users' requests
		p.returnRemovals(intention.Time, int64(reached)-int64(intention.To))
	}
	if reached == intention.From {
		return nil
	}
	record.ExpectedReplicas = &reached
	if intention.Reason == policy.Commanded { // a count set by a user replaces the count to restore
		record.Restore = nil
	}
	settlement := policy.SettleLate(def.Settings, def.Spec, record.Memory, record.Status, *intention, reached, p.now())
	record.Memory, record.Status = settlement.Memory, settlement.Status
	return settlement.Events
}

// findStart clears NeverStarted at the first count above 0 and at any change by an external writer.
func (p *pass) findStart(observation *policy.Observation) {
	if observation.SpecReplicas > 0 || observation.Foreign != nil {
		p.after.Record.NeverStarted = false
	}
	observation.NeverStarted = p.after.Record.NeverStarted
}

// findForeign detects a change of the count by an external writer. The count of a finite target
// also falls without a writer. If on_foreign_change is
// "restore", it requests the previous count again, except 0: a change from 0 enables the
// autoscaler.
func (p *pass) findForeign(observation *policy.Observation) {
	def, record := p.definition, &p.after.Record
	if record.ExpectedReplicas == nil || observation.ReadError != "" || *record.ExpectedReplicas == observation.SpecReplicas {
		return
	}
	if observation.Finite && observation.SpecReplicas < *record.ExpectedReplicas {
		return
	}
	observation.Foreign = &policy.ForeignChange{From: *record.ExpectedReplicas}
	p.env.Metrics.ForeignChange(p.autoscaler.Name)
	if def.OnForeignChange == config.RestoreForeignChange && !record.Status.Disabled() {
		record.Restore = policy.RestoreForeign(record.Restore, &def.Spec, *record.ExpectedReplicas, observation.SpecReplicas, p.now())
	}
}
