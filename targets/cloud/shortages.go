package cloud

import (
	"sync"
	"time"

	"github.com/hpad/hpad/policy"
)

// InsufficientCapacity is the condition of a target that gets no instances.
const InsufficientCapacity policy.ConditionType = "InsufficientCapacity"

// When the platform is asked why a target lacks instances: once it has for so
// long, and then again after so long.
const (
	askAfter = 15 * time.Second
	askEvery = 30 * time.Second
)

// Shortages remember which targets have fewer instances than they should, since
// when, and what the platform said of it. They are safe for concurrent use; the
// zero value is ready.
type Shortages struct {
	mu      sync.Mutex
	targets map[string]*shortage
}

type shortage struct {
	since, asked time.Time
	notice       *policy.Notice
}

// Note remembers whether a target has fewer instances than it should, and answers
// since when; zero when it has not.
func (s *Shortages) Note(target string, short bool, now time.Time) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !short {
		delete(s.targets, target)
		return time.Time{}
	}
	known := s.targets[target]
	if known == nil {
		known = &shortage{since: now}
		if s.targets == nil {
			s.targets = map[string]*shortage{}
		}
		s.targets[target] = known
	}
	return known.since
}

// Due says that the platform is to be asked why a target lacks instances: 15
// seconds after it began to, and every 30 seconds from then on.
func (s *Shortages) Due(target string, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.targets[target]
	return known != nil && now.Sub(known.since) >= askAfter && now.Sub(known.asked) >= askEvery
}

// Told remembers what the platform said of a target; nil says that it said nothing.
func (s *Shortages) Told(target string, notice *policy.Notice, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known := s.targets[target]; known != nil {
		known.asked, known.notice = now, notice
	}
}

// Notices answers what the platform last said of a target for as long as it lacks
// instances; nil when it said nothing.
func (s *Shortages) Notices(target string) []policy.Notice {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known := s.targets[target]; known != nil && known.notice != nil {
		return []policy.Notice{*known.notice}
	}
	return nil
}
