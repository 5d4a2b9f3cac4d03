package round

import (
	"time"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/problem"
	"github.com/hpad/hpad/daemon/reason"
	"github.com/hpad/hpad/daemon/state"
	"github.com/hpad/hpad/daemon/ticks"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets/drain"
)

// Result describes the last pass of an autoscaler, for readers and for the next pass. It is
// immutable.
type Result struct {
	// Record is stored after the pass. Its Through is the instant of the pass, or zero before the
	// first pass.
	Record state.Record
	// Decision is empty, with a zero Time, before the first pass in this run.
	Decision policy.Decision
	// Outcome is the result of the decision's write.
	Outcome   policy.Outcome
	Instances api.Instances
	// Victims lists the instances that the decision removes, if hpad chooses them. VictimsError is
	// the reason if they are unknown.
	Victims      []drain.Victim
	VictimsError string
	// Ages contains the age of each metric's oldest sample, or 0 if the age does not exceed the
	// sync period. It is nil if no age exceeds the sync period.
	Ages []time.Duration
	// Since is the start of the autoscaler's current problem, or zero without a problem. Unreported
	// counts changes to the problem that the history does not contain.
	Since      time.Time
	Unreported problem.Flapping
	Events     []api.Event
	// Evaluated is the start time of the pass on Go's monotonic clock. It is zero before the first
	// pass in this run.
	Evaluated time.Time
	Duration  time.Duration
	// Err is the error of the pass, or of the commit of its record.
	Err string
	// Unevaluated is the reason if the autoscaler could not be evaluated, for example a panic;
	// empty if it was evaluated.
	Unevaluated string
	Quarantine  time.Time
	// Shortage describes missing capacity in the last pass, or is nil.
	Shortage *policy.Shortage
	// Reason explains the last pass, or the missed pass at the last tick.
	Reason reason.Code
}

// passResult is a Result with additional data that only its pass needs. The Result is allocated
// separately, because it outlives the pass.
type passResult struct {
	*Result
	// failed is the error of the pass itself. outage reports whether it is reported as an error of
	// the fleet or the sources instead.
	failed string
	outage bool
	// version is the target's version in the reading. suspect reports whether the guard rejected
	// the reading.
	version string
	suspect bool
	// cause is the error of reading or writing the target, or nil.
	cause error
	// newlyHeld reports whether a pause or the mode prevents a change to the count, but did not
	// prevent a change in the same direction in the previous pass.
	newlyHeld bool
	// extraEvents are published in addition to the events of the decision.
	extraEvents []policy.Event
}

// Decided reports whether a pass has ended in this run.
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
