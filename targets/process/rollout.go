package process

import (
	"fmt"
	"slices"
	"time"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets/rollout"
)

// NoFreePort is a reason for rollout.ReplacementFailing.
const NoFreePort = "NoFreePort"

// settled reports whether the instance is considered ready in a replacement. If the clock was set
// back, the start time of an adopted process can be in the future.
func (i *instance) settled() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	age := time.Since(i.changed)
	return i.ready && (i.config.Readiness.probes() || age >= rollout.SettleTime || age < 0)
}

// hasNoPort reports whether the instance waits for a port.
func (i *instance) hasNoPort() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.port == 0
}

// rolloutLocked counts the instances and records the progress. The caller must hold mu.
func (s *service) rolloutLocked() (c rollout.Counts, old, fresh []*instance) {
	for _, i := range s.current {
		ready := 0
		if i.settled() {
			ready = 1
		}
		if i.definition == s.definition {
			fresh = append(fresh, i)
			c.FreshReady += ready
		} else {
			old = append(old, i)
			c.OldReady += ready
		}
	}
	c.Old, c.Fresh = len(old), len(fresh)
	s.progress.Observe(c, time.Now())
	return c, old, fresh
}

// replacement returns the hold of a service during a replacement, or a notice if the replacement
// makes no progress. The caller must hold mu.
func (s *service) replacement(now time.Time) (*policy.Hold, *policy.Notice) {
	c, _, fresh := s.rolloutLocked()
	object := fmt.Sprintf("service %q", s.name)
	hold, stuck := s.progress.Status(object, s.config.ProgressDeadline, now)
	if c.Old == 0 || s.ports.count() == 0 || s.config.MaxUnavailable > 0 || len(s.stopping) > 0 || !slices.ContainsFunc(fresh, (*instance).hasNoPort) {
		return hold, stuck
	}
	return nil, &policy.Notice{
		Condition: rollout.ReplacementFailing, Reason: NoFreePort,
		Message: fmt.Sprintf("%s; all ports are in use: extend ports %q by %d for max_surge, or set max_unavailable to at least 1", c.State(object), s.ports, *s.config.MaxSurge),
	}
}
