package awsasg

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
)

// The types of scaling policies.
const (
	typeTargetTracking = "TargetTrackingScaling"
	typeStep           = "StepScaling"
	typeSimple         = "SimpleScaling"
	typePredictive     = "PredictiveScaling"
)

// How all policies of a region are read: as many in a call as AWS takes, and at
// most so many calls.
const (
	policiesPerCall = 100
	policyPages     = 50
)

// policies are the scaling policies that change the counts of groups. They are safe
// for concurrent use.
type policies struct {
	mu sync.Mutex
	// alarmed and predictive name one policy of each group that has any of either
	// kind.
	alarmed, predictive map[string]string
	// known says that they were read once.
	known bool
	// due is when they are read again, failed why they could not be read.
	due    time.Time
	failed error
}

// readPolicies reads the scaling policies of the region, once in a while. Without
// the right to read them the groups are taken to have none.
func (f *Fleet) readPolicies(ctx context.Context, s *session) {
	p := &f.policies
	now := time.Now()
	p.mu.Lock()
	due := !now.Before(p.due) && f.config.NativeAutoscaler == NativeHold
	if due {
		p.due = now.Add(f.config.CheckInterval) // one snapshot reads them
	}
	p.mu.Unlock()
	if !due {
		return
	}
	alarmed, predictive, err := f.listPolicies(ctx, s)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failed = err
	if err == nil {
		p.known, p.alarmed, p.predictive = true, alarmed, predictive
	} else if !errors.Is(err, targets.ErrForbidden) {
		p.due = time.Time{}
	}
}

func (f *Fleet) listPolicies(ctx context.Context, s *session) (alarmed, predictive map[string]string, err error) {
	alarmed, predictive = map[string]string{}, map[string]string{}
	pages := autoscaling.NewDescribePoliciesPaginator(s.groups, &autoscaling.DescribePoliciesInput{
		MaxRecords: aws.Int32(policiesPerCall),
	}, func(o *autoscaling.DescribePoliciesPaginatorOptions) { o.StopOnDuplicateToken = true })
	for read := 0; pages.HasMorePages(); read++ {
		if read == policyPages {
			return nil, nil, fmt.Errorf("the region has more than %d policies; set native_autoscaler = %q to do without", policyPages*policiesPerCall, NativeIgnore)
		}
		page, err := pages.NextPage(ctx)
		if err != nil {
			f.seen(s, err)
			return nil, nil, fmt.Errorf("describe policies (autoscaling:DescribePolicies): %w", readError(err))
		}
		for _, one := range page.ScalingPolicies {
			switch name := aws.ToString(one.AutoScalingGroupName); {
			case !changes(&one):
			case aws.ToString(one.PolicyType) == typePredictive:
				predictive[name] = describePolicy(&one)
			default:
				alarmed[name] = describePolicy(&one)
			}
		}
	}
	return alarmed, predictive, nil
}

func describePolicy(p *types.ScalingPolicy) string {
	return fmt.Sprintf("%q (%s)", aws.ToString(p.PolicyName), aws.ToString(p.PolicyType))
}

// changes says that a policy changes counts by itself.
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
		return len(p.Alarms) > 0 // else somebody has to execute it
	}
	return false
}

// hold answers the hold of a group with policies that change its count; nil for
// one without.
func (p *policies) hold(g *group) *policy.Hold {
	p.mu.Lock()
	defer p.mu.Unlock()
	name := p.predictive[g.name()]
	if name == "" && !g.suspended(processAlarms) {
		name = p.alarmed[g.name()]
	}
	if name == "" {
		return nil
	}
	return &policy.Hold{Reason: NativeAutoscaler, Message: fmt.Sprintf(
		"the scaling policy %s of group %q changes its count too: delete or disable it, or set native_autoscaler = %q", name, g.name(), NativeIgnore)}
}

// unknown answers why nothing is known of policies yet, where AWS may still tell;
// nil where it told, or refuses to.
func (p *policies) unknown() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.known || p.failed == nil || errors.Is(p.failed, targets.ErrForbidden) {
		return nil
	}
	return p.failed
}

func (p *policies) failure() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.failed
}
