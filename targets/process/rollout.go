package process

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets/rollout"
)

// noFreePort is a reason for rollout.ReplacementFailing.
const noFreePort = "NoFreePort"

// settled reports whether the instance is considered ready in a replacement. If the clock was set
// back, the start time of an adopted process can be in the future.
func (i *instance) settled() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	age := time.Since(i.changed)
	return i.ready && (i.config.Readiness.probes() || age >= rollout.SettleTime || age < 0)
}

// rolloutLocked counts the instances and records the progress. The caller must hold mu.
func (s *service) rolloutLocked() (c rollout.Counts, old, fresh []*instance) {
	now, _ := s.counts.Get(s.name)
	c.Want = int(now.Replicas)
	if highest := s.ports.count(); highest > 0 {
		c.Want = min(c.Want, int(highest))
	}
	definition := s.currentDefinition()
	for _, i := range s.current {
		ready := 0
		if i.settled() {
			ready = 1
		}
		if i.definition == definition {
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

// unreadyReasons returns the names of the unready instances with their reasons.
func unreadyReasons(instances []*instance) (reasons []string) {
	for _, i := range instances {
		i.mu.Lock()
		if why := i.unreadyReason(); why != "" {
			reasons = append(reasons, i.name+": "+why)
		}
		i.mu.Unlock()
	}
	return reasons
}

// currentDefinition returns the definition of instances that need no replacement. It changes with
// each requested restart. The caller must hold mu.
func (s *service) currentDefinition() string {
	now, _ := s.counts.Get(s.name)
	if now.Restarts == 0 {
		return s.definition
	}
	return s.definition + restartSeparator + strconv.FormatUint(now.Restarts, 10)
}

// restartSeparator is the text before the number of restarts in a definition.
const restartSeparator = "-"

// strategyLocked returns the strategy of a replacement, and an old instance that works, or nil. The
// caller must hold mu.
func (s *service) strategyLocked(old []*instance) (strategy rollout.Strategy, working *instance) {
	strategy = rollout.Strategy{
		Surge: int(*s.config.MaxSurge), Unavailable: int(s.config.MaxUnavailable),
		Failed: s.progress.Failed(s.config.ProgressDeadline, time.Now()),
	}
	works := func(i *instance) bool { return !i.obsolete && i.settled() }
	if at := slices.IndexFunc(old, works); at >= 0 {
		strategy.OldStarts, working = true, old[at]
	}
	if strategy.Failed && slices.ContainsFunc(old, (*instance).isBlocked) {
		strategy.Surge = 0 // a broken instance uses the port
	}
	return strategy, working
}

// replacement describes the replacement of a service, or returns nil. The caller must hold mu.
func (s *service) replacement(now time.Time) *policy.Notice {
	c, _, fresh := s.rolloutLocked()
	object := fmt.Sprintf("service %q", s.name)
	if c.Old == 0 || s.ports.count() == 0 || s.config.MaxUnavailable > 0 || len(s.stopping) > 0 || !slices.ContainsFunc(s.current, (*instance).isBlocked) {
		return rollout.WithReasons(s.progress.Notice(object, s.config.ProgressDeadline, now), unreadyReasons(fresh))
	}
	return &policy.Notice{
		Condition: rollout.ReplacementFailing, Reason: noFreePort,
		Message: fmt.Sprintf("%s; all ports are in use: extend ports %q by %d for max_surge, or set max_unavailable to at least 1", c.State(object), s.ports, *s.config.MaxSurge),
	}
}
