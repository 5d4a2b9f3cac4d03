package awsasg

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/sts"

	"github.com/hpad/hpad/guard"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/cloud"
)

const (
	// groupsPerCall is AWS's limit for the number of groups in a call. describingCalls limits the
	// concurrent calls.
	groupsPerCall   = 100
	describingCalls = 4
	// removalsPerCall is AWS's limit for the number of instances in a call.
	removalsPerCall = 100
	// policiesTimeout is the time limit for reading scaling policies.
	policiesTimeout = 3 * time.Second
)

// Fleet reads and scales the Auto Scaling groups of one account and region. It is
// safe for concurrent use.
type Fleet struct {
	cloud.Fleet[string, *group, session]
	config   *Config
	policies cloud.CachedDetail[policies]
}

// New returns a fleet, which connects on first use. The configuration must be valid and have its
// defaults set; New does not modify it.
func New(name string, config *Config, env targets.Env) *Fleet {
	groups := newService(config, env)
	f := &Fleet{config: config}
	f.Make = func(ctx context.Context) (*session, error) {
		return newSession(ctx, config, groups, newService(config, env))
	}
	f.Drop = func(old *session) { old.client.CloseIdleConnections() }
	f.Name, f.Parse, f.Platform, f.Memory = name, parseName, f, cloud.NewMemory(env.Store)
	f.Noun, f.DeletesAtOnce, f.Limiter = "group", removalsPerCall, groups.Limiter
	f.FactsProblem = "start times and addresses of instances are unknown"
	f.Missing = func() targets.MissingDetail {
		return targets.MissingDetail{Text: "scaling policies are unknown", Err: f.policies.Failure()}
	}
	return f
}

// List implements cloud.Platform with one call per 100 groups.
func (f *Fleet) List(ctx context.Context, s *session, names []string) (map[string]*cloud.Group[*group], error) {
	slices.Sort(names)
	chunks := slices.Collect(slices.Chunk(names, groupsPerCall))
	described := make([]map[string]*group, len(chunks))
	errs := guard.Each(describingCalls, chunks, func(i int, chunk []string) (err error) {
		described[i], err = describe(ctx, s, chunk)
		return err
	})
	if len(errs) > 0 && !slices.Contains(errs, nil) {
		return nil, errs[0]
	}
	f.readPolicies(ctx, s)
	listed := make(map[string]*cloud.Group[*group], len(names))
	for i, chunk := range chunks {
		for _, name := range chunk {
			listed[name] = groupOf(name, described[i][name], errs[i])
		}
	}
	return listed, nil
}

// Get implements cloud.Platform.
func (f *Fleet) Get(ctx context.Context, s *session, name string) (*cloud.Group[*group], error) {
	groups, err := describe(ctx, s, []string{name})
	if err != nil {
		return nil, err
	}
	return groupOf(name, groups[name], nil), nil
}

func describe(ctx context.Context, s *session, names []string) (map[string]*group, error) {
	groups := make(map[string]*group, len(names))
	pages := autoscaling.NewDescribeAutoScalingGroupsPaginator(s.groups, &autoscaling.DescribeAutoScalingGroupsInput{
		AutoScalingGroupNames: names, MaxRecords: aws.Int32(groupsPerCall),
	}, func(o *autoscaling.DescribeAutoScalingGroupsPaginatorOptions) { o.StopOnDuplicateToken = true })
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, called(ctx, err)
		}
		for _, one := range page.AutoScalingGroups {
			g := &group{AutoScalingGroup: one}
			if g.DesiredCapacity == nil || g.MinSize == nil || g.MaxSize == nil || g.desired() < 0 {
				return nil, fmt.Errorf("%w: describe groups: the response contains no sizes for group %q", targets.ErrTransient, g.name())
			}
			groups[g.name()] = g
		}
	}
	return groups, nil
}

// Members implements cloud.Platform. It is not called, because AWS describes instances together
// with their group.
func (f *Fleet) Members(context.Context, *session, string, *cloud.Group[*group]) (*cloud.Listing, error) {
	return &cloud.Listing{}, nil
}

// Hold implements cloud.Platform.
func (f *Fleet) Hold(_ string, g *cloud.Group[*group], _ *cloud.Listing) *policy.Hold {
	if hold := g.Native.deleting(); hold != nil {
		return hold
	}
	known, _ := f.policies.Value() // empty if scaling policies are ignored
	return known.hold(g.Native)
}

// Resize implements cloud.Platform. It ignores the group's cooldown.
func (f *Fleet) Resize(ctx context.Context, s *session, name string, _ *cloud.Group[*group], size int32) (string, error) {
	if err := f.writable(ctx, s, name); err != nil {
		return "", err
	}
	_, err := s.groups.SetDesiredCapacity(ctx, &autoscaling.SetDesiredCapacityInput{
		AutoScalingGroupName: &name, DesiredCapacity: &size, HonorCooldown: aws.Bool(false),
	})
	return "", called(ctx, err)
}

