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
	// shownFor is how long the reason of a refused write is shown.
	shownFor = 2 * time.Minute
)

// Shortages are the groups that have fewer instances than they should, with the
// platform's reasons. They are safe for concurrent use; the zero value has none.
type Shortages[N comparable] struct {
	mu    sync.Mutex
	known map[N]*shortage
}

type shortage struct {
	// since is when the group began to lack instances; zero if it lacks none.
	since, explained, until time.Time
	notice                  *policy.Notice
}

func (s *Shortages[N]) of(name N) *shortage {
	known := s.known[name]
	if known == nil {
		if s.known == nil {
			s.known = map[N]*shortage{}
		}
		known = &shortage{}
		s.known[name] = known
	}
	return known
}

// update records whether a group lacks instances, and reports whether the platform is to
// be queried for the reason.
func (s *Shortages[N]) update(name N, short bool, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !short {
		if known := s.known[name]; known != nil {
			known.since = time.Time{}
			if now.After(known.until) {
				delete(s.known, name)
			}
		}
		return false
	}
	known := s.of(name)
	if known.since.IsZero() {
		known.since = now
	}
	return now.Sub(known.since) >= explainAfter && now.Sub(known.explained) >= explainEvery
}

// explain records the platform's reason; nil if it has none, which keeps that of a
// refused write.
func (s *Shortages[N]) explain(name N, notice *policy.Notice, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.of(name)
	if known.explained = now; notice != nil || now.After(known.until) {
		known.notice = notice
	}
}

// Refused records the reason of a refused write, which is shown for 2 minutes, and longer
// while the group lacks instances.
func (s *Shortages[N]) Refused(name N, notice policy.Notice, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.of(name)
	known.notice, known.until = &notice, now.Add(shownFor)
}

// clear forgets the reason for a group, since its size was written again.
func (s *Shortages[N]) clear(name N) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.known, name)
}

// notices returns the last reason for a group; nil if there is none.
func (s *Shortages[N]) notices(name N, now time.Time) []policy.Notice {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.known[name]
	if known == nil || known.notice == nil || known.since.IsZero() && now.After(known.until) {
		return nil
	}
	return []policy.Notice{*known.notice}
}
