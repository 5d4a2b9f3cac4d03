package daemon

import (
	"cmp"
	"time"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/reason"
	"github.com/hpad/hpad/daemon/state"
	"github.com/hpad/hpad/daemon/ticks"
	"github.com/hpad/hpad/daemon/trouble"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets/drain"
)

// publication is the result of the last pass of an autoscaler, for readers and for the
// next pass. It is immutable.
type publication struct {
	// record is the record after the pass. Its Through is the instant of the pass, zero
	// before the first.
	record state.Record
	// Decision is empty before the first pass: its Time is zero.
	Decision policy.Decision
	// Outcome is the result of the decision's write.
	Outcome   policy.Outcome
	Instances api.Instances
	// Victims are the instances that the decision removes, if hpad chooses them; Unchosen
	// is the reason why they are unknown.
	Victims  []drain.Victim
	Unchosen string
	// Ages has for each metric the age of its oldest sample if that exceeds the sync
	// period, and otherwise 0; nil if no age does.
	Ages []time.Duration
	// Since is the start of the current problem of the autoscaler, zero without a problem;
	// Untold are changes of it that the history does not contain.
	Since  time.Time
	Untold trouble.Flapping
	events []api.Event
	// evaluated is the start of the pass, on Go's monotonic clock; zero if there was no
	// pass in this run.
	evaluated time.Time
	duration  time.Duration
	// err is the error of the pass, or of the commit of its record.
	err string
	// unevaluated is the reason why the autoscaler could not be evaluated, for example a
	// panic; empty if it was evaluated.
	unevaluated string
	quarantine  time.Time
	// shortage is the shortage of the last pass, or nil.
	shortage *policy.Shortage
	// reason is the reason code of the last pass, or of the missed pass at the last tick.
	reason reason.Code
}

// result is a publication that a pass fills in, with data that only this pass needs.
type result struct {
	publication
	// failed is the error of the pass itself. blind reports that readers see it as an
	// error of its fleet or its sources.
	failed string
	blind  bool
	// version is the version at which the target was read. suspect reports that the guard
	// rejected the reading.
	version string
	suspect bool
	// cause is the error of reading or writing the target; nil without one.
	cause error
	// newlyHeld reports whether a pause or the mode holds a change of the count, and
	// held no change of that direction in the pass before.
	newlyHeld bool
	// extraEvents are events in addition to those of the decision.
	extraEvents []policy.Event
}

// following detects changes of the problems of an autoscaler: hindrance and reasons, which are
// those of its conditions, for the history, the others for the log.
type following struct{ hindrance, failing, reasons, instances, shortage trouble.Follower }

// isNewlyHeld reports whether a pause or the mode holds a change, unless it held one of the same
// direction in the pass before.
func isNewlyHeld(before *publication, decision *policy.Decision) bool {
	if decision.HeldBy == "" || decision.DesiredReplicas == decision.CurrentReplicas {
		return false
	}
	earlier := &before.Decision
	return earlier.HeldBy == "" ||
		cmp.Compare(earlier.DesiredReplicas, earlier.CurrentReplicas) != cmp.Compare(decision.DesiredReplicas, decision.CurrentReplicas)
}

// decided reports whether there was a pass in this run.
func (p *publication) decided() bool { return !p.evaluated.IsZero() }

func (p *publication) quarantined(now time.Time) bool { return now.Before(p.quarantine) }

// next returns the time of the next evaluation.
func (p *publication) next(now time.Time, period time.Duration) time.Time {
	if p.quarantined(now) {
		return ticks.Next(p.quarantine.Add(-1), period)
	}
	return ticks.Next(now, period)
}
