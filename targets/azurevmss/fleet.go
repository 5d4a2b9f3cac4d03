package azurevmss

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
	platform "github.com/hpad/hpad/targets/cloud"
)

// Options are what a fleet is given besides its configuration.
type Options struct {
	// Store keeps start times, readiness and changes under way; nil keeps none, so
	// that after every start all machines look new.
	Store targets.Store
	// Meter counts the calls to Azure; nil counts none.
	Meter targets.Meter
	// Accounts limit the calls together with those of other fleets of the same
	// subscription; nil limits them alone.
	Accounts *platform.Accounts
}

// Fleet reads and scales the virtual machine scale sets of one subscription. It is
// safe for concurrent use.
type Fleet struct {
	name        string
	config      *Config
	life        targets.Life
	connection  *platform.Connection[client]
	limiter     *platform.Limiter
	memory      *platform.Memory
	members     *members
	operations  *operations
	autoscalers autoscalers
	addresses   addresses
	written     written
	troubles    troubles

	mu sync.Mutex
	// asked are the sets of the largest reading, for Check.
	asked []key
}

// New answers a fleet of that name, which connects when it is first read. The
// configuration is defaulted and valid, and is not modified.
func New(name string, config *Config, options Options) *Fleet {
	return &Fleet{
		name: name, config: config, connection: newConnection(config),
		limiter:    options.Accounts.Limiter(config.account(), config.limits(), options.Meter),
		memory:     platform.NewMemory(options.Store),
		members:    newMembers(),
		operations: newOperations(options.Store),
	}
}

// Close gives up the connections, and the fleet's part in the limits of its
// subscription.
func (f *Fleet) Close() error {
	f.life.End()
	f.connection.Close()
	f.limiter.Close()
	return nil
}

// Snapshot reads the given scale sets: one list of the sets, or one for each of a
// few resource groups, and the machines of those sets that are due.
func (f *Fleet) Snapshot(ctx context.Context, refs []targets.Ref) (map[targets.Ref]targets.Reading, error) {
	err := f.life.Usable(ctx)
	if err == nil {
		err = f.memory.Load(ctx, time.Now())
	}
	if err == nil {
		err = f.operations.load(ctx)
	}
	if err != nil {
		return nil, f.readFailure(err)
	}
	s := &snapshot{fleet: f, asked: map[targets.Ref]key{}, failed: map[targets.Ref]error{}, now: time.Now()}
	s.parse(refs)
	if err := s.list(ctx); err != nil {
		return nil, f.readFailure(err)
	}
	s.poll(ctx)
	readings := s.readings()
	f.memory.Save(ctx, s.now)
	f.members.sweep(s.now)
	return readings, nil
}

func (f *Fleet) readFailure(err error) error {
	return fmt.Errorf("read fleet %q at %s: %w", f.name, f.config.address(), err)
}

// snapshot is one reading of targets under way.
type snapshot struct {
	fleet *Fleet
	// asked are the targets whose names can be read, failed are why others cannot.
	asked   map[targets.Ref]key
	failed  map[targets.Ref]error
	listing *setsListing
	members map[key]*membership
	now     time.Time
}

// parse reads the targets' names.
func (s *snapshot) parse(refs []targets.Ref) {
	for _, ref := range refs {
		k, err := keyOf(ref.Name)
		switch {
		case err != nil:
			s.failed[ref] = fmt.Errorf("%w: %w", targets.ErrTargetNotFound, err)
		case ref.Fleet != s.fleet.name:
			s.failed[ref] = fmt.Errorf("%w: target %s is of another fleet than %q", targets.ErrTargetNotFound, ref, s.fleet.name)
		default:
			s.asked[ref] = k
		}
	}
}

// keys answers the sets that are asked for.
func (s *snapshot) keys() map[key]bool {
	wanted := make(map[key]bool, len(s.asked))
	for _, k := range s.asked {
		wanted[k] = true
	}
	return wanted
}

// list reads the sets, the settings of the platform's own autoscaler, and the
// machines of the sets that are due. An error means that no set could be read.
func (s *snapshot) list(ctx context.Context) error {
	wanted := s.keys()
	s.fleet.noteAsked(wanted)
	groups := map[string]bool{}
	for k := range wanted {
		groups[k.group] = true
	}
	scopes := s.fleet.config.scopes(groups)
	if len(wanted) == 0 {
		scopes = nil
	}
	var group errgroup.Group
	group.Go(func() error {
		s.listing = s.fleet.listSets(ctx, scopes, wanted)
		return s.listing.failure()
	})
	group.Go(func() error {
		s.fleet.autoscalers.refresh(ctx, s.fleet, scopes)
		return nil
	})
	if err := group.Wait(); err != nil {
		return err
	}
	due := make(map[key]*scaleSet, len(s.listing.sets))
	for k, set := range s.listing.sets {
		s.fleet.written.apply(set)
		if set.unscalable() == nil {
			due[k] = set
		}
	}
	s.members = s.fleet.listMembers(ctx, due, s.now)
	return nil
}

