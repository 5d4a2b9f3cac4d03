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

// guard rejects a reading in which a count has collapsed since the last accepted reading without a
// write by hpad. It adds a hold to the observation, so that the pass does not write. After
// def.Guard.Confirm consecutive rejections, it accepts the collapsed count.
func (p *pass) guard(observation *policy.Observation, reading *targets.Reading) (rejected bool) {
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
