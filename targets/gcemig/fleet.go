package gcemig

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/api/compute/v1"

	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/cloud"
)

// Options are what a fleet is given besides its configuration.
type Options struct {
	// Store keeps start times and readiness; nil keeps none across restarts.
	Store targets.Store
	// Meter counts calls; nil counts none.
	Meter targets.Meter
	// Accounts limit the calls together with those of other fleets that Compute Engine
	// counts for the same project; nil limits them alone.
	Accounts *cloud.Accounts
}

// Fleet reads and scales the managed instance groups of one project. It is safe for
// concurrent use.
type Fleet struct {
	name        string
	config      *Config
	life        targets.Life
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
	// read are the targets of the largest reading.
	read []Target
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
		name: name, config: config, connection: newConnection(config),
		limiter: options.Accounts.Limiter(config.caller(), config.limits(), options.Meter), memory: cloud.NewMemory(options.Store),
		machines: machines{connections: config.MaxConnections},
		known:    map[string]*membership{}, restarting: map[string]bool{},
	}
	f.connection.limiter = f.limiter
	return f
}

// Close gives up the connections, and the fleet's part in the limits of its project.
func (f *Fleet) Close() error {
	f.life.End()
	f.connection.Close()
	f.limiter.Close()
	return nil
}

// open returns a session with the credentials as they are now.
func (f *Fleet) open(ctx context.Context) (*session, error) {
	if err := f.life.Usable(ctx); err != nil {
		return nil, err
	}
	if err := f.limiter.Refusal(); err != nil {
		return nil, err
	}
	s, err := f.connection.Client()
	if s == nil {
		return nil, fmt.Errorf("%w: %w", targets.ErrForbidden, err)
	}
	f.limiter.CountWith(f.config.account(s.quotaProject))
	return s, nil
}

// Snapshot reads the given groups: one list for each 500 groups of the project, and
// the instances of those groups where something is going on.
func (f *Fleet) Snapshot(ctx context.Context, refs []targets.Ref) (map[targets.Ref]targets.Reading, error) {
	readings, err := f.snapshot(ctx, refs)
	if err != nil {
		return nil, fmt.Errorf("read fleet %q in project %q: %w", f.name, f.config.Project, err)
	}
	return readings, nil
}

func (f *Fleet) snapshot(ctx context.Context, refs []targets.Ref) (map[targets.Ref]targets.Reading, error) {
	session, err := f.open(ctx)
	if err != nil {
		return nil, err
	}
	if err := f.memory.Load(ctx, time.Now()); err != nil {
		return nil, err
	}
	s := &snapshot{fleet: f, session: session, asked: map[targets.Ref]*asked{}}
	s.parse(refs)
	if len(refs) == 0 {
		return map[targets.Ref]targets.Reading{}, nil
	}
	s.listing, err = session.list(ctx)
	if err != nil {
		return nil, err
	}
	s.find(ctx)
	s.list(ctx)
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
	asked   map[targets.Ref]*asked
	// found are the machines that were looked up, by id.
	found map[string]machine
}

// asked is one target of a reading. Once err is set nothing else counts.
type asked struct {
	target  Target
	err     error
	group   *compute.InstanceGroupManager
	members []*compute.ManagedInstance
}

// parse reads the targets' names.
func (s *snapshot) parse(refs []targets.Ref) {
	var read []Target
	for _, ref := range refs {
		t, err := parseName(ref.Name)
		switch {
		case err != nil:
			err = fmt.Errorf("%w: %w", targets.ErrTargetNotFound, err)
		case ref.Fleet != s.fleet.name:
			err = fmt.Errorf("%w: target %s is of another fleet than %q", targets.ErrTargetNotFound, ref, s.fleet.name)
		default:
			read = append(read, t)
		}
		s.asked[ref] = &asked{target: t, err: err}
	}
	s.fleet.mu.Lock()
	defer s.fleet.mu.Unlock()
	if len(read) >= len(s.fleet.read) { // not a single target that is read again
		s.fleet.read = read
	}
}

