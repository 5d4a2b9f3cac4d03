package awsasg

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/sts"

	"github.com/hpad/hpad/targets"
)

// nobody is an instance that no group has.
const nobody = "i-00000000000000000"

// Check returns whom AWS takes hpad for, and what it may do with the groups that were
// read. The error names the permissions that are missing, and the groups. Nothing is
// changed: the right to scale is tried with a count that no group can have, the right
// to terminate with an instance that does not exist.
func (f *Fleet) Check(ctx context.Context) ([]string, error) {
	return targets.Ask(ctx, &f.base, "check", f.check)
}

func (f *Fleet) check(ctx context.Context) ([]string, error) {
	session, err := f.connection.Client(ctx)
	if err != nil {
		return nil, err
	}
	found := []string{f.whoami(ctx, session)}
	var missing []error
	for _, try := range f.tries(session) {
		lacking, err := f.try(ctx, try)
		switch {
		case err != nil:
			return found, fmt.Errorf("try %s: %w", try.action, err)
		case len(lacking) == 0:
			found = append(found, "may "+try.action)
		case try.required:
			missing = append(missing, fmt.Errorf("%w: %s is missing%s", targets.ErrForbidden, try.action, ofGroups(lacking)))
		default:
			found = append(found, "may not "+try.action+ofGroups(lacking)+", so "+try.without)
		}
	}
	return append(found, f.Problems()...), errors.Join(missing...)
}

// whoami returns the account and the user or role in a sentence.
func (f *Fleet) whoami(ctx context.Context, s *session) string {
	identity, err := s.identity.GetCallerIdentity(ctx, &sts.GetCallerIdentityInput{})
	if err != nil {
		return fmt.Sprintf("region %s; the account is not known: %v", s.region, readError(err))
	}
	return fmt.Sprintf("is %s in account %s, region %s", aws.ToString(identity.Arn), aws.ToString(identity.Account), s.region)
}

// try is one permission to be tried.
type try struct {
	action string
	// each tries it for each group, else it is tried once for all.
	each     bool
	required bool
	// without is what is different without it, in words.
	without string
	call    func(ctx context.Context, group string) error
}

func (f *Fleet) tries(s *session) []try {
	tries := []try{
		{"autoscaling:DescribeAutoScalingGroups", false, true, "", func(ctx context.Context, _ string) error {
			_, err := s.groups.DescribeAutoScalingGroups(ctx, &autoscaling.DescribeAutoScalingGroupsInput{MaxRecords: aws.Int32(1)})
			return err
		}},
		{"autoscaling:SetDesiredCapacity", true, true, "", func(ctx context.Context, group string) error {
			_, err := s.groups.SetDesiredCapacity(ctx, &autoscaling.SetDesiredCapacityInput{
				AutoScalingGroupName: &group, DesiredCapacity: aws.Int32(math.MaxInt32), HonorCooldown: aws.Bool(false),
			}, writing)
			return err
		}},
		{"autoscaling:TerminateInstanceInAutoScalingGroup", true, false, "it cannot choose victims", func(ctx context.Context, group string) error {
			_, err := s.groups.TerminateInstanceInAutoScalingGroup(ctx, &autoscaling.TerminateInstanceInAutoScalingGroupInput{
				AutoScalingGroupName: &group, InstanceIds: []string{nobody}, ShouldDecrementDesiredCapacity: aws.Bool(true),
			}, writing)
			return err
		}},
		{"autoscaling:DescribeScalingActivities", false, false, "it cannot tell why launches fail", func(ctx context.Context, _ string) error {
			_, err := s.groups.DescribeScalingActivities(ctx, &autoscaling.DescribeScalingActivitiesInput{MaxRecords: aws.Int32(1)})
			return err
		}},
	}
	if f.config.NativeAutoscaler == NativeHold {
		tries = append(tries, try{"autoscaling:DescribePolicies", false, false, "it does not see scaling policies of the groups' own", func(ctx context.Context, _ string) error {
			_, err := s.groups.DescribePolicies(ctx, &autoscaling.DescribePoliciesInput{MaxRecords: aws.Int32(1)})
			return err
		}})
	}
	if f.config.HoldDuringRefresh {
		tries = append(tries, try{"autoscaling:DescribeInstanceRefreshes", true, true, "", func(ctx context.Context, group string) error {
			_, err := f.checkRefresh(ctx, s, group)
			return err
		}})
	}
	if aws.ToBool(f.config.DescribeInstances) {
		tries = append(tries, try{"ec2:DescribeInstances", false, false, "start times count from when an instance is first seen, and addresses are not known", func(ctx context.Context, _ string) error {
			_, err := s.instances.DescribeInstances(ctx, &ec2.DescribeInstancesInput{MaxResults: aws.Int32(5)})
			return err
		}})
	}
	return tries
}

// try returns the groups for which a permission is missing, an empty name for all of
// them. An error means that it could not be tried.
func (f *Fleet) try(ctx context.Context, t try) ([]string, error) {
	groups := []string{""}
	if t.each {
		groups = slices.Sorted(slices.Values(f.base.Known()))
	}
	var lacking []string
	for _, group := range groups {
		err := t.call(ctx, group)
		answer := answerOf(err)
		class := readError(err)
		switch {
		case errors.Is(class, targets.ErrForbidden) && !renewable(err):
			lacking = append(lacking, group)
		case err == nil, answer != nil && answer.Status < http.StatusInternalServerError && !errors.Is(class, targets.ErrThrottled) && !renewable(err):
		default:
			return nil, class
		}
	}
	return lacking, nil
}

// ofGroups returns the names of groups as part of a sentence.
func ofGroups(names []string) string {
	const most = 10
	if len(names) == 1 && names[0] == "" {
		return ""
	}
	quoted := make([]string, 0, most)
	for _, name := range names[:min(most, len(names))] {
		quoted = append(quoted, fmt.Sprintf("%q", name))
	}
	text := " for " + strings.Join(quoted, ", ")
	if len(names) > most {
		text += fmt.Sprintf(" and %d more", len(names)-most)
	}
	return text
}
