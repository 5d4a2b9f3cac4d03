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

// refreshes are the groups whose instances are known to be refreshed, where that
// holds them. AWS tells it only for one group a call, so it is asked before a write,
// and from then on until the refresh ends. They are safe for concurrent use.
type refreshes struct {
	mu      sync.Mutex
	running map[string]*refresh
}

type refresh struct {
	hold policy.Hold
	due  time.Time
}

// followRefreshes looks again at the groups that are known to be refreshed.
func (f *Fleet) followRefreshes(ctx context.Context, s *session) {
	for _, name := range f.refreshes.take(time.Now(), f.config.CheckInterval) {
		if _, err := f.checkRefresh(ctx, s, name); err != nil {
			return // the hold stays until AWS answers
		}
	}
}

// take answers the groups that are due to be looked at.
func (r *refreshes) take(now time.Time, interval time.Duration) []string {
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

// hold answers the hold of a group that is being refreshed; nil for another one.
func (r *refreshes) hold(name string) *policy.Hold {
	r.mu.Lock()
	defer r.mu.Unlock()
	if one := r.running[name]; one != nil {
		hold := one.hold
		return &hold
	}
	return nil
}

// checkRefresh asks whether a group's instances are being refreshed, and answers
// the hold; nil when they are not.
func (f *Fleet) checkRefresh(ctx context.Context, s *session, name string) (*policy.Hold, error) {
	answer, err := s.groups.DescribeInstanceRefreshes(ctx, &autoscaling.DescribeInstanceRefreshesInput{
		AutoScalingGroupName: &name, MaxRecords: aws.Int32(1), // the newest
	})
	if err != nil {
		f.seen(s, err)
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
	f.refreshes.note(name, hold, time.Now().Add(f.config.CheckInterval))
	return hold, nil
}

func (r *refreshes) note(name string, hold *policy.Hold, due time.Time) {
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
