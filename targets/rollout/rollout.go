// Package rollout decides how a fleet replaces the instances of a changed definition, as a
// Deployment does. It is a pure state machine without a clock or side effects.
package rollout

import (
	"fmt"
	"math"
	"time"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
)

// The conditions of a replacement. Replacing means that it makes progress, and ReplacementFailing
// that it cannot continue.
const (
	Replacing          policy.ConditionType = "Replacing"
	ReplacementFailing policy.ConditionType = "ReplacementFailing"
)

// The reasons for Replacing and ReplacementFailing.
const (
	ReplacementInProgress    = "ReplacementInProgress"
	ProgressDeadlineExceeded = "ProgressDeadlineExceeded"
)

// SettleTime is the time after which a running instance without a probe is considered ready in a
// replacement. Programs with an invalid configuration usually exit earlier.
const SettleTime = 5 * time.Second

// Counts contains the numbers of instances during a replacement.
type Counts struct {
	// Want is the count of the target.
	Want int
	// Old and Fresh are the numbers of instances with an old and with the current definition.
	// OldReady and FreshReady are the numbers of ready instances among them.
	Old, OldReady, Fresh, FreshReady int
}

// Strategy limits a replacement. As in a Deployment, there are at most Want+Surge instances, and at
// least Want-Unavailable ready instances.
type Strategy struct {
	Surge, Unavailable int
	// OldStarts reports whether the fleet can start instances with an old definition that works.
	OldStarts bool
	// Failed reports whether the progress deadline was exceeded.
	Failed bool
}

// Step contains the numbers of instances to stop, and those to start afterwards.
type Step struct {
	StopOld, StopFresh, StartOld, StartFresh int
}

// Next returns the next step. The caller must stop unready instances first. A scale-up adds
// instances of both definitions in proportion. After the progress deadline, instances with the
// old definition take the place of unready instances beyond the surge.
func (c Counts) Next(s Strategy) Step {
	var n Step
	needed := c.Want - s.Unavailable
	n.StopOld = max(0, min(c.Old-c.OldReady, c.Old+c.FreshReady-needed)) + max(0, min(c.OldReady, c.OldReady+c.FreshReady-needed))
	n.StopFresh = max(0, c.Fresh-c.Want)
	old, most := c.Old-n.StopOld, c.Want
	if old > 0 {
		most += s.Surge
		unready := c.Fresh - c.FreshReady
		n.StopFresh = max(n.StopFresh, min(unready, old+c.Fresh-most))
		if s.Failed && s.OldStarts {
			n.StopFresh = max(n.StopFresh, unready-s.Surge-s.Unavailable)
		}
	}
	fresh := c.Fresh - n.StopFresh
	room := max(0, most-old-fresh)
	if s.OldStarts && old > 0 && (s.Failed || old+fresh < needed) {
		share := room
		if !s.Failed {
			share = int(math.Round(float64(room) * float64(old) / float64(old+fresh)))
		}
		n.StartOld = max(0, min(share, needed-c.FreshReady-old))
	}
	n.StartFresh = max(0, min(c.Want-fresh, room-n.StartOld))
	return n
}

// State describes the counts. The object, such as "service \"web\"", is part of the text.
func (c Counts) State(object string) string {
	text := fmt.Sprintf("%d of %d instances of %s use the new definition; %d of them are ready", c.Fresh, c.Fresh+c.Old, object, c.FreshReady)
	if ready := c.OldReady + c.FreshReady; ready < c.Want {
		text += fmt.Sprintf("; only %d of %d wanted instances are ready", ready, c.Want)
	}
	return text
}

// Progress measures how long a replacement has made no progress. The zero Progress means that no
// replacement is active.
type Progress struct {
	last Counts
	// best is the highest number of ready fresh instances, and at the time when it last rose.
	best int
	at   time.Time
}

// Observe records the counts at the time now. A scale-up or scale-down is not progress.
func (p *Progress) Observe(c Counts, now time.Time) {
	if p.last.Old == 0 || c.FreshReady > p.best {
		p.at = now
	}
	p.best, p.last = min(max(p.best, c.FreshReady), c.Fresh), c
}

// Old returns the number of old instances when the counts were last observed.
func (p *Progress) Old() int { return p.last.Old }

// WithReasons adds the reasons why new instances are not ready to a notice about a failed
// replacement, and returns the notice, which may be nil.
func WithReasons(notice *policy.Notice, reasons []string) *policy.Notice {
	if notice != nil && notice.Condition == ReplacementFailing && len(reasons) > 0 {
		notice.Message += "; " + targets.FirstThree(reasons, "; ")
	}
	return notice
}

// Failed reports whether a replacement is active in which no instance became ready within deadline.
func (p *Progress) Failed(deadline time.Duration, now time.Time) bool {
	return p.last.Old > 0 && now.Sub(p.at) >= deadline
}

// Notice describes a replacement and whether it has failed. It is nil without a replacement. The
// object is part of the message, as in [Counts.State].
func (p *Progress) Notice(object string, deadline time.Duration, now time.Time) *policy.Notice {
	state := p.last.State(object)
	switch {
	case p.last.Old == 0:
		return nil
	case !p.Failed(deadline, now):
		return &policy.Notice{Condition: Replacing, Reason: ReplacementInProgress, Message: state}
	}
	return &policy.Notice{
		Condition: ReplacementFailing, Reason: ProgressDeadlineExceeded,
		Message: fmt.Sprintf("%s; no further instance became ready within %v (progress_deadline), and the old instances stay", state, deadline),
	}
}
