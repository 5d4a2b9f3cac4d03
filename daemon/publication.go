package daemon

import (
	"cmp"
	"time"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/pack"
	"github.com/hpad/hpad/daemon/reason"
	"github.com/hpad/hpad/daemon/state"
	"github.com/hpad/hpad/daemon/trouble"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets/drain"
)

// publication is what is kept of an autoscaler after a pass, for readers and the next
// pass. It is never changed. There is one of each autoscaler all the time: what nobody
// looks at in most rounds is packed.
type publication struct {
	// record is what the pass left, and the store has or makes of the one before by
	// itself, but for what is packed: see whole. Its Through is the instant of the pass,
	// zero before the first.
	record state.Record
	// memory is the lists of the record's, packed, but for Missing, and found a finding.
	memory, found []byte
	events        []api.Event
	// evaluated is when the pass began, on Go's monotonic clock; zero when there was
	// none in this run.
	evaluated time.Time
	duration  time.Duration
	// err is what the pass failed with, or why it could not be written.
	err string
	// unevaluated says why the autoscaler could not be evaluated, as a panic;
	// empty when it was.
	unevaluated string
	quarantine  time.Time
	// shortage is the shortage of the last pass, or nil.
	shortage *policy.Shortage
	// recalled reports whether the events have those of before the start.
	recalled bool
	// reason is what the last pass ended with, or why there was none at the last tick.
	reason reason.Code
}

// finding is what a pass found besides what it leaves.
type finding struct {
	// Decision is empty before the first pass: its Time is zero.
	Decision policy.Decision
	// Metrics are those of the status, unless Current says that they are those of the
	// decision.
	Metrics []policy.MetricStatus
	Current bool
	// Outcome is what became of the decision's write.
	Outcome   policy.Outcome
	Instances api.Instances
	// Victims are those that the decision takes, as far as hpad chooses; Unchosen is
	// why they are not known.
	Victims  []drain.Victim
	Unchosen string
	// Ages are those of the oldest samples of each metric that exceed the sync period, others
	// are 0; nil if there are none.
	Ages []time.Duration
	// Since is when what hinders the autoscaler began, zero when nothing does, and
	// Untold are changes of it that the history does not have.
	Since  time.Time
	Untold trouble.Flapping
}

// findings is how they are kept between passes.
var findings = pack.InMemory[finding]()

// result is what a pass comes to, as long as it is under way.
type result struct {
	publication
	finding
	// failed is what the pass itself failed with. Blind says that this is shown as a
	// failure of its fleet or sources.
	failed string
	blind  bool
	// version is what the target was read at, doubted says that the reading is not
	// believed.
	version string
	doubted bool
	// cause is why the target could not be read or written; nil when it was.
	cause error
	// newlyHeld reports whether a pause or the mode holds a change of the count, and
	// held none of that direction in the pass before.
	newlyHeld bool
	// besides are events that came up beside the decision's own.
	besides []policy.Event
}

// following follows what is wrong with an autoscaler: hindrance for the history, failing
// is why passes fail, for the log. Reasons are those of the conditions since they first
// changed, for the history. Shortage is whether the maximum limits the count.
type following struct{ hindrance, failing, reasons, instances, shortage trouble.Follower }

// keep returns the result as it is kept. It packs in scratch.
func (r *result) keep(scratch *[]byte) *publication {
	kept := r.publication
	r.Metrics = r.record.Status.Metrics
	if r.Current = sameMetrics(&r.Decision, r.Metrics); r.Current {
		r.Metrics = nil
	}
	*scratch = state.PackMemory((*scratch)[:0], r.record.Memory)
	size := len(*scratch)
	*scratch = findings.Append(*scratch, &r.finding)
	packed := append(make([]byte, 0, len(*scratch)), *scratch...)
	kept.memory, kept.found = packed[:size:size], packed[size:]
	kept.record.Memory, kept.record.Status.Metrics = policy.Memory{Missing: r.record.Memory.Missing}, nil
	return &kept
}

// isNewlyHeld reports whether a pause or the mode holds a change in whose direction the
// pass before had none held.
func isNewlyHeld(before *publication, decision *policy.Decision) bool {
	if decision.HeldBy == "" || decision.DesiredReplicas == decision.CurrentReplicas {
		return false
	}
	earlier := &before.look().Decision
	return earlier.HeldBy == "" ||
		cmp.Compare(earlier.DesiredReplicas, earlier.CurrentReplicas) != cmp.Compare(decision.DesiredReplicas, decision.CurrentReplicas)
}

// sameMetrics reports whether the metrics of a status are those of the decision.
func sameMetrics(decision *policy.Decision, metrics []policy.MetricStatus) bool {
	if len(decision.Metrics) != len(metrics) {
		return false
	}
	for i := range metrics {
		if decision.Metrics[i].Current != metrics[i] {
			return false
		}
	}
	return true
}

// publicationOf returns what is kept of an autoscaler that the store knows.
func publicationOf(record *state.Record) *publication {
	var scratch []byte
	r := &result{publication: publication{record: *record}}
	return r.keep(&scratch)
}

// look returns what the pass found.
func (p *publication) look() *finding {
	var found finding
	if len(p.found) > 0 {
		found, _ = findings.Read(p.found) // which keep has packed
	}
	if found.Current && len(found.Decision.Metrics) > 0 {
		found.Metrics = make([]policy.MetricStatus, len(found.Decision.Metrics))
		for i := range found.Metrics {
			found.Metrics[i] = found.Decision.Metrics[i].Current
		}
	}
	return &found
}

// status returns the status with its metrics, of what the pass found.
func (p *publication) status(found *finding) policy.Status {
	status := p.record.Status
	status.Metrics = found.Metrics
	return status
}

// whole returns the record with what is packed of it.
func (p *publication) whole() *state.Record {
	record := p.record
	state.UnpackMemory(p.memory, &record.Memory)
	record.Status = p.status(p.look())
	return &record
}

// decided reports whether there was a pass in this run.
func (p *publication) decided() bool { return !p.evaluated.IsZero() }

// quarantined reports whether the autoscaler is left alone at now.
func (p *publication) quarantined(now time.Time) bool { return now.Before(p.quarantine) }

// next returns when the autoscaler is evaluated next.
func (p *publication) next(now time.Time, period time.Duration) time.Time {
	if p.quarantined(now) {
		return nextTick(p.quarantine.Add(-1), period)
	}
	return nextTick(now, period)
}
