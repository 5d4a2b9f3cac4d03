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

func countsOf(reading *targets.Reading) state.Counts {
	living := int32(0)
	for i := range reading.Instances {
		if instance := &reading.Instances[i]; !instance.Deleting && instance.Phase != policy.PhaseFailed && instance.Phase != policy.PhaseSucceeded {
			living++
		}
	}
	return state.Counts{Spec: reading.SpecReplicas, Status: reading.StatusReplicas, Instances: living}
}

// collapsed says which count has collapsed since the reading that was believed last;
// empty when none has. Wanted is the lowest count that hpad may have written since.
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

// doubtful is the hold of a target while its reading is not believed: after so many
// of its kind in a row.
func doubtful(guard config.Guard, what string, doubts int32) *policy.Hold {
	return &policy.Hold{
		Reason: implausibleReason,
		Message: fmt.Sprintf("%s between two rounds without hpad having written it; not believed yet, %d of %d readings in a row",
			what, doubts, guard.Confirm+1),
	}
}

// collapses reports whether a count fell by more than the guard's share.
func collapses(guard config.Guard, was, is int32) bool {
	return int64(is)*100 < int64(was)*int64(100-guard.Drop)
}
