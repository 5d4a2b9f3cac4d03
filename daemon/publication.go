package daemon

import (
	"time"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/state"
	"github.com/hpad/hpad/daemon/trouble"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets/drain"
)

// publication is what readers see of an autoscaler after a pass. It is never
// changed.
type publication struct {
	// record is what the pass left, and the store has or makes of the one before by
	// itself; Through is the instant of the pass, zero before the first.
	record state.Record
	// decision is empty before the first pass: its Time is zero.
	decision policy.Decision
	// outcome is what became of its write.
	outcome   policy.Outcome
	instances api.Instances
	events    []api.Event
	// victims are those that the decision takes, as far as hpad chooses; unchosen is
	// why they could not be told.
	victims  []drain.Victim
	unchosen string
	// evaluated is when the pass began, on Go's monotonic clock; zero when there was
	// none in this run.
	evaluated time.Time
	duration  time.Duration
	// failed is what the pass itself failed with, and err that or why it could not
	// be written. Blind says that this is told of its fleet or sources.
	failed string
	err    string
	blind  bool
	// since is when what hinders the autoscaler began, zero when nothing does, and
	// untold are changes of it that the history does not have.
	since  time.Time
	untold trouble.Flapping
	// unevaluated says why the autoscaler could not be evaluated, as a panic;
	// empty when it was.
	unevaluated string
	quarantine  time.Time
}

// decided reports whether there was a pass in this run.
func (p *publication) decided() bool { return !p.decision.Time.IsZero() }

// quarantined reports whether the autoscaler is left alone at now.
func (p *publication) quarantined(now time.Time) bool { return now.Before(p.quarantine) }
