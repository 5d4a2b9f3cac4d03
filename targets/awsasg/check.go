package awsasg

import (
	"context"
	"fmt"
	"math"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/sts"

	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/cloud"
)

// nobody is an instance that no group has.
const nobody = "i-00000000000000000"

// Check returns the identity of hpad at AWS, and its permissions for the groups that were
// read. The error has the missing permissions and the groups. Nothing is changed: the
// permission to scale is tried with a count that no group can have, the permission to
// terminate with an instance that does not exist.
func (f *Fleet) Check(ctx context.Context) ([]string, error) {
	return targets.Ask(ctx, &f.Base, "check", func(ctx context.Context) ([]string, error) {
		session, err := f.connection.Client(ctx)
		if err != nil {
			return nil, err
		}
		found, err := f.Fleet.Check(ctx, []string{f.whoami(ctx, session)}, func(map[string]*cloud.Group[*group]) []cloud.Try[string] { return f.tries(session) })
		return append(found, f.Problems()...), err
	})
}

// whoami returns the account and the user or role in a sentence.
func (f *Fleet) whoami(ctx context.Context, s *session) string {
	identity, err := s.identity.GetCallerIdentity(ctx, &sts.GetCallerIdentityInput{})
	if err != nil {
		return fmt.Sprintf("region %s; the account is not known: %v", s.region, f.connection.called(ctx, s, err))
	}
	return fmt.Sprintf("is %s in account %s, region %s", aws.ToString(identity.Arn), aws.ToString(identity.Account), s.region)
}

func (f *Fleet) tries(s *session) []cloud.Try[string] {
	called := func(ctx context.Context, err error) error { return f.connection.called(ctx, s, err) }
	tries := []cloud.Try[string]{
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
		{Permission: "autoscaling:TerminateInstanceInAutoScalingGroup", Without: "it cannot choose victims", Each: func(ctx context.Context, group string) error {
			_, err := s.groups.TerminateInstanceInAutoScalingGroup(ctx, &autoscaling.TerminateInstanceInAutoScalingGroupInput{
				AutoScalingGroupName: &group, InstanceIds: []string{nobody}, ShouldDecrementDesiredCapacity: aws.Bool(true),
			})
			return called(ctx, err)
		}},
		{Permission: "autoscaling:DescribeScalingActivities", Without: "the reasons of failed launches are not known", All: func(ctx context.Context) error {
			_, err := s.groups.DescribeScalingActivities(ctx, &autoscaling.DescribeScalingActivitiesInput{MaxRecords: aws.Int32(1)})
			return called(ctx, err)
		}},
	}
	if f.config.NativeAutoscaler == NativeHold {
		tries = append(tries, cloud.Try[string]{Permission: "autoscaling:DescribePolicies", Without: "it does not see scaling policies of the groups' own", All: func(ctx context.Context) error {
			_, err := s.groups.DescribePolicies(ctx, &autoscaling.DescribePoliciesInput{MaxRecords: aws.Int32(1)})
			return called(ctx, err)
		}})
	}
	if f.config.HoldDuringRefresh {
		tries = append(tries, cloud.Try[string]{Permission: "autoscaling:DescribeInstanceRefreshes", Each: func(ctx context.Context, group string) error {
			_, err := f.refresh(ctx, s, group)
			return err
		}})
	}
	if aws.ToBool(f.config.DescribeInstances) {
		tries = append(tries, cloud.Try[string]{Permission: "ec2:DescribeInstances", Without: "start times count from when an instance is first seen, and addresses are not known", All: func(ctx context.Context) error {
			_, err := s.instances.DescribeInstances(ctx, &ec2.DescribeInstancesInput{MaxResults: aws.Int32(5)})
			return called(ctx, err)
		}})
	}
	return tries
}
