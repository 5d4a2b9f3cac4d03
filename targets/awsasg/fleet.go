package awsasg

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/arn"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"golang.org/x/sync/errgroup"

	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/cloud"
)

// Options are what a fleet is given besides its configuration.
type Options = cloud.Options

// How groups are described: by name, as many in a call as AWS takes, a few calls at
// once. More pages than there can be are garbled.
const (
	groupsPerCall   = 100
	describingCalls = 4
	pagesPerCall    = 10
)

// moreTimeout is how long a reading waits for what it can do without.
const moreTimeout = 3 * time.Second

// Fleet reads and scales the Auto Scaling groups of one account and region. It is
// safe for concurrent use.
type Fleet struct {
	base       targets.Base[string]
	config     *Config
	connection *connection
	memory     *cloud.Memory
	shortages  cloud.Shortages
	policies   cloud.Aside[policies]
	refreshes  refreshes
	// details are looked up into memory.
	details cloud.Aside[struct{}]
	written cloud.Written[string, change]
}

// New returns a fleet of that name, which connects when it is first read. The
// configuration is defaulted and valid, and is not modified.
func New(name string, config *Config, options Options) *Fleet {
	f := &Fleet{config: config, memory: cloud.NewMemory(options.Store), connection: newConnection(config, options)}
	f.base.Name, f.base.Parse = name, parseName
	return f
}

// Close gives up the connections, and the fleet's part in the limits of its account.
func (f *Fleet) Close() error {
	f.base.End()
	f.connection.Close()
	f.connection.groups.limiter.Close()
	f.connection.instances.limiter.Close()
	return nil
}

// heed makes the next call read the credentials again where the error of one shows that
// they were rejected.
func (f *Fleet) heed(s *session, err error) {
	if renewable(err) {
		f.connection.Forget(s)
	}
}

// Problems returns what readings do without, and why.
func (f *Fleet) Problems() []string {
	return targets.Sentences(
		targets.Trouble{Words: "scaling policies are not known", Err: f.policies.Failure()},
		targets.Trouble{Words: "start times and addresses of instances are not known", Err: f.details.Failure()},
		targets.Trouble{Words: "what is known of instances cannot be stored", Err: f.memory.Failure()},
	)
}

// Snapshot reads the given groups: one call for each hundred, and one for each
// hundred instances that are in service for the first time.
func (f *Fleet) Snapshot(ctx context.Context, refs []targets.Ref) (map[targets.Ref]targets.Reading, error) {
	return f.base.Snapshot(ctx, refs, f.snapshot)
}

func (f *Fleet) snapshot(ctx context.Context, wanted map[targets.Ref]string) (map[targets.Ref]targets.Reading, error) {
	session, err := f.connection.Client(ctx)
	if err != nil {
		return nil, err
	}
	if err := f.memory.Load(ctx, time.Now()); err != nil {
		return nil, err
	}
	described, err := f.describe(ctx, session, slices.Sorted(maps.Values(wanted)))
	if err != nil {
		return nil, err
	}
	learned := f.readMore(ctx, session, described)
	now := time.Now()
	readings := make(map[targets.Ref]targets.Reading, len(wanted))
	for ref, name := range wanted {
		readings[ref] = f.reading(name, described[name], learned, now)
	}
	f.memory.Save(ctx, now)
	return readings, nil
}

// readMore reads what readings can do without, for a moment at most: policies,
// refreshes, the reasons of shortages, and what there is to learn of instances, which it
// returns.
func (f *Fleet) readMore(ctx context.Context, s *session, described map[string]found) map[string]*detail {
	ctx, cancel := context.WithTimeout(ctx, moreTimeout)
	defer cancel()
	f.readPolicies(ctx, s)
	f.followRefreshes(ctx, s)
	f.explainShortages(ctx, s, described)
	return f.look(ctx, s, described)
}

// found is a group that was described, why it could not be, or neither where there is
// none.
type found struct {
	group *group
	err   error
}

// describe reads groups by their names. An error means that none could be read.
func (f *Fleet) describe(ctx context.Context, s *session, names []string) (map[string]found, error) {
	var mu sync.Mutex
	all := make(map[string]found, len(names))
	failed := 0
	var last error
	var calls errgroup.Group
	calls.SetLimit(describingCalls)
	for chunk := range slices.Chunk(names, groupsPerCall) {
		calls.Go(func() error {
			groups, err := f.describeChunk(ctx, s, chunk)
			mu.Lock()
			defer mu.Unlock()
			for _, name := range chunk {
				all[name] = found{group: groups[name], err: err}
			}
			if err != nil {
				failed += len(chunk)
				last = err
			}
			return nil
		})
	}
	_ = calls.Wait() // each group has its own error
	if failed == len(names) {
		return nil, last
	}
	return all, nil
}

func (f *Fleet) describeChunk(ctx context.Context, s *session, names []string) (map[string]*group, error) {
	groups := make(map[string]*group, len(names))
	pages := autoscaling.NewDescribeAutoScalingGroupsPaginator(s.groups, &autoscaling.DescribeAutoScalingGroupsInput{
		AutoScalingGroupNames: names, MaxRecords: aws.Int32(groupsPerCall),
	}, func(o *autoscaling.DescribeAutoScalingGroupsPaginatorOptions) { o.StopOnDuplicateToken = true })
	for read := 0; pages.HasMorePages(); read++ {
		if read == pagesPerCall {
			return nil, fmt.Errorf("%w: describe groups: %d groups in more than %d pages", targets.ErrTransient, len(names), pagesPerCall)
		}
		page, err := pages.NextPage(ctx)
		if err != nil {
			f.heed(s, err)
			return nil, f.describeError(ctx, err)
		}
		for _, one := range page.AutoScalingGroups {
			g := &group{AutoScalingGroup: one}
			if g.DesiredCapacity == nil || g.MinSize == nil || g.MaxSize == nil || g.desired() < 0 {
				return nil, fmt.Errorf("%w: describe groups: the answer has no sizes for group %q", targets.ErrTransient, g.name())
			}
			g.apply(f.written.Unseen(g.name(), g.version(), time.Now()))
			groups[g.name()] = g
		}
		f.learnOwner(page.AutoScalingGroups)
	}
	return groups, nil
}

// learnOwner learns from groups which account and region the calls are counted for.
func (f *Fleet) learnOwner(groups []types.AutoScalingGroup) {
	if len(groups) == 0 {
		return
	}
	if owner, err := arn.Parse(aws.ToString(groups[0].AutoScalingGroupARN)); err == nil { // else it stays unknown
		f.connection.groups.countWith(owner)
		f.connection.instances.countWith(owner)
	}
}

func (f *Fleet) describeError(ctx context.Context, err error) error {
	err = readError(err)
	if errors.Is(err, targets.ErrForbidden) {
		err = fmt.Errorf("%w; it takes autoscaling:DescribeAutoScalingGroups", err)
	}
	if ctx.Err() != nil && !errors.Is(err, ctx.Err()) {
		err = fmt.Errorf("%w: %w", err, ctx.Err())
	}
	return fmt.Errorf("describe groups: %w", err)
}
