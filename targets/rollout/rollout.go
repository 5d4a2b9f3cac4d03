// Package rollout decides how a fleet replaces the instances of a changed definition, as a
// Deployment does. It is a pure state machine without a clock or side effects.
package rollout

import (
	"fmt"
	"time"

	"github.com/hpad/hpad/policy"
)

// ReplacementFailing means that the instances of a changed definition cannot be replaced.
const ReplacementFailing policy.ConditionType = "ReplacementFailing"

// ProgressDeadlineExceeded is a reason for ReplacementFailing; ReplacementInProgress is the reason
// of the hold during a replacement.
const (
	ProgressDeadlineExceeded = "ProgressDeadlineExceeded"
	ReplacementInProgress    = "ReplacementInProgress"
)

// SettleTime is the time after which a running instance without a probe is considered ready in a
// replacement. Programs with an invalid configuration usually exit earlier.
const SettleTime = 5 * time.Second

// Counts contains the numbers of instances during a replacement.
type Counts struct {
	// Old and Fresh are the numbers of instances with an old and with the current definition.
	// OldReady and FreshReady are the numbers of ready instances among them.
	Old, OldReady, Fresh, FreshReady int
}

// Next returns the number of fresh instances to start, and of old instances to stop. The caller
// must stop unready instances first. As in a Deployment, there are at most want+surge instances,
// and at least want-unavailable ready instances.
func (c Counts) Next(want, surge, unavailable int) (start, stop int) {
	if c.Old == 0 {
		return max(0, want-c.Fresh), 0
	}
	start = max(0, min(want-c.Fresh, want+surge-c.Old-c.Fresh))
	needed := want - unavailable
	unready := max(0, min(c.Old-c.OldReady, c.Old+c.FreshReady-needed))
	ready := max(0, min(c.OldReady, c.OldReady+c.FreshReady-needed))
	return start, unready + ready
}

// State describes the counts. The object, such as "service \"web\"", is part of the text.
func (c Counts) State(object string) string {
	return fmt.Sprintf("%d of %d instances of %s use the new definition; %d of them are ready", c.Fresh, c.Fresh+c.Old, object, c.FreshReady)
}

// Progress is the progress of a replacement. The zero Progress means that no replacement is active.
type Progress struct {
	last Counts
	at   time.Time
}

// Observe records the counts at the time now.
func (p *Progress) Observe(c Counts, now time.Time) {
	if c.Old != p.last.Old || c.FreshReady > p.last.FreshReady {
		p.at = now
	}
	p.last = c
}

// Active reports whether old instances existed when the counts were last observed.
func (p *Progress) Active() bool { return p.last.Old > 0 }

// Status returns the hold during a replacement, or a notice if no instance became ready within
// deadline. Both are nil without a replacement. The object is part of their messages, as in
// [Counts.State].
func (p *Progress) Status(object string, deadline time.Duration, now time.Time) (*policy.Hold, *policy.Notice) {
	c := p.last
	if c.Old == 0 {
		return nil, nil
	}
	state := c.State(object)
	if now.Sub(p.at) < deadline {
		return &policy.Hold{Reason: ReplacementInProgress, Message: state}, nil
	}
	return nil, &policy.Notice{
		Condition: ReplacementFailing, Reason: ProgressDeadlineExceeded,
		Message: fmt.Sprintf("%s; no further instance became ready within %v (progress_deadline), and the old instances stay", state, deadline),
	}
}
