package awsasg

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"

	"github.com/hpad/hpad/policy"
)

// refreshes are the groups whose instances are known to be refreshed, where that holds
// them. AWS shows one group a call, so it is asked before a write, and from then on
// until the refresh ends. They are safe for concurrent use; the zero value has none.
type refreshes struct {
	mu      sync.Mutex
	running map[string]*refresh
}

type refresh struct {
	hold policy.Hold
	due  time.Time
}

// followRefreshes asks again about the groups that are known to be refreshed.
func (f *Fleet) followRefreshes(ctx context.Context, s *session) {
	for _, name := range f.refreshes.due(time.Now(), f.config.CheckInterval) {
		if _, err := f.checkRefresh(ctx, s, name); err != nil {
			return // the hold stays until AWS answers
		}
	}
}

// due returns the groups that are to be asked about now, and again after the interval.
func (r *refreshes) due(now time.Time, interval time.Duration) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var due []string
	for _, name := range slices.Sorted(maps.Keys(r.running)) {
		if one := r.running[name]; !now.Before(one.due) {
			one.due = now.Add(interval)
			due = append(due, name)
		}
	}
	return due
}

// hold returns the hold of a group that is being refreshed; nil for another one.
func (r *refreshes) hold(name string) *policy.Hold {
	r.mu.Lock()
	defer r.mu.Unlock()
	if one := r.running[name]; one != nil {
		hold := one.hold
		return &hold
	}
	return nil
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
	f.refreshes.set(name, hold, time.Now().Add(f.config.CheckInterval))
	return hold, nil
}

// set records the hold of a group until the time to ask again; nil ends it.
func (r *refreshes) set(name string, hold *policy.Hold, due time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if hold == nil {
		delete(r.running, name)
		return
	}
	if r.running == nil {
		r.running = map[string]*refresh{}
	}
	r.running[name] = &refresh{hold: *hold, due: due}
}
