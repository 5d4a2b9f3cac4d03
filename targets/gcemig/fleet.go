package gcemig

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/api/compute/v1"

	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/cloud"
)

// Options are what a fleet is given besides its configuration.
type Options = cloud.Options

// Fleet reads and scales the managed instance groups of one project. It is safe for
// concurrent use.
type Fleet struct {
	base        targets.Base[Target]
	config      *Config
	connection  *connection
	limiter     *cloud.Limiter
	memory      *cloud.Memory
	shortages   cloud.Shortages
	machines    machines
	autoscalers autoscalers
	changes     changes

	mu sync.Mutex
	// known are the instances of groups, by the names of targets.
	known map[string]*membership
	// restarting are the ids of instances whose start time is to be looked up again.
	restarting map[string]bool
	// refreshed is when instances of stable groups were last listed again.
	refreshed time.Time
}

// membership is what was last listed of a group's instances.
type membership struct {
	group uint64
	list  []*compute.ManagedInstance
	at    time.Time
}

// New returns a fleet of that name, which connects when it is first read. The
// configuration is defaulted and valid, and is not modified.
func New(name string, config *Config, options Options) *Fleet {
	f := &Fleet{
		config: config, connection: newConnection(config),
		limiter: options.Accounts.Limiter(config.caller(), config.limits(), options.Meter), memory: cloud.NewMemory(options.Store),
		machines: machines{connections: config.MaxConnections},
		known:    map[string]*membership{}, restarting: map[string]bool{},
	}
	f.base.Name, f.base.Place, f.base.Parse = name, fmt.Sprintf(" in project %q", config.Project), parseName
	f.connection.limiter = f.limiter
	return f
}

// Close gives up the connections, and the fleet's part in the limits of its project.
func (f *Fleet) Close() error {
	f.base.End()
	f.connection.Close()
	f.limiter.Close()
	return nil
}

// open returns a session with the credentials as they are now.
func (f *Fleet) open(ctx context.Context) (*session, error) {
	if err := f.limiter.Refusal(); err != nil {
		return nil, err
	}
	s, err := f.connection.Client(ctx)
	if s == nil {
		return nil, err
	}
	f.limiter.CountWith(f.config.account(s.quotaProject))
	return s, nil
}

// Snapshot reads the given groups: one list for each 500 groups of the project, and
// the instances of those groups where something is going on.
func (f *Fleet) Snapshot(ctx context.Context, refs []targets.Ref) (map[targets.Ref]targets.Reading, error) {
	return f.base.Snapshot(ctx, refs, f.snapshot)
}

func (f *Fleet) snapshot(ctx context.Context, refs map[targets.Ref]Target) (map[targets.Ref]targets.Reading, error) {
	session, err := f.open(ctx)
	if err != nil {
		return nil, err
	}
	if err := f.memory.Load(ctx, time.Now()); err != nil {
		return nil, err
	}
	s := &snapshot{fleet: f, session: session, wanted: make(map[targets.Ref]*wanted, len(refs))}
	if s.listing, err = session.list(ctx); err != nil {
		return nil, err
	}
	for ref, t := range refs {
		group, err := s.listing.find(&t)
		s.wanted[ref] = &wanted{target: t, group: group, err: err}
	}
	s.readChanged(ctx)
	s.readAutoscalers(ctx)
	s.listMembers(ctx)
	s.lookUp(ctx)
	s.explain(ctx)
	readings := s.readings()
	f.memory.Save(ctx, time.Now())
	return readings, nil
}

// snapshot is one reading of targets under way.
type snapshot struct {
	fleet   *Fleet
	session *session
	listing *listing
	wanted  map[targets.Ref]*wanted
	// found are the machines that were looked up, by id.
	found map[string]machine
}

// wanted is one target of a reading. Once err is set nothing else counts.
type wanted struct {
	target  Target
	err     error
	group   *compute.InstanceGroupManager
	members []*compute.ManagedInstance
	// known is the list of instances that stands in for one that fails; nil for none.
	known *membership
}

// good yields the targets that have no error so far.
func (s *snapshot) good(yield func(*wanted) bool) {
	for _, a := range s.wanted {
		if a.err == nil && !yield(a) {
			return
		}
	}
}

// each calls do with some targets, several at once.
func (s *snapshot) each(of iter.Seq[*wanted], do func(a *wanted)) {
	var group errgroup.Group
	group.SetLimit(s.fleet.config.MaxConnections)
	for a := range of {
		group.Go(func() error {
			do(a)
			return nil
		})
	}
	_ = group.Wait() // each target has its own error
}

