package process

import (
	"fmt"
	"slices"
	"time"

	"github.com/hpad/hpad/policy"
)

// ReplacementFailing means that the instances of a changed service cannot be replaced.
const ReplacementFailing policy.ConditionType = "ReplacementFailing"

// The reasons for ReplacementFailing, and the reason of the hold during a replacement.
const (
	ProgressDeadlineExceeded = "ProgressDeadlineExceeded"
	NoFreePort               = "NoFreePort"
	ReplacementInProgress    = "ReplacementInProgress"
)

// rollout counts the instances of a service during the replacement of its old instances.
type rollout struct {
	// old and fresh are the numbers of instances with an old and with the current definition.
	// oldReady and freshReady are the numbers of ready instances among them.
	old, oldReady, fresh, freshReady int
}

// next returns the number of fresh instances to start, and of old instances to stop, where unready
// instances come first. As in a Deployment, there are at most want+surge instances, and at least
// want-unavailable ready instances.
func (r rollout) next(want, surge, unavailable int) (start, stop int) {
	if r.old == 0 {
		return max(0, want-r.fresh), 0
	}
	start = max(0, min(want-r.fresh, want+surge-r.old-r.fresh))
	needed := want - unavailable
	unready := max(0, min(r.old-r.oldReady, r.old+r.freshReady-needed))
	ready := max(0, min(r.oldReady, r.oldReady+r.freshReady-needed))
	return start, unready + ready
}

// settleTime is the time after which a running instance without a probe is considered ready in a
// replacement. Programs with an invalid configuration usually exit earlier.
const settleTime = 5 * time.Second

// settled reports whether the instance is considered ready in a replacement. If the clock was set
// back, the start time of an adopted process can be in the future.
func (i *instance) settled() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	age := time.Since(i.changed)
	return i.ready && (i.config.Readiness.probes() || age >= settleTime || age < 0)
}

// hasNoPort reports whether the instance waits for a port.
func (i *instance) hasNoPort() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.port == 0
}

// rolloutLocked counts the instances and stores the time of the last progress. The caller must
// hold mu.
func (s *service) rolloutLocked() (r rollout, old, fresh []*instance) {
	for _, i := range s.current {
		ready := 0
		if i.settled() {
			ready = 1
		}
		if i.definition == s.definition {
			fresh = append(fresh, i)
			r.freshReady += ready
		} else {
			old = append(old, i)
			r.oldReady += ready
		}
	}
	r.old, r.fresh = len(old), len(fresh)
	if r.old != s.last.old || r.freshReady > s.last.freshReady {
		s.progressed = time.Now()
	}
	s.last = r
	return r, old, fresh
}

// replacement returns the hold of a service during a replacement, or a notice if the replacement
// makes no progress. The caller must hold mu.
func (s *service) replacement(now time.Time) (*policy.Hold, *policy.Notice) {
	r, _, fresh := s.rolloutLocked()
	if r.old == 0 {
		return nil, nil
	}
	state := fmt.Sprintf("%d of %d instances of service %q have the changed definition, %d of them are ready", r.fresh, r.fresh+r.old, s.name, r.freshReady)
	stuck := policy.Notice{Condition: ReplacementFailing}
	switch {
	case s.ports.count() > 0 && s.config.MaxUnavailable == 0 && len(s.stopping) == 0 && slices.ContainsFunc(fresh, (*instance).hasNoPort):
		stuck.Reason = NoFreePort
		stuck.Message = fmt.Sprintf("%s; all ports are in use: extend ports %q by %d for max_surge, or set max_unavailable to at least 1", state, s.ports, *s.config.MaxSurge)
	case now.Sub(s.progressed) >= s.config.ProgressDeadline:
		stuck.Reason = ProgressDeadlineExceeded
		stuck.Message = fmt.Sprintf("%s; no further instance became ready within %v (progress_deadline), and the old instances stay", state, s.config.ProgressDeadline)
	default:
		return &policy.Hold{Reason: ReplacementInProgress, Message: state}, nil
	}
	return nil, &stuck
}
