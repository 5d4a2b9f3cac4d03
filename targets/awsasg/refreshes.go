package awsasg

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets/cloud"
)

// refreshes are the holds of groups whose instances are known to be refreshed, by name.
// AWS shows one group a call, so it is asked before a write, and from then on until the
// refresh ends. They are safe for concurrent use; the zero value has none.
type refreshes struct {
	mu    sync.Mutex
	holds map[string]*policy.Hold
	// checks is when all of them are asked about again.
	checks cloud.Aside[struct{}]
}

// followRefreshes asks again about the groups that are known to be refreshed.
func (f *Fleet) followRefreshes(ctx context.Context, s *session) {
	f.refreshes.checks.Refresh(f.config.CheckInterval, func() (struct{}, error) {
		f.refreshes.mu.Lock()
		names := slices.Sorted(maps.Keys(f.refreshes.holds))
		f.refreshes.mu.Unlock()
		for _, name := range names {
			if _, err := f.checkRefresh(ctx, s, name); err != nil {
				break // the hold stays until AWS answers
			}
		}
		return struct{}{}, nil
	})
}

// hold returns the hold of a group that is being refreshed; nil for another one.
func (r *refreshes) hold(name string) *policy.Hold {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.holds[name]
}

// checkRefresh asks whether a group's instances are being refreshed, and returns the
// hold; nil when they are not.
func (f *Fleet) checkRefresh(ctx context.Context, s *session, name string) (*policy.Hold, error) {
	answer, err := s.groups.DescribeInstanceRefreshes(ctx, &autoscaling.DescribeInstanceRefreshesInput{
		AutoScalingGroupName: &name, MaxRecords: aws.Int32(1), // the newest
	})
	if err != nil {
		f.heed(s, err)
		return nil, fmt.Errorf("describe instance refreshes (autoscaling:DescribeInstanceRefreshes): %w", readError(err))
	}
	var hold *policy.Hold
	for _, one := range answer.InstanceRefreshes {
		switch one.Status {
		case types.InstanceRefreshStatusPending, types.InstanceRefreshStatusInProgress, types.InstanceRefreshStatusCancelling,
			types.InstanceRefreshStatusRollbackInProgress, types.InstanceRefreshStatusBaking:
			hold = &policy.Hold{Reason: RefreshInProgress, Message: fmt.Sprintf(
				"instance refresh %s of group %q is %s, %d%% complete", aws.ToString(one.InstanceRefreshId), name, one.Status, aws.ToInt32(one.PercentageComplete))}
		}
	}
	f.refreshes.mu.Lock()
	defer f.refreshes.mu.Unlock()
	if f.refreshes.holds == nil {
		f.refreshes.holds = map[string]*policy.Hold{}
	}
	if f.refreshes.holds[name] = hold; hold == nil {
		delete(f.refreshes.holds, name)
	}
	return hold, nil
}
