package awsasg

import (
	"context"
	"errors"
	"fmt"

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

// policies name one scaling policy of each group that has any that changes its count:
// by alarms, or by forecasts.
type policies struct{ alarmed, predictive map[string]string }

// readPolicies reads the scaling policies of the region, once in a while. Without the
// right to read them the groups are taken to have none.
func (f *Fleet) readPolicies(ctx context.Context, s *session) {
	if f.config.NativeAutoscaler == NativeHold {
		ctx, cancel := context.WithTimeout(ctx, policiesTimeout)
		defer cancel()
		f.policies.Refresh(f.config.CheckInterval, func() (policies, error) { return f.listPolicies(ctx, s) })
	}
}

func (f *Fleet) listPolicies(ctx context.Context, s *session) (policies, error) {
	found := policies{alarmed: map[string]string{}, predictive: map[string]string{}}
	pages := autoscaling.NewDescribePoliciesPaginator(s.groups, &autoscaling.DescribePoliciesInput{
		MaxRecords: aws.Int32(policiesPerCall),
	}, func(o *autoscaling.DescribePoliciesPaginatorOptions) { o.StopOnDuplicateToken = true })
	for read := 0; pages.HasMorePages(); read++ {
		if read == policyPages {
			return found, fmt.Errorf("the region has more than %d policies; set native_autoscaler = %q to do without", policyPages*policiesPerCall, NativeIgnore)
		}
		page, err := pages.NextPage(ctx)
		if err != nil {
			return found, f.connection.called(ctx, s, err)
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

// changes reports whether a policy changes counts by itself.
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

// hold returns the hold of a group with policies that change its count; nil for one
// without.
func (p policies) hold(g *group) *policy.Hold {
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

// policiesUnknown returns why nothing is known of policies yet, where AWS may still
// allow to read them; nil where they were read, or may not be.
func (f *Fleet) policiesUnknown() error {
	err := f.policies.Failure()
	if _, known := f.policies.Value(); known || errors.Is(err, targets.ErrForbidden) {
		return nil
	}
	return err
}
