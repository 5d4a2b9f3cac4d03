package awsasg

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"

	"github.com/hpad/hpad/policy"
)

// refresh returns the hold of a group whose instances are being refreshed; nil if they
// are not. AWS shows one group a call, so it is read before each write only.
func (f *Fleet) refresh(ctx context.Context, s *session, name string) (*policy.Hold, error) {
	found, err := s.groups.DescribeInstanceRefreshes(ctx, &autoscaling.DescribeInstanceRefreshesInput{
		AutoScalingGroupName: &name, MaxRecords: aws.Int32(1), // the newest
	})
	if err != nil {
		return nil, f.connection.called(ctx, s, err)
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