// noteAsked remembers what is read, for Check.
func (f *Fleet) noteAsked(wanted map[key]bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(wanted) < len(f.asked) { // a single target that is read again
		return
	}
	f.asked = f.asked[:0]
	for k := range wanted {
		f.asked = append(f.asked, k)
	}
}

// poll asks what became of accepted changes, a few in each round.
func (s *snapshot) poll(ctx context.Context) {
	var group errgroup.Group
	group.SetLimit(listing)
	room := s.fleet.limiter.Room(platform.Read)
	for i, k := range s.fleet.operations.due(s.keys(), s.now) {
		if i >= room {
			break
		}
		group.Go(func() error {
			if failed := s.fleet.poll(ctx, k, s.now); failed != nil {
				s.fleet.troubles.note(k, shortage(failed.Code, failed.Message), s.now)
			}
			return nil
		})
	}
	_ = group.Wait() // none answers an error
}

// readings answers what was read of every target.
func (s *snapshot) readings() map[targets.Ref]targets.Reading {
	answer := make(map[targets.Ref]targets.Reading, len(s.asked)+len(s.failed))
	for ref, err := range s.failed {
		answer[ref] = targets.Reading{Err: err, Observed: s.now}
	}
	for ref, k := range s.asked {
		reading, err := s.reading(k)
		if err != nil {
			reading = targets.Reading{Err: err, Observed: s.now}
		}
		answer[ref] = reading
	}
	return answer
}

// reading answers what was read of one scale set.
func (s *snapshot) reading(k key) (targets.Reading, error) {
	set, err := s.listing.of(k)
	if err != nil {
		return targets.Reading{}, err
	}
	if set == nil {
		s.fleet.members.forget(k)
		return targets.Reading{}, reasoned(ScaleSetNotFound, fmt.Errorf("%w: there is no scale set %q in resource group %q, or none that may be read", targets.ErrTargetNotFound, k.set, k.group))
	}
	if err := set.unscalable(); err != nil {
		return targets.Reading{}, err
	}
	members := s.members[k]
	if members == nil {
		return targets.Reading{}, fmt.Errorf("%w: the machines of scale set %q were not listed", targets.ErrTransient, k)
	}
	if members.err != nil {
		return targets.Reading{}, members.err
	}
	reading := targets.Reading{
		SpecReplicas: set.capacity, Min: new(int32), Max: set.highest(), Version: set.version(),
		Hold: s.fleet.hold(set, members.upgrade), Observed: s.now,
	}
	for _, m := range members.machines {
		if !m.member() {
			continue
		}
		known, ok := s.fleet.memory.Recall(m.id)
		if !ok {
			known = s.fleet.memory.Update(m.id, m.sighting(set.monitored), members.at)
		}
		instance, location := m.instance(known)
		if !instance.Deleting && instance.Phase != policy.PhaseFailed {
			reading.StatusReplicas++
		}
		reading.Instances = append(reading.Instances, instance)
		reading.Locations = append(reading.Locations, location)
	}
	reading.Notices = s.notices(set, members, reading.StatusReplicas)
	return reading, nil
}

// hold answers why a set's count must not be written now; nil when it may be.
// Upgrade is the rolling upgrade that is under way, in words.
func (f *Fleet) hold(s *scaleSet, upgrade string) *policy.Hold {
	if s.state == stateDeleting {
		return &policy.Hold{Reason: ScaleSetDeleting, Message: fmt.Sprintf("scale set %q is being deleted", s.key)}
	}
	if hold := f.autoscalers.hold(s.key); hold != nil {
		return hold
	}
	if upgrade != "" && f.config.WhileUpgrading == Hold {
		return &policy.Hold{Reason: RolloutInProgress, Message: upgrade}
	}
	if s.busy() && f.config.WhileUpdating == Hold && upgrade == "" {
		return &policy.Hold{
			Reason:  ScaleSetUpdating,
			Message: fmt.Sprintf(`azure still works on scale set %q (provisioning state %s); while_updating = "write" does not wait for that`, s.key, s.state),
		}
	}
	return nil
}

// notices answers what else Azure says of a set, so many of whose machines are
// there.
func (s *snapshot) notices(set *scaleSet, members *membership, there int32) []policy.Notice {
	short := there < set.capacity
	if failed := failedMachines(members.machines); failed != nil {
		return []policy.Notice{*failed}
	}
	told := s.fleet.troubles.notices(set.key, short, s.now)
	if told == nil && short && set.state == stateFailed {
		notice := shortage("", fmt.Sprintf("the last change of scale set %q failed, and %d of %d machines are there", set.key, there, set.capacity))
		return []policy.Notice{notice}
	}
	return told
}

// Problems answers what is wrong with the fleet and no call tells of.
func (f *Fleet) Problems() []string {
	var problems []string
	for _, problem := range []string{f.autoscalers.problem(), f.addresses.problem()} {
		if problem != "" {
			problems = append(problems, problem)
		}
	}
	if err := f.memory.Failure(); err != nil {
		problems = append(problems, "what is known of machines cannot be stored: "+err.Error())
	}
	return problems
}
