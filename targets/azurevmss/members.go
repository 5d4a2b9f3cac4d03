package azurevmss

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hpad/hpad/targets"
	platform "github.com/hpad/hpad/targets/cloud"
)

const (
	// membersAge is how old a settled set's list of machines may become.
	membersAge = 2 * time.Minute
	// listingTime bounds how long a round lists machines where its own end is far;
	// listingShare is the share of the round that it may take.
	listingTime  = 20 * time.Second
	listingShare = 0.7
	// reserve is the part of the calls at hand that lists which could wait leave to
	// writes and to lists that cannot.
	reserve = 0.25
)

// members are the machines of the sets, as last listed. They are safe for
// concurrent use.
type members struct {
	mu    sync.Mutex
	known map[key]*membership
}

// membership is what the last list of a set's machines said. Once it is known it is
// not modified.
type membership struct {
	// set is the set as it was then.
	set      *scaleSet
	machines []*machine
	settled  bool
	at       time.Time
	// upgrade is the rolling upgrade that was under way, in words.
	upgrade string
	// err is why the machines could not be listed this time.
	err error
}

func newMembers() *members { return &members{known: map[key]*membership{}} }

// at returns what is known of a set; nil when nothing is.
func (m *members) at(k key) *membership {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.known[k]
}

// keep remembers a list.
func (m *members) keep(k key, next *membership) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.known[k] = next
}

// forget makes a set's machines be listed again.
func (m *members) forget(k key) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.known, k)
}

// stale reports whether a set's machines have to be listed again.
func (known *membership) stale(s *scaleSet, now time.Time) bool {
	return known == nil || !known.settled || known.set.version() != s.version() || known.set.state != s.state ||
		now.Sub(known.at) >= membersAge
}

// choose returns the sets whose machines are listed in this round: those that have
// to be, and as many others as fit in, longest ago first.
func (m *members) choose(sets map[key]*scaleSet, fit int, now time.Time) []*scaleSet {
	m.mu.Lock()
	known := maps.Clone(m.known)
	m.mu.Unlock()
	var due, others []*scaleSet
	for k, s := range sets {
		if known[k].stale(s, now) {
			due = append(due, s)
		} else {
			others = append(others, s)
		}
	}
	longestAgo := func(a, b *scaleSet) int {
		return cmp.Or(known[a.key].listed().Compare(known[b.key].listed()), a.key.compare(b.key))
	}
	slices.SortFunc(due, longestAgo)
	slices.SortFunc(others, longestAgo)
	return append(due, others[:max(0, min(len(others), fit-len(due)))]...)
}

// listed returns when the list was made; zero when there is none.
func (known *membership) listed() time.Time { return value(known).at }

// listMembers lists the machines of the sets that are due, as far as the fleet's
// limits and the round's time allow, and returns what is known of every set then.
func (f *Fleet) listMembers(ctx context.Context, sets map[key]*scaleSet, now time.Time) map[key]*membership {
	spare := f.limiter.Room(platform.Read) - int(reserve*float64(10*f.config.ReadsPerSecond))
	limit := listingTime
	if deadline, ok := ctx.Deadline(); ok {
		limit = min(limit, time.Duration(listingShare*float64(time.Until(deadline))))
	}
	within, cancel := context.WithDeadline(ctx, now.Add(limit))
	defer cancel()
	chosen := f.members.choose(sets, spare, now)
	lists := make([]*membership, len(chosen))
	var group errgroup.Group
	group.SetLimit(listing)
	for i, s := range chosen {
		group.Go(func() error {
			lists[i] = f.listSet(within, s)
			return nil
		})
	}
	_ = group.Wait() // each set has its own error
	found, listed := make(map[key]*membership, len(sets)), map[key]*membership{}
	for k := range sets {
		found[k] = f.members.at(k)
	}
	for i, s := range chosen {
		switch {
		case lists[i].err == nil: // which a write may have made unknown meanwhile
			found[s.key], listed[s.key] = lists[i], lists[i]
		case !passing(lists[i].err) || found[s.key].stale(s, now):
			found[s.key] = lists[i]
		} // else the list before is good, which this one was to renew before it had to be
	}
	f.learnAddresses(ctx, listed)
	return found
}

// passing reports whether an error is none of the set's: a server's trouble, a limit, a
// round whose time was over.
func passing(err error) bool {
	return errors.Is(err, targets.ErrTransient) || errors.Is(err, targets.ErrThrottled)
}

// listSet lists the machines of one set, and what goes with them.
func (f *Fleet) listSet(ctx context.Context, s *scaleSet) *membership {
	next := &membership{set: s, at: time.Now()}
	if next.machines, next.err = f.listMachines(ctx, s); next.err != nil {
		if ctx.Err() != nil && !targets.Classed(next.err) {
			next.err = fmt.Errorf("%w: the round's time was over before: %w", targets.ErrTransient, next.err)
		}
		return next // the list before it is kept for the rounds to come
	}
	if mayUpgrade(s, next.machines) {
		if next.upgrade, next.err = f.readUpgrade(ctx, s); next.err != nil {
			return next
		}
	}
	next.settled = settled(s, next.machines) && next.upgrade == ""
	for _, m := range next.machines {
		if m.member() {
			f.memory.Update(m.id, m.sighting(s.monitored), next.at)
		}
	}
	f.members.keep(s.key, next)
	return next
}
