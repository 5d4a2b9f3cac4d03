package cloud

import (
	"sync"
	"time"

	"github.com/hpad/hpad/policy"
)

// InsufficientCapacity is the condition of a target that gets no instances.
const InsufficientCapacity policy.ConditionType = "InsufficientCapacity"

const (
	// explainAfter is how long a group lacks instances before the platform is queried
	// for the reason, and explainEvery the pause before the next query.
	explainAfter = 15 * time.Second
	explainEvery = 30 * time.Second
)

// shortages are the groups that have fewer instances than they should, with the
// platform's reasons. They are safe for concurrent use; the zero value is empty.
type shortages[N comparable] struct {
	mu    sync.Mutex
	known map[N]*shortage
}

type shortage struct {
	since, explained time.Time
	notice           *policy.Notice
}

// update records whether a group lacks instances, and reports whether the platform is to
// be queried for the reason.
func (s *shortages[N]) update(name N, short bool, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !short {
		delete(s.known, name)
		return false
	}
	if s.known == nil {
		s.known = map[N]*shortage{}
	}
	known := s.known[name]
	if known == nil {
		known = &shortage{since: now}
		s.known[name] = known
	}
	return now.Sub(known.since) >= explainAfter && now.Sub(known.explained) >= explainEvery
}

// explain records the platform's reason, or nil.
func (s *shortages[N]) explain(name N, notice *policy.Notice, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known := s.known[name]; known != nil {
		known.explained, known.notice = now, notice
	}
}

// notices returns the last reason for a group that lacks instances.
func (s *shortages[N]) notices(name N) []policy.Notice {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known := s.known[name]; known != nil && known.notice != nil {
		return []policy.Notice{*known.notice}
	}
	return nil
}