// Delete implements cloud.Platform. AWS rejects the whole call if one instance is already gone.
func (f *Fleet) Delete(ctx context.Context, s *session, name string, _ *cloud.Group[*group], ids []string) ([]string, error) {
	if err := f.writable(ctx, s, name); err != nil {
		return nil, err
	}
	input := &autoscaling.TerminateInstanceInAutoScalingGroupInput{ShouldDecrementDesiredCapacity: aws.Bool(true)}
	if len(ids) == 1 { // every compatible service supports this call
		input.InstanceId = &ids[0]
	} else {
		input.AutoScalingGroupName, input.InstanceIds = &name, ids
	}
	if _, err := s.groups.TerminateInstanceInAutoScalingGroup(ctx, input); err != nil {
		return nil, called(ctx, err)
	}
	return ids, nil
}

// writable returns the reason why the group must not be written. It checks only reasons that take
// additional calls.
func (f *Fleet) writable(ctx context.Context, s *session, name string) error {
	if err := f.policiesUnknown(); err != nil && f.config.NativeAutoscaler == nativeHold {
		return fmt.Errorf("read its scaling policies: %w", err)
	}
	if !f.config.HoldDuringRefresh {
		return nil
	}
	hold, err := refresh(ctx, s, name)
	if err != nil {
		return fmt.Errorf("read its instance refreshes: %w", err)
	}
	if hold != nil {
		return &targets.HeldError{Hold: *hold}
	}
	return nil
}

const noInstance = "i-00000000000000000"

// Tests implements cloud.Platform. It tries to scale to a count that no group can have, and to
// terminate an instance that does not exist.
func (f *Fleet) Tests(ctx context.Context, s *session, _ map[string]*cloud.Group[*group]) (string, []cloud.PermissionTest[string]) {
	tries := []cloud.PermissionTest[string]{
		{Permission: "autoscaling:DescribeAutoScalingGroups", All: probe(s.groups.DescribeAutoScalingGroups, &autoscaling.DescribeAutoScalingGroupsInput{MaxRecords: aws.Int32(1)})},
		{Permission: "autoscaling:SetDesiredCapacity", Each: func(ctx context.Context, group string) error {
			_, err := s.groups.SetDesiredCapacity(ctx, &autoscaling.SetDesiredCapacityInput{
				AutoScalingGroupName: &group, DesiredCapacity: aws.Int32(math.MaxInt32), HonorCooldown: aws.Bool(false),
			})
			return called(ctx, err)
		}},
		{Permission: "autoscaling:TerminateInstanceInAutoScalingGroup", Without: "hpad cannot choose victims", Each: func(ctx context.Context, group string) error {
			_, err := s.groups.TerminateInstanceInAutoScalingGroup(ctx, &autoscaling.TerminateInstanceInAutoScalingGroupInput{
				AutoScalingGroupName: &group, InstanceIds: []string{noInstance}, ShouldDecrementDesiredCapacity: aws.Bool(true),
			})
			return called(ctx, err)
		}},
		{Permission: "autoscaling:DescribeScalingActivities", Without: "the reasons for failed launches are unknown", All: probe(s.groups.DescribeScalingActivities, &autoscaling.DescribeScalingActivitiesInput{MaxRecords: aws.Int32(1)})},
	}
	if f.config.NativeAutoscaler == nativeHold {
		tries = append(tries, cloud.PermissionTest[string]{Permission: "autoscaling:DescribePolicies", Without: "hpad cannot detect the groups' own scaling policies", All: probe(s.groups.DescribePolicies, &autoscaling.DescribePoliciesInput{MaxRecords: aws.Int32(1)})})
	}
	if f.config.HoldDuringRefresh {
		tries = append(tries, cloud.PermissionTest[string]{Permission: "autoscaling:DescribeInstanceRefreshes", Each: func(ctx context.Context, group string) error {
			_, err := refresh(ctx, s, group)
			return err
		}})
	}
	if aws.ToBool(f.config.DescribeInstances) {
		tries = append(tries, cloud.PermissionTest[string]{Permission: "ec2:DescribeInstances", Without: "start times are the times of the first observation, and addresses are unknown", All: probe(s.instances, &ec2.DescribeInstancesInput{MaxResults: aws.Int32(5)})})
	}
	return whoami(ctx, s), tries
}

func probe[I, O, P any](call func(context.Context, *I, ...func(*P)) (*O, error), input *I) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := call(ctx, input)
		return called(ctx, err)
	}
}

func whoami(ctx context.Context, s *session) string {
	identity, err := s.identity.GetCallerIdentity(ctx, &sts.GetCallerIdentityInput{})
	if err != nil {
		return fmt.Sprintf("region %s; the account is unknown: %v", s.region, called(ctx, err))
	}
	return fmt.Sprintf("uses %s in account %s, region %s", aws.ToString(identity.Arn), aws.ToString(identity.Account), s.region)
}
