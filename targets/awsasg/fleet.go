package awsasg

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"golang.org/x/sync/errgroup"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/cloud"
)

const (
	// groupsPerCall is the most groups that AWS describes in a call, and describingCalls
	// the calls in progress.
	groupsPerCall   = 100
	describingCalls = 4
	// pagesPerCall bounds the pages of one description: more of them are garbled.
	pagesPerCall = 10
	// removalsPerCall is the most instances that AWS terminates in a call.
	removalsPerCall = 100
	// policiesTimeout is how long a reading waits for scaling policies.
	policiesTimeout = 3 * time.Second
)

// Fleet reads and scales the Auto Scaling groups of one account and region. It is
// safe for concurrent use.
type Fleet struct {
	cloud.Fleet[string, *group]
	config     *Config
	connection *connection
	policies   cloud.Aside[policies]
}

// New returns a fleet of that name, which connects when it is first read. The
// configuration is defaulted and valid, and is not modified.
func New(name string, config *Config, env targets.Env) *Fleet {
	f := &Fleet{config: config, connection: newConnection(config, env.Meter)}
	f.Name, f.Parse, f.Platform, f.Memory = name, parseName, f, cloud.NewMemory(env.Store)
	f.Noun, f.DeletesAtOnce, f.Limiter = "group", removalsPerCall, f.connection.groups.Limiter
	f.FactsProblem = "start times and addresses of instances are not known"
	f.OnClose = f.connection.Close
	return f
}

// Problems returns the details that readings lack, and the reasons.
func (f *Fleet) Problems() []string {
	native := targets.Sentences(targets.Trouble{Words: "scaling policies are not known", Err: f.policies.Failure()})
	return append(native, f.Fleet.Problems()...)
}

// List implements cloud.Platform: one call for each hundred groups.
func (f *Fleet) List(ctx context.Context, names []string) (map[string]*cloud.Group[*group], error) {
	session, err := f.connection.Client(ctx)
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	var mu sync.Mutex
	all := make(map[string]*group, len(names))
	errs := map[string]error{}
	var last error
	var calls errgroup.Group
	calls.SetLimit(describingCalls)
	for chunk := range slices.Chunk(names, groupsPerCall) {
		calls.Go(func() error {
			groups, err := f.describe(ctx, session, chunk)
			mu.Lock()
			defer mu.Unlock()
			for _, name := range chunk {
				if all[name] = groups[name]; err != nil {
					errs[name], last = err, err
				}
			}
			return nil
		})
	}
	_ = calls.Wait() // each group has its own error
	if len(errs) == len(all) {
		return nil, last
	}
	f.readPolicies(ctx, session)
	listed := make(map[string]*cloud.Group[*group], len(names))
	for name, g := range all {
		listed[name] = groupOf(name, g, errs[name])
	}
	return listed, nil
}

// Get implements cloud.Platform.
func (f *Fleet) Get(ctx context.Context, name string) (*cloud.Group[*group], error) {
	session, err := f.connection.Client(ctx)
	if err != nil {
		return nil, err
	}
	groups, err := f.describe(ctx, session, []string{name})
	if err != nil {
		return nil, err
	}
	return groupOf(name, groups[name], nil), nil
}

// describe reads groups by their names.
func (f *Fleet) describe(ctx context.Context, s *session, names []string) (map[string]*group, error) {
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
			return nil, f.connection.called(ctx, s, err)
		}
		for _, one := range page.AutoScalingGroups {
			g := &group{AutoScalingGroup: one}
			f.forgetWarmed(g)
			if g.DesiredCapacity == nil || g.MinSize == nil || g.MaxSize == nil || g.desired() < 0 {
				return nil, fmt.Errorf("%w: describe groups: the answer has no sizes for group %q", targets.ErrTransient, g.name())
			}
			groups[g.name()] = g
		}
	}
	return groups, nil
}

// forgetWarmed forgets instances in the warm pool, which start again later.
func (f *Fleet) forgetWarmed(g *group) {
	for _, i := range g.Instances {
		if strings.HasPrefix(string(i.LifecycleState), "Warmed") {
			f.Memory.Forget(aws.ToString(i.InstanceId))
		}
	}
}

// Members implements cloud.Platform: it is not called, since AWS describes instances
// together with their group.
func (f *Fleet) Members(context.Context, string, *cloud.Group[*group]) (*cloud.Listing, error) {
	return &cloud.Listing{}, nil
}

// Hold implements cloud.Platform.
func (f *Fleet) Hold(_ string, g *cloud.Group[*group], _ *cloud.Listing) *policy.Hold {
	if hold := g.Native.deleting(); hold != nil {
		return hold
	}
	known, _ := f.policies.Value() // none if they do not matter
	return known.hold(g.Native)
}

// Resize implements cloud.Platform: it ignores the group's cooldown.
func (f *Fleet) Resize(ctx context.Context, name string, _ *cloud.Group[*group], size int32) (string, error) {
	session, err := f.writable(ctx, name)
	if err != nil {
		return "", err
	}
	_, err = session.groups.SetDesiredCapacity(ctx, &autoscaling.SetDesiredCapacityInput{
		AutoScalingGroupName: &name, DesiredCapacity: &size, HonorCooldown: aws.Bool(false),
	})
	return "", f.connection.called(ctx, session, err)
}

// Delete implements cloud.Platform. If one instance is gone meanwhile, AWS rejects the
// call for all of them; the next reading does not have it any more.
func (f *Fleet) Delete(ctx context.Context, name string, _ *cloud.Group[*group], ids []string) ([]string, error) {
	session, err := f.writable(ctx, name)
	if err != nil {
		return nil, err
	}
	input := &autoscaling.TerminateInstanceInAutoScalingGroupInput{ShouldDecrementDesiredCapacity: aws.Bool(true)}
	if len(ids) == 1 { // the form that every compatible service has
		input.InstanceId = &ids[0]
	} else {
		input.AutoScalingGroupName, input.InstanceIds = &name, ids
	}
	if _, err := session.groups.TerminateInstanceInAutoScalingGroup(ctx, input); err != nil {
		return nil, f.connection.called(ctx, session, err)
	}
	return ids, nil
}

// writable returns a session for a write, or the reason not to write a group now that
// only calls find out.
func (f *Fleet) writable(ctx context.Context, name string) (*session, error) {
	session, err := f.connection.Client(ctx)
	if err != nil {
		return nil, err
	}
	if err := f.policiesUnknown(); err != nil && f.config.NativeAutoscaler == NativeHold {
		return nil, fmt.Errorf("see whether it has scaling policies of its own: %w", err)
	}
	if !f.config.HoldDuringRefresh {
		return session, nil
	}
	hold, err := f.refresh(ctx, session, name)
	if err != nil {
		return nil, fmt.Errorf("see whether its instances are being refreshed: %w", err)
	}
	if hold != nil {
		return nil, &targets.HeldError{Hold: *hold}
	}
	return session, nil
}
