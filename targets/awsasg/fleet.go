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
	cloud.Fleet[string, *group]
	config     *Config
	connection *connection
	policies   cloud.CachedDetail[policies]
}

// New returns a fleet, which connects on first use. The configuration must be valid and have its
// defaults set; New does not modify it.
func New(name string, config *Config, env targets.Env) *Fleet {
	f := &Fleet{config: config, connection: newConnection(config, env)}
	f.Name, f.Parse, f.Platform, f.Memory = name, parseName, f, cloud.NewMemory(env.Store)
	f.Noun, f.DeletesAtOnce, f.Limiter = "group", removalsPerCall, f.connection.groups.Limiter
	f.FactsProblem = "start times and addresses of instances are unknown"
	f.OnClose = f.connection.Close
	return f
}

// Problems returns sentences that describe the missing details and their causes.
func (f *Fleet) Problems() []string {
	native := targets.ProblemTexts(targets.MissingDetail{Text: "scaling policies are unknown", Err: f.policies.Failure()})
	return append(native, f.Fleet.Problems()...)
}

// List implements cloud.Platform with one call per 100 groups.
func (f *Fleet) List(ctx context.Context, names []string) (map[string]*cloud.Group[*group], error) {
	session, err := f.connection.Client(ctx)
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	chunks := slices.Collect(slices.Chunk(names, groupsPerCall))
	described, errs := make([]map[string]*group, len(chunks)), make([]error, len(chunks))
	var calls guard.Group
	calls.SetLimit(describingCalls)
	for i, chunk := range chunks {
		calls.Go(func() error {
			described[i], errs[i] = f.describe(ctx, session, chunk)
			return nil
		})
	}
	_ = calls.Wait() // errors are stored per chunk
	if len(errs) > 0 && !slices.Contains(errs, nil) {
		return nil, errs[0]
	}
	f.readPolicies(ctx, session)
	listed := make(map[string]*cloud.Group[*group], len(names))
	for i, chunk := range chunks {
		for _, name := range chunk {
			listed[name] = groupOf(name, described[i][name], errs[i])
		}
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

func (f *Fleet) describe(ctx context.Context, s *session, names []string) (map[string]*group, error) {
	groups := make(map[string]*group, len(names))
	pages := autoscaling.NewDescribeAutoScalingGroupsPaginator(s.groups, &autoscaling.DescribeAutoScalingGroupsInput{
		AutoScalingGroupNames: names, MaxRecords: aws.Int32(groupsPerCall),
	}, func(o *autoscaling.DescribeAutoScalingGroupsPaginatorOptions) { o.StopOnDuplicateToken = true })
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, f.connection.called(ctx, s, err)
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
func (f *Fleet) Members(context.Context, string, *cloud.Group[*group]) (*cloud.Listing, error) {
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

// Delete implements cloud.Platform. AWS rejects the whole call if one instance is already gone.
func (f *Fleet) Delete(ctx context.Context, name string, _ *cloud.Group[*group], ids []string) ([]string, error) {
	session, err := f.writable(ctx, name)
	if err != nil {
		return nil, err
	}
	input := &autoscaling.TerminateInstanceInAutoScalingGroupInput{ShouldDecrementDesiredCapacity: aws.Bool(true)}
	if len(ids) == 1 { // every compatible service supports this call
		input.InstanceId = &ids[0]
	} else {
		input.AutoScalingGroupName, input.InstanceIds = &name, ids
	}
	if _, err := session.groups.TerminateInstanceInAutoScalingGroup(ctx, input); err != nil {
		return nil, f.connection.called(ctx, session, err)
	}
	return ids, nil
}

// writable returns a session for a write, or the reason why the group must not be written. It
// checks only reasons that take additional calls.
func (f *Fleet) writable(ctx context.Context, name string) (*session, error) {
	session, err := f.connection.Client(ctx)
	if err != nil {
		return nil, err
	}
	if err := f.policiesUnknown(); err != nil && f.config.NativeAutoscaler == NativeHold {
		return nil, fmt.Errorf("read its scaling policies: %w", err)
	}
	if !f.config.HoldDuringRefresh {
		return session, nil
	}
	hold, err := f.refresh(ctx, session, name)
	if err != nil {
		return nil, fmt.Errorf("read its instance refreshes: %w", err)
	}
	if hold != nil {
		return nil, &targets.HeldError{Hold: *hold}
	}
	return session, nil
}

const noInstance = "i-00000000000000000"

// Check returns hpad's AWS identity, and its permissions for the groups that were read. The error
// lists the missing permissions and their groups. Check does not change the platform: it tries to
// scale to a count that no group can have, and to terminate an instance that does not exist.
func (f *Fleet) Check(ctx context.Context) ([]string, error) {
	return targets.CallUnlessClosed(ctx, &f.Base, "check", func(ctx context.Context) ([]string, error) {
		session, err := f.connection.Client(ctx)
		if err != nil {
			return nil, err
		}
		found, err := f.Fleet.Check(ctx, []string{f.whoami(ctx, session)}, func(map[string]*cloud.Group[*group]) []cloud.PermissionTest[string] { return f.tries(session) })
		return append(found, f.Problems()...), err
	})
}

func (f *Fleet) whoami(ctx context.Context, s *session) string {
	identity, err := s.identity.GetCallerIdentity(ctx, &sts.GetCallerIdentityInput{})
	if err != nil {
		return fmt.Sprintf("region %s; the account is unknown: %v", s.region, f.connection.called(ctx, s, err))
	}
	return fmt.Sprintf("uses %s in account %s, region %s", aws.ToString(identity.Arn), aws.ToString(identity.Account), s.region)
}

func (f *Fleet) tries(s *session) []cloud.PermissionTest[string] {
	called := func(ctx context.Context, err error) error { return f.connection.called(ctx, s, err) }
	tries := []cloud.PermissionTest[string]{
		{Permission: "autoscaling:DescribeAutoScalingGroups", All: func(ctx context.Context) error {
			_, err := s.groups.DescribeAutoScalingGroups(ctx, &autoscaling.DescribeAutoScalingGroupsInput{MaxRecords: aws.Int32(1)})
			return called(ctx, err)
		}},
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
		{Permission: "autoscaling:DescribeScalingActivities", Without: "the reasons for failed launches are unknown", All: func(ctx context.Context) error {
			_, err := s.groups.DescribeScalingActivities(ctx, &autoscaling.DescribeScalingActivitiesInput{MaxRecords: aws.Int32(1)})
			return called(ctx, err)
		}},
	}
	if f.config.NativeAutoscaler == NativeHold {
		tries = append(tries, cloud.PermissionTest[string]{Permission: "autoscaling:DescribePolicies", Without: "hpad cannot detect the groups' own scaling policies", All: func(ctx context.Context) error {
			_, err := s.groups.DescribePolicies(ctx, &autoscaling.DescribePoliciesInput{MaxRecords: aws.Int32(1)})
			return called(ctx, err)
		}})
	}
	if f.config.HoldDuringRefresh {
		tries = append(tries, cloud.PermissionTest[string]{Permission: "autoscaling:DescribeInstanceRefreshes", Each: func(ctx context.Context, group string) error {
			_, err := f.refresh(ctx, s, group)
			return err
		}})
	}
	if aws.ToBool(f.config.DescribeInstances) {
		tries = append(tries, cloud.PermissionTest[string]{Permission: "ec2:DescribeInstances", Without: "start times are the times of the first observation, and addresses are unknown", All: func(ctx context.Context) error {
			_, err := s.instances.DescribeInstances(ctx, &ec2.DescribeInstancesInput{MaxResults: aws.Int32(5)})
			return called(ctx, err)
		}})
	}
	return tries
}