// find sees to the groups and their autoscalers. A group that the list shows as it
// was before a change of a moment ago is read once more.
func (s *snapshot) find(ctx context.Context) {
	now := time.Now()
	var again errgroup.Group
	again.SetLimit(s.fleet.config.MaxConnections)
	for _, a := range s.asked {
		if a.err != nil {
			continue
		}
		a.group, a.err = s.listing.find(&a.target)
		if a.err == nil && s.fleet.changes.doubted(a.target.Name(), versionOf(a.group), now) {
			again.Go(func() error {
				a.group, a.err = s.session.group(ctx, &a.target)
				return nil
			})
		}
	}
	_ = again.Wait() // each target has its own error
	var autoscalers []string
	for _, a := range s.asked {
		if a.err != nil {
			continue
		}
		if path := autoscalerOf(a.group); path != "" {
			autoscalers = append(autoscalers, path)
		}
	}
	s.fleet.autoscalers.refresh(ctx, s.session, autoscalers)
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

// list sees to the instances of all groups: those of groups where something is going
// on are listed, and as many stable ones again as the limits leave room for, the
// longest ago first.
func (s *snapshot) list(ctx context.Context) {
	now := time.Now()
	var listed, again []*asked
	listedAt := map[*asked]time.Time{}
	for _, a := range s.asked {
		if a.err != nil {
			continue
		}
		known := s.fleet.recall(&a.target)
		switch {
		case known == nil, known.group != a.group.Id, !stable(a.group), !settled(known.list, a.group.TargetSize):
			listed = append(listed, a)
			continue
		case watched(a.group), now.Sub(known.at) >= relistedAfter:
			again = append(again, a)
			listedAt[a] = known.at
		}
		a.members = known.list
	}
	slices.SortFunc(again, func(a, b *asked) int { return listedAt[a].Compare(listedAt[b]) })
	listed = append(listed, again[:min(len(again), s.fleet.refreshes(now))]...)
	var group errgroup.Group
	group.SetLimit(s.fleet.config.MaxConnections)
	for _, a := range listed {
		group.Go(func() error {
			members, err := s.session.members(ctx, &a.target)
			at, again := listedAt[a]
			switch {
			case err == nil:
				a.members = members
				s.fleet.remember(&a.target, &membership{group: a.group.Id, list: members, at: now})
			case again && now.Sub(at) < relistedAfter && (errors.Is(err, targets.ErrTransient) || errors.Is(err, targets.ErrThrottled)):
				// The list before is young enough.
			default:
				a.err = err
			}
			return nil
		})
	}
	_ = group.Wait() // each target has its own error
}

// refreshes answers how many stable groups may be listed again now.
func (f *Fleet) refreshes(now time.Time) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	pause := min(now.Sub(f.refreshed), longestPause)
	f.refreshed = now
	return max(leastRefresh, int(pause.Seconds()*f.config.ReadsPerSecond/refreshShare))
}

// recall answers what was last listed of a group; nil when nothing was, or when the
// group was changed since.
func (f *Fleet) recall(t *Target) *membership {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.known[t.Name()]
}

func (f *Fleet) remember(t *Target, m *membership) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.known[t.Name()] = m
}

// changed forgets what was listed of a group, because hpad changed it.
func (f *Fleet) changed(t *Target) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.known, t.Name())
}

// lookUp finds out when instances started and where they are: once for each that
// runs, and again when it was restarted.
func (s *snapshot) lookUp(ctx context.Context) {
	var wanted []lookup
	for _, a := range s.asked {
		if a.err != nil {
			continue
		}
		for _, m := range a.members {
			if m.Id == 0 || !standingOf(m).counted {
				continue
			}
			id := idOf(m)
			record, ok := s.fleet.memory.Recall(id)
			learned := ok && record.Facts != nil
			if m.InstanceStatus != statusRunning {
				s.fleet.noteRestart(id, learned)
				continue
			}
			if !learned || s.fleet.isRestarting(id) {
				wanted = append(wanted, lookup{id: id, zone: zoneOf(m), name: nameOf(m)})
			}
		}
	}
	s.found = s.fleet.machines.find(ctx, s.session, wanted)
}
