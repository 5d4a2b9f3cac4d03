package cloud

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hpad/hpad/guard"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
)

const (
	// listAge is the maximum age of a listing that a decision may use.
	listAge = 2 * time.Minute
	// quietAge is the maximum age of the instance list of a quiet group.
	quietAge = time.Minute
	// listTime limits the time for listing instances in one snapshot. listShare limits it as a
	// share of the snapshot's remaining time.
	listTime  = 20 * time.Second
	listShare = 0.7
	// Optional listings leave 1/reserve of the burst for other calls.
	reserve = 4
)

// groupState is the cached state of a group.
type groupState struct {
	// listing is the last listing, or nil. listedAt is the time of the listing, and version the
	// group's version at that time. settled reports whether the group was stable and its instances
	// were ready.
	listing  *Listing
	listedAt time.Time
	version  string
	settled  bool
	// writes lists accepted writes that the platform does not report yet, oldest first. versions
	// lists the group's version before each write. writtenAt is the time of the last write.
	writes    []write
	versions  []string
	writtenAt time.Time
	// shortSince is the start of a shortage of instances; zero if the group is complete. notice is
	// the platform's reason, and explainedAt is the time of its query.
	shortSince, explainedAt time.Time
	notice                  *policy.Notice
}

// locked calls do with the state of a group while f.mu is held.
func (f *Fleet[N, G, C]) locked(name N, do func(s *groupState)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.groups == nil {
		f.groups = map[N]*groupState{}
	}
	if f.groups[name] == nil {
		f.groups[name] = &groupState{}
	}
	do(f.groups[name])
}

// listMembers sets the Listing of all groups. It lists the instances of groups that are due, and
// of other groups as far as the limits allow, oldest listing first. The remaining groups keep
// their last listing.
func (f *Fleet[N, G, C]) listMembers(ctx context.Context, groups map[N]*Group[G], now time.Time) {
	type job struct {
		name  N
		group *Group[G]
		last  groupState
	}
	var due, others []job
	for name, group := range groups {
		if group.Err != nil || group.Listing != nil {
			continue
		}
		j := job{name: name, group: group}
		f.locked(name, func(s *groupState) { j.last = *s })
		age := now.Sub(j.last.listedAt)
		if j.last.listing == nil || !j.last.settled || !group.Stable || j.last.version != group.version() || age >= listAge {
			due = append(due, j)
			continue
		}
		group.Listing = j.last.listing
		if !group.Quiet || age >= quietAge {
			others = append(others, j)
		}
	}
	if len(due)+len(others) == 0 {
		return
	}
	slices.SortFunc(others, func(a, b job) int { return a.last.listedAt.Compare(b.last.listedAt) })
	spare := f.Limiter.room(Read) - f.Limiter.limits.Calls[Read].Burst/reserve - len(due)
	chosen := append(due, others[:max(0, min(len(others), spare))]...)
	limit := listTime
	if deadline, ok := ctx.Deadline(); ok {
		limit = min(limit, time.Duration(listShare*float64(time.Until(deadline))))
	}
	within, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	guard.Each(callsAtOnce, chosen, func(_ int, j job) error {
		listing, err := f.list(within, j.name, j.group)
		temporary := errors.Is(err, targets.ErrTransient) || errors.Is(err, targets.ErrThrottled)
		if err == nil {
			j.group.Listing = listing
		} else if j.group.Listing == nil || !temporary {
			j.group.Err = err
		}
		return nil
	})
}

func (f *Fleet[N, G, C]) list(ctx context.Context, name N, group *Group[G]) (*Listing, error) {
	at := time.Now()
	listing, err := f.members(ctx, name, group)
	if err != nil {
		if ctx.Err() != nil && !targets.HasClass(err) {
			err = fmt.Errorf("%w: not listed within the time of the round: %w", targets.ErrTransient, err)
		}
		return nil, err
	}
	slices.SortFunc(listing.Members, func(a, b Member) int { return strings.Compare(a.key(), b.key()) })
	f.locked(name, func(s *groupState) {
		s.listing, s.version, s.settled, s.listedAt = listing, group.version(), group.Stable && listing.settled(group.Size), at
	})
	return listing, nil
}

func (f *Fleet[N, G, C]) members(ctx context.Context, name N, group *Group[G]) (*Listing, error) {
	return call(ctx, f, func(c *C) (*Listing, error) { return f.Platform.Members(ctx, c, name, group) })
}

// lastListing returns the last listing of a group, or nil.
func (f *Fleet[N, G, C]) lastListing(name N) (last *Listing) {
	f.locked(name, func(s *groupState) { last = s.listing })
	return last
}

func (f *Fleet[N, G, C]) forget(name N) { f.locked(name, func(s *groupState) { s.settled = false }) }

// InsufficientCapacity is the condition of a target if its instances cannot start.
const InsufficientCapacity policy.ConditionType = "InsufficientCapacity"

const (
	// explainAfter is how long a group must lack instances before hpad queries the
	// platform for the reason. explainEvery is the pause before the next query.
	explainAfter = 15 * time.Second
	explainEvery = 30 * time.Second
)

// lacks records whether a group lacks instances. It reports whether a query for the platform's
// reason is due.
func (s *groupState) lacks(instances bool, now time.Time) bool {
	if !instances {
		s.shortSince, s.explainedAt, s.notice = time.Time{}, time.Time{}, nil
		return false
	}
	if s.shortSince.IsZero() {
		s.shortSince = now
	}
	return now.Sub(s.shortSince) >= explainAfter && now.Sub(s.explainedAt) >= explainEvery
}
