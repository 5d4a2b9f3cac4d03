package round

import (
	"cmp"
	"time"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/problem"
	"github.com/hpad/hpad/daemon/reason"
	"github.com/hpad/hpad/daemon/state"
	"github.com/hpad/hpad/daemon/ticks"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets/drain"
)

// Result is the result of the last pass of an autoscaler, for readers and for the
// next pass. It is immutable.
type Result struct {
	// Record is the record after the pass. Its Through is the instant of the pass, zero
	// before the first.
	Record state.Record
	// Decision is empty before the first pass: its Time is zero.
	Decision policy.Decision
	// Outcome is the result of the decision's write.
	Outcome   policy.Outcome
	Instances api.Instances
	// Victims are the instances that the decision removes, if hpad chooses them;
	// VictimsError is the reason why they are unknown.
	Victims      []drain.Victim
	VictimsError string
	// Ages has for each metric the age of its oldest sample if that exceeds the sync
	// period, and otherwise 0; nil if no age does.
	Ages []time.Duration
	// Since is the start of the current problem of the autoscaler, zero if there is no problem;
	// Unreported are changes of it that the history does not contain.
	Since      time.Time
	Unreported problem.Flapping
	Events     []api.Event
	// Evaluated is the start of the pass, on Go's monotonic clock; zero if there was no
	// pass in this run.
	Evaluated time.Time
	Duration  time.Duration
	// Err is the error of the pass, or of the commit of its record.
	Err string
	// Unevaluated is the reason why the autoscaler could not be evaluated, for example a
	// panic; empty if it was evaluated.
	Unevaluated string
	Quarantine  time.Time
	// Shortage is the shortage of the last pass, or nil.
	Shortage *policy.Shortage
	// Reason is the reason code of the last pass, or of the missed pass at the last tick.
	Reason reason.Code
}

// passResult is a Result with data that only its pass needs.
type passResult struct {
	Result
	// failed is the error of the pass itself. outage reports that it is shown as an
	// error of its fleet or its sources.
	failed string
	outage bool
	// version is the version of the target that was read. suspect reports that the guard
	// rejected the reading.
	version string
	suspect bool
	// cause is the error of reading or writing the target; nil if there is none.
	cause error
	// newlyHeld reports whether a pause or the mode holds a change of the count, and
	// held no change of that direction in the pass before.
	newlyHeld bool
	// extraEvents are published in addition to the events of the decision.
	extraEvents []policy.Event
}

// following detects changes of the problems of an autoscaler. The history contains changes of
// hindrance and of reasons, the reasons of its conditions; the log contains the others.
type following struct{ hindrance, failing, reasons, instances, shortage problem.Deduper }

// isNewlyHeld reports whether a pause or the mode holds a change, unless it held one of the same
// direction in the pass before.
func isNewlyHeld(before *Result, decision *policy.Decision) bool {
	if decision.HeldBy == "" || decision.DesiredReplicas == decision.CurrentReplicas {
		return false
	}
	earlier := &before.Decision
	return earlier.HeldBy == "" ||
		cmp.Compare(earlier.DesiredReplicas, earlier.CurrentReplicas) != cmp.Compare(decision.DesiredReplicas, decision.CurrentReplicas)
}

// Decided reports whether there was a pass in this run.
func (p *Result) Decided() bool { return !p.Evaluated.IsZero() }

// Quarantined reports whether the autoscaler is quarantined at now.
func (p *Result) Quarantined(now time.Time) bool { return now.Before(p.Quarantine) }

// Next returns the time of the next evaluation.
func (p *Result) Next(now time.Time, period time.Duration) time.Time {
	if p.Quarantined(now) {
		return ticks.Next(p.Quarantine.Add(-1), period)
	}
	return ticks.Next(now, period)
}
