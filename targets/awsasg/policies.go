package awsasg

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/cloud"
)

// The types of scaling policies.
const (
	typeTargetTracking = "TargetTrackingScaling"
	typeStep           = "StepScaling"
	typeSimple         = "SimpleScaling"
	typePredictive     = "PredictiveScaling"
)

// policiesPerCall is AWS's limit for the number of policies in a call.
const policiesPerCall = 100

// policies maps groups to the name of one of their active scaling policies, by policy type.
type policies struct{ alarmed, predictive map[string]string }

// readPolicies reads the region's scaling policies at an interval. If the permission is missing,
// groups are assumed to have no policies.
func (f *Fleet) readPolicies(ctx context.Context, s *session) {
	if f.config.NativeAutoscaler == nativeHold {
		ctx, cancel := context.WithTimeout(ctx, policiesTimeout)
		defer cancel()
		f.policies.Refresh(f.config.CheckInterval, func() (policies, error) { return listPolicies(ctx, s) })
	}
}

func listPolicies(ctx context.Context, s *session) (policies, error) {
	found := policies{alarmed: map[string]string{}, predictive: map[string]string{}}
	pages := autoscaling.NewDescribePoliciesPaginator(s.groups, &autoscaling.DescribePoliciesInput{
		MaxRecords: aws.Int32(policiesPerCall),
	}, func(o *autoscaling.DescribePoliciesPaginatorOptions) { o.StopOnDuplicateToken = true })
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return found, called(ctx, err)
		}
		for _, one := range page.ScalingPolicies {
			switch name := aws.ToString(one.AutoScalingGroupName); {
			case !changes(&one):
			case aws.ToString(one.PolicyType) == typePredictive:
				found.predictive[name] = describePolicy(&one)
			default:
				found.alarmed[name] = describePolicy(&one)
			}
		}
	}
	return found, nil
}

func describePolicy(p *types.ScalingPolicy) string {
	return fmt.Sprintf("%q (%s)", aws.ToString(p.PolicyName), aws.ToString(p.PolicyType))
}

// changes reports whether a policy changes the count automatically.
func changes(p *types.ScalingPolicy) bool {
	if p.Enabled != nil && !*p.Enabled {
		return false
	}
	switch aws.ToString(p.PolicyType) {
	case typeTargetTracking:
		return true
	case typePredictive:
		return p.PredictiveScalingConfiguration != nil && p.PredictiveScalingConfiguration.Mode == types.PredictiveScalingModeForecastAndScale
	case typeStep, typeSimple:
		return len(p.Alarms) > 0 // without an alarm, the policy must be executed manually
	}
	return false
}

func (p policies) hold(g *group) *policy.Hold {
	name := p.predictive[g.name()]
	if name == "" && !g.suspended(processAlarms) {
		name = p.alarmed[g.name()]
	}
	if name == "" {
		return nil
	}
	return &policy.Hold{Reason: cloud.NativeAutoscaler, Message: fmt.Sprintf(
		"scaling policy %s also changes the count of group %q: delete or disable it, or set native_autoscaler = %q", name, g.name(), nativeIgnore)}
}

// policiesUnknown returns an error if policies have never been read successfully; nil if the
// permission is missing.
func (f *Fleet) policiesUnknown() error {
	err := f.policies.Failure()
	if _, known := f.policies.Value(); known || errors.Is(err, targets.ErrForbidden) {
		return nil
	}
	return err
}

// refresh returns the hold for a group during an instance refresh, or nil. It makes one call per
// group, so it is called only before a write.
func refresh(ctx context.Context, s *session, name string) (*policy.Hold, error) {
	found, err := s.groups.DescribeInstanceRefreshes(ctx, &autoscaling.DescribeInstanceRefreshesInput{
		AutoScalingGroupName: &name, MaxRecords: aws.Int32(1), // the newest
	})
	if err != nil {
		return nil, called(ctx, err)
	}
	for _, one := range found.InstanceRefreshes {
		switch one.Status {
		case types.InstanceRefreshStatusPending, types.InstanceRefreshStatusInProgress, types.InstanceRefreshStatusCancelling,
			types.InstanceRefreshStatusRollbackInProgress, types.InstanceRefreshStatusBaking:
			return &policy.Hold{Reason: RefreshInProgress, Message: fmt.Sprintf(
				"instance refresh %s of group %q is %s, %d%% complete", aws.ToString(one.InstanceRefreshId), name, one.Status, aws.ToInt32(one.PercentageComplete))}, nil
		}
	}
	return nil, nil
}

// CapacityShortage is the reason for InsufficientCapacity if AWS has no capacity for the requested
// instances.
const CapacityShortage = "CapacityShortage"

const (
	activitiesPerCall = 20
	// activityAge is the maximum age of an activity that explains a shortage.
	activityAge = time.Hour
	// sayingLaunch is the prefix of the description of a launch.
	sayingLaunch = "Launching"
)

// Explain implements cloud.Platform. It reads the group's newest activities.
func (f *Fleet) Explain(ctx context.Context, s *session, name string, _ *cloud.Group[*group]) (*policy.Notice, error) {
	found, err := s.groups.DescribeScalingActivities(ctx, &autoscaling.DescribeScalingActivitiesInput{
		AutoScalingGroupName: &name, MaxRecords: aws.Int32(activitiesPerCall),
	})
	if err != nil {
		return &policy.Notice{
			Condition: cloud.InsufficientCapacity, Reason: cloud.LaunchFailed,
			Message: "the group lacks instances, and the reason is unknown: " + called(ctx, err).Error(),
		}, nil
	}
	return failedLaunch(found.Activities, time.Now()), nil
}

// failedLaunch returns a notice if the newest launch failed, or nil. Activities must be sorted,
// newest first.
func failedLaunch(activities []types.Activity, now time.Time) *policy.Notice {
	for _, one := range activities {
		if !strings.HasPrefix(aws.ToString(one.Description), sayingLaunch) || now.Sub(aws.ToTime(one.StartTime)) > activityAge {
			continue
		}
		message := aws.ToString(one.StatusMessage)
		switch one.StatusCode {
		case types.ScalingActivityStatusCodeSuccessful:
			return nil
		case types.ScalingActivityStatusCodeFailed, types.ScalingActivityStatusCodeCancelled:
		default:
			if message == "" {
				continue // it may still succeed
			}
		}
		if message == "" {
			message = aws.ToString(one.Description) + ": " + string(one.StatusCode)
		}
		return &policy.Notice{Condition: cloud.InsufficientCapacity, Reason: launchReason(message), Message: message}
	}
	return nil
}

// The texts by which failed launches are recognized.
var (
	sayingQuota    = []string{"limit exceeded", "limitexceeded", "countexceeded", "quota", "requested more vcpu capacity", "requested more instances"}
	sayingShortage = []string{"insufficientinstancecapacity", "sufficient", "unfulfillablecapacity", "no spot capacity", "capacity-not-available", "capacityoversubscribed"}
)

func launchReason(message string) string {
	answer := &cloud.ResponseError{Message: message}
	switch {
	case answer.Mentions(sayingQuota...):
		return cloud.QuotaExceeded
	case answer.Mentions(sayingShortage...):
		return CapacityShortage
	}
	return cloud.LaunchFailed
}
