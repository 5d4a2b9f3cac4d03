package cloud

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
)

const (
	// listAge is the maximum age of a listing that a decision may use.
	listAge = 2 * time.Minute
	// quietAge is the age at which the instances of a quiet group are listed again.
	quietAge = time.Minute
	// listTime limits the time for listing instances in one round. listShare limits it as a share of
	// the round's time.
	listTime  = 20 * time.Second
	listShare = 0.7
	// reserve is the part of the burst, 1/reserve, that optional listings leave for other calls.
	reserve = 4
)

type lastList struct {
	listing *Listing
	version string
	settled bool
	at      time.Time
}

// listMembers sets the Listing of all groups. It lists the instances of groups that are due, and
// of other groups as far as the limits allow, oldest listing first. The remaining groups keep
// their last listing.
func (f *Fleet[N, G]) listMembers(ctx context.Context, groups map[N]*Group[G], now time.Time) {
	type job struct {
		name  N
		group *Group[G]
		known *lastList
	}
	var due, others []job
	f.mu.Lock()
	for name, group := range groups {
		known := f.lists[name]
		switch {
		case group.Err != nil, group.Listing != nil:
		case known == nil || !known.settled || !group.Stable || known.version != group.version() || now.Sub(known.at) >= listAge:
			due = append(due, job{name, group, nil})
		default:
			group.Listing = known.listing
			if !group.Quiet || now.Sub(known.at) >= quietAge {
				others = append(others, job{name, group, known})
			}
		}
	}
	f.mu.Unlock()
	if len(due)+len(others) == 0 {
		return
	}
	slices.SortFunc(others, func(a, b job) int { return a.known.at.Compare(b.known.at) })
	spare := f.Limiter.Room(Read) - f.Limiter.limits.Calls[Read].Burst/reserve - len(due)
	chosen := append(due, others[:max(0, min(len(others), spare))]...)
	limit := listTime
	if deadline, ok := ctx.Deadline(); ok {
		limit = min(limit, time.Duration(listShare*float64(time.Until(deadline))))
	}
	within, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var calls errgroup.Group
	calls.SetLimit(callsAtOnce)
	for _, j := range chosen {
		calls.Go(func() error {
			listing, err := f.list(within, j.name, j.group)
			passes := errors.Is(err, targets.ErrTransient) || errors.Is(err, targets.ErrThrottled)
			if err == nil {
				j.group.Listing = listing
			} else if j.known == nil || !passes {
				j.group.Err = err
			}
			return nil
		})
	}
	_ = calls.Wait() // errors are stored per group
}

func (f *Fleet[N, G]) list(ctx context.Context, name N, group *Group[G]) (*Listing, error) {
	at := time.Now()
	listing, err := f.Platform.Members(ctx, name, group)
	if err != nil {
		if ctx.Err() != nil && !targets.Classed(err) {
			err = fmt.Errorf("%w: not listed in the time of the round: %w", targets.ErrTransient, err)
		}
		return nil, err
	}
	slices.SortFunc(listing.Members, func(a, b Member) int { return strings.Compare(a.key(), b.key()) })
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.lists == nil {
		f.lists = map[N]*lastList{}
	}
	f.lists[name] = &lastList{listing, group.version(), group.Stable && listing.settled(group.Size), at}
	return listing, nil
}

// LastListing returns the last listing of a group, or nil.
func (f *Fleet[N, G]) LastListing(name N) *Listing {
	f.mu.Lock()
	defer f.mu.Unlock()
	if known := f.lists[name]; known != nil {
		return known.listing
	}
	return nil
}

func (f *Fleet[N, G]) forget(name N) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if known := f.lists[name]; known != nil {
		known.settled = false
	}
}

// InsufficientCapacity is the condition of a target whose instances cannot start.
const InsufficientCapacity policy.ConditionType = "InsufficientCapacity"

const (
	// explainAfter is how long a group must lack instances before the platform is queried for the
	// reason. explainEvery is the pause before the next query.
	explainAfter = 15 * time.Second
	explainEvery = 30 * time.Second
)

// shortages stores the groups with missing instances and the platform's reasons. It is safe for
// concurrent use; the zero value is empty.
type shortages[N comparable] struct {
	mu    sync.Mutex
	known map[N]*shortage
}

type shortage struct {
	since, explained time.Time
	notice           *policy.Notice
}

// update records whether a group lacks instances, and reports whether a query for the reason is
// due.
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

func (s *shortages[N]) explain(name N, notice *policy.Notice, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known := s.known[name]; known != nil {
		known.explained, known.notice = now, notice
	}
}

func (s *shortages[N]) notices(name N) []policy.Notice {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known := s.known[name]; known != nil && known.notice != nil {
		return []policy.Notice{*known.notice}
	}
	return nil
}
