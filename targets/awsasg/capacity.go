package awsasg

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets/cloud"
)

// The reasons of InsufficientCapacity.
const (
	// CapacityShortage: AWS has no such instances now.
	CapacityShortage = "CapacityShortage"
	// QuotaExceeded: the account may have no more.
	QuotaExceeded = "QuotaExceeded"
	// LaunchFailed: another reason.
	LaunchFailed = "LaunchFailed"
)

const (
	// activitiesPerCall is how many of a group's newest activities are read.
	activitiesPerCall = 20
	// activityAge is how old an activity that explains a shortage may be.
	activityAge = time.Hour
	// sayingLaunch begins the description of activities that launch instances.
	sayingLaunch = "Launching"
)

// Explain implements cloud.Platform: it reads the group's newest activities.
func (f *Fleet) Explain(ctx context.Context, name string, _ *cloud.Group[*group]) (*policy.Notice, error) {
	session, err := f.connection.Client(ctx)
	if err != nil {
		return nil, err
	}
	found, err := session.groups.DescribeScalingActivities(ctx, &autoscaling.DescribeScalingActivitiesInput{
		AutoScalingGroupName: &name, MaxRecords: aws.Int32(activitiesPerCall),
	})
	if err != nil {
		return &policy.Notice{
			Condition: cloud.InsufficientCapacity, Reason: LaunchFailed,
			Message: "the group lacks instances; why is not known: " + f.connection.called(ctx, session, err).Error(),
		}, nil
	}
	return failedLaunch(found.Activities, time.Now()), nil
}

// failedLaunch returns the message of the newest launch that ended, where it failed; nil
// where it did not. Activities come newest first.
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

// What the messages of failed launches are recognized by, in lower case.
var (
	sayingQuota    = []string{"limit exceeded", "limitexceeded", "countexceeded", "quota", "requested more vcpu capacity", "requested more instances"}
	sayingShortage = []string{"insufficientinstancecapacity", "sufficient", "unfulfillablecapacity", "no spot capacity", "capacity-not-available", "capacityoversubscribed"}
)

// launchReason returns the reason that the message of a failed launch means.
func launchReason(message string) string {
	message = strings.ToLower(message)
	says := func(words []string) bool {
		return slices.ContainsFunc(words, func(word string) bool { return strings.Contains(message, word) })
	}
	switch {
	case says(sayingQuota):
		return QuotaExceeded
	case says(sayingShortage):
		return CapacityShortage
	}
	return LaunchFailed
}