// readChanged reads the groups again that the list shows as they were before hpad
// changed them a moment ago.
func (s *snapshot) readChanged(ctx context.Context) {
	var changed []*wanted
	for a := range s.good {
		if s.fleet.changes.doubted(a.target.Name(), versionOf(a.group), time.Now()) {
			changed = append(changed, a)
		}
	}
	s.each(slices.Values(changed), func(a *wanted) { a.group, a.err = s.session.group(ctx, &a.target) })
}

// readAutoscalers reads the modes of the groups' autoscalers.
func (s *snapshot) readAutoscalers(ctx context.Context) {
	var paths []string
	for a := range s.good {
		if path := autoscalerOf(a.group); path != "" {
			paths = append(paths, path)
		}
	}
	s.fleet.autoscalers.refresh(ctx, s.session, paths)
}

const (
	// relistedAfter is how old the list of a stable group's instances may become.
	relistedAfter = 150 * time.Second
	// Of the reads that the limits allow, one in so many goes to stable groups, at
	// least so many of them in a round, and no more than for so long a pause.
	refreshShare = 2
	leastRefresh = 10
	longestPause = time.Minute
)

// listMembers lists the instances of the groups where something is going on, and of as
// many stable ones again as the limits allow, the longest ago first.
func (s *snapshot) listMembers(ctx context.Context) {
	now := time.Now()
	due := s.dueLists(now)
	s.each(slices.Values(due), func(a *wanted) {
		members, err := s.session.members(ctx, &a.target)
		passes := errors.Is(err, targets.ErrTransient) || errors.Is(err, targets.ErrThrottled)
		switch {
		case err == nil:
			a.members = members
			s.fleet.mu.Lock()
			defer s.fleet.mu.Unlock()
			s.fleet.known[a.target.Name()] = &membership{group: a.group.Id, list: members, at: now}
		case a.known == nil, now.Sub(a.known.at) >= relistedAfter, !passes:
			a.err = err
		}
	})
}

// dueLists returns the targets whose instances are to be listed; the others have those
// of the list before.
func (s *snapshot) dueLists(now time.Time) []*wanted {
	var due, again []*wanted
	s.fleet.mu.Lock()
	for a := range s.good {
		known := s.fleet.known[a.target.Name()]
		if known == nil || known.group != a.group.Id || !stable(a.group) || !settled(known.list, a.group.TargetSize) {
			due = append(due, a)
			continue
		}
		a.known, a.members = known, known.list
		if watched(a.group) || now.Sub(known.at) >= relistedAfter {
			again = append(again, a)
		}
	}
	s.fleet.mu.Unlock()
	slices.SortFunc(again, func(a, b *wanted) int { return a.known.at.Compare(b.known.at) })
	return append(due, again[:min(len(again), s.fleet.refreshes(now))]...)
}

// refreshes returns how many stable groups may be listed again now.
func (f *Fleet) refreshes(now time.Time) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	pause := min(now.Sub(f.refreshed), longestPause)
	f.refreshed = now
	return max(leastRefresh, int(pause.Seconds()*f.config.ReadsPerSecond/refreshShare))
}

// lookUp finds out when instances started and where they are: once for each that
// runs, and again when it was restarted.
func (s *snapshot) lookUp(ctx context.Context) {
	s.found = s.fleet.machines.find(ctx, s.session, s.unknown())
	s.fleet.mu.Lock()
	defer s.fleet.mu.Unlock()
	for id := range s.found {
		delete(s.fleet.restarting, id)
	}
}

// unknown returns the machines that are to be looked up.
func (s *snapshot) unknown() []lookup {
	s.fleet.mu.Lock()
	defer s.fleet.mu.Unlock()
	var wanted []lookup
	for a := range s.good {
		for _, m := range a.members {
			if m.Id == 0 || !standingOf(m).counted {
				continue
			}
			id := idOf(m)
			record, ok := s.fleet.memory.Recall(id)
			learned := ok && record.Facts != nil
			switch {
			case m.InstanceStatus != statusRunning && learned:
				s.fleet.restarting[id] = true
			case m.InstanceStatus == statusRunning && (!learned || s.fleet.restarting[id]):
				wanted = append(wanted, lookup{id: id, zone: zoneOf(m), name: nameOf(m)})
			}
		}
	}
	return wanted
}
