package cloud

import (
	"sync"
	"time"

	"github.com/hpad/hpad/policy"
)

// InsufficientCapacity is the condition of a target that gets no instances.
const InsufficientCapacity policy.ConditionType = "InsufficientCapacity"

// When the platform is asked why a target lacks instances: once it has for so long, and
// so long after the last time.
const (
	askAfter = 15 * time.Second
	askEvery = 30 * time.Second
)

// Shortages are of the targets that have fewer instances than they should: since when,
// and why, as the platform says. They are safe for concurrent use; the zero value has
// none.
type Shortages struct {
	mu      sync.Mutex
	targets map[string]*shortage
}

type shortage struct {
	since, explained time.Time
	notice           *policy.Notice
}

// Update records whether a target has fewer instances than it should, and reports
// whether the platform is to be asked why: 15 seconds after it began to have fewer, and
// then 30 seconds after each explanation.
func (s *Shortages) Update(target string, short bool, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !short {
		delete(s.targets, target)
		return false
	}
	known := s.targets[target]
	if known == nil {
		known = &shortage{since: now}
		if s.targets == nil {
			s.targets = map[string]*shortage{}
		}
		s.targets[target] = known
	}
	return now.Sub(known.since) >= askAfter && now.Sub(known.explained) >= askEvery
}

// Explain records why a target lacks instances, as the platform says; nil where it says
// nothing.
func (s *Shortages) Explain(target string, notice *policy.Notice, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known := s.targets[target]; known != nil {
		known.explained, known.notice = now, notice
	}
}

// Notices returns the last explanation of a target for as long as it lacks instances;
// nil where there is none.
func (s *Shortages) Notices(target string) []policy.Notice {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known := s.targets[target]; known != nil && known.notice != nil {
		return []policy.Notice{*known.notice}
	}
	return nil
}
