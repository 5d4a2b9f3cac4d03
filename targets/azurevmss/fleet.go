package azurevmss

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
	platform "github.com/hpad/hpad/targets/cloud"
)

// Options are what a fleet is given besides its configuration.
type Options = platform.Options

// Fleet reads and scales the virtual machine scale sets of one subscription. It is
// safe for concurrent use.
type Fleet struct {
	base        targets.Base[key]
	config      *Config
	connection  *platform.Connection[client]
	limiter     *platform.Limiter
	memory      *platform.Memory
	members     *members
	operations  *operations
	autoscalers autoscalers
	addresses   platform.Aside[struct{}]
	written     platform.Written[key, change]
	troubles    troubles
}

// New returns a fleet of that name, which connects when it is first read. The
// configuration is defaulted and valid, and is not modified.
func New(name string, config *Config, options Options) *Fleet {
	f := &Fleet{
		config: config, connection: newConnection(config),
		limiter:    options.Accounts.Limiter(config.account(), config.limits(), options.Meter),
		memory:     platform.NewMemory(options.Store),
		members:    newMembers(),
		operations: newOperations(options.Store),
	}
	f.base.Name, f.base.Place, f.base.Parse = name, " at "+config.address(), keyOf
	return f
}

// Close gives up the connections, and the fleet's part in the limits of its
// subscription.
func (f *Fleet) Close() error {
	f.base.End()
	f.connection.Close()
	f.limiter.Close()
	return nil
}

// Snapshot reads the given scale sets: one list of the sets, or one for each of a
// few resource groups, and the machines of those sets that are due.
func (f *Fleet) Snapshot(ctx context.Context, refs []targets.Ref) (map[targets.Ref]targets.Reading, error) {
	err := f.memory.Load(ctx, time.Now())
	if err == nil {
		err = f.operations.load(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("read fleet %q%s: %w", f.base.Name, f.base.Place, err)
	}
	return f.base.Snapshot(ctx, refs, f.snapshot)
}

func (f *Fleet) snapshot(ctx context.Context, refs map[targets.Ref]key) (map[targets.Ref]targets.Reading, error) {
	s := &snapshot{fleet: f, wanted: make(map[key]bool, len(refs)), now: time.Now()}
	for _, k := range refs {
		s.wanted[k] = true
	}
	if err := s.list(ctx); err != nil {
		return nil, err
	}
	s.poll(ctx)
	readings := make(map[targets.Ref]targets.Reading, len(refs))
	for ref, k := range refs {
		reading, err := s.reading(k)
		if err != nil {
			reading = targets.Reading{Err: err}
		}
		readings[ref] = reading
	}
	f.memory.Save(ctx, s.now)
	return readings, nil
}

// snapshot is one reading of scale sets under way.
type snapshot struct {
	fleet   *Fleet
	wanted  map[key]bool
	listing *setsListing
	members map[key]*membership
	now     time.Time
}

// list reads the sets, the settings of the platform's own autoscaler, and the
// machines of the sets that are due. An error means that no set could be read.
func (s *snapshot) list(ctx context.Context) error {
	scopes := s.fleet.config.scopes(s.wanted)
	var group errgroup.Group
	group.Go(func() error {
		s.listing = s.fleet.listSets(ctx, scopes, s.wanted)
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
		s.fleet.applyUnseen(set)
		if set.unscalable() == nil {
			due[k] = set
		}
	}
	s.members = s.fleet.listMembers(ctx, due, s.now)
	return nil
}

// applyUnseen makes a set that was read what the last changes made of it that Azure
// does not show yet.
func (f *Fleet) applyUnseen(s *scaleSet) { s.apply(f.written.Unseen(s.key, s.version(), time.Now())) }

// poll reads what became of accepted changes, a few in each round.
func (s *snapshot) poll(ctx context.Context) {
	var group errgroup.Group
	group.SetLimit(listing)
	most := s.fleet.limiter.Room(platform.Read)
	for i, k := range s.fleet.operations.due(s.wanted, s.now) {
		if i >= most {
			break
		}
		group.Go(func() error {
			if failed := s.fleet.poll(ctx, k, s.now); failed != nil {
				s.fleet.troubles.record(k, shortage(failed.Code, failed.Message), s.now)
			}
			return nil
		})
	}
	_ = group.Wait() // no call of it fails the reading
}

// reading returns what was read of one scale set.
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
	var locations targets.LocationList
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
		locations = append(locations, location)
	}
	reading.Locations = locations
	reading.Notices = s.notices(set, members, reading.StatusReplicas)
	return reading, nil
}

// hold returns why a set's count must not be written now; nil when it may be.
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

// notices returns what else Azure says of a set, so many of whose machines are
// there.
func (s *snapshot) notices(set *scaleSet, members *membership, there int32) []policy.Notice {
	short := there < set.capacity
	if failed := failedMachines(members.machines); failed != nil {
		return []policy.Notice{*failed}
	}
	known := s.fleet.troubles.Notices(set.key, short, s.now)
	if known == nil && short && set.state == stateFailed {
		notice := shortage("", fmt.Sprintf("the last change of scale set %q failed, and %d of %d machines are there", set.key, there, set.capacity))
		return []policy.Notice{notice}
	}
	return known
}

// Problems returns what is wrong with the fleet and no call shows.
func (f *Fleet) Problems() []string {
	return targets.Sentences(
		targets.Trouble{Words: "it is not known which scale sets have an autoscale setting of their own (Microsoft.Insights/autoscaleSettings/read)", Err: f.autoscalers.failure()},
		targets.Trouble{Words: `addresses of machines are not known, so that no series finds one by match = "address" (addresses = "none" leaves them out)`, Err: f.addresses.Failure()},
		targets.Trouble{Words: "what is known of machines cannot be stored", Err: f.memory.Failure()},
	)
}
