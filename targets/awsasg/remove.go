package awsasg

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
)

// removalsPerCall is how many instances AWS terminates in a call.
const removalsPerCall = 100

// Remove terminates instances of a group and lowers its desired capacity by as many, if
// it is still that of version. Instances that are gone or going are left out; where one
// is protected from scale-in none is terminated.
func (f *Fleet) Remove(ctx context.Context, ref targets.Ref, ids []string, version, _ string) error {
	what := fmt.Sprintf("remove %d instances from group %q of fleet %q", len(ids), ref.Name, f.base.Name)
	return f.base.Write(ctx, ref, what, func(ctx context.Context, name string) error {
		return f.remove(ctx, name, ids, version)
	})
}

func (f *Fleet) remove(ctx context.Context, name string, ids []string, version string) error {
	session, err := f.connection.Client(ctx)
	if err != nil {
		return err
	}
	g, err := f.current(ctx, session, name, version)
	if err != nil {
		return err
	}
	victims, err := g.victims(ids)
	if err != nil || len(victims) == 0 {
		return err
	}
	if err := f.writable(ctx, session, g); err != nil {
		return err
	}
	if err := g.allows(g.desired() - int32(len(victims))); err != nil {
		return err
	}
	var ended []string
	for chunk := range slices.Chunk(victims, removalsPerCall) {
		var some []string
		some, err = f.terminate(ctx, session, g, chunk)
		if ended = append(ended, some...); err != nil {
			break
		}
	}
	if len(ended) == 0 {
		return err
	}
	reached := g.desired() - int32(len(ended))
	f.written.Add(name, g.version(), change{desired: reached, terminated: ended}, time.Now())
	if err != nil && !errors.Is(err, targets.ErrUnknownOutcome) {
		return &targets.PartialError{Reached: reached, Err: err}
	}
	return err
}

// victims returns the ids of those instances that the group still has, each once.
func (g *group) victims(ids []string) ([]string, error) {
	chosen := make(map[string]bool, len(ids))
	for _, id := range ids {
		chosen[id] = true
	}
	var victims, protected []string
	for _, instance := range g.ordered() {
		id, s := aws.ToString(instance.InstanceId), stageOf(instance.LifecycleState)
		switch {
		case !chosen[id], s.deleting, s.outside:
		case aws.ToBool(instance.ProtectedFromScaleIn):
			protected = append(protected, id)
		default:
			victims = append(victims, id)
		}
	}
	if len(protected) > 0 {
		return nil, &targets.HeldError{Hold: policy.Hold{
			Reason:  InstanceProtected,
			Message: fmt.Sprintf("instances of group %q are protected from scale-in: %s", g.name(), strings.Join(protected, ", ")),
		}}
	}
	return victims, nil
}

// terminate terminates instances, in one call where AWS takes one, and returns which.
func (f *Fleet) terminate(ctx context.Context, s *session, g *group, ids []string) ([]string, error) {
	if len(ids) > 1 {
		_, err := s.groups.TerminateInstanceInAutoScalingGroup(ctx, &autoscaling.TerminateInstanceInAutoScalingGroupInput{
			AutoScalingGroupName: g.AutoScalingGroupName, InstanceIds: ids, ShouldDecrementDesiredCapacity: aws.Bool(true),
		}, writing)
		if err == nil {
			return ids, nil
		}
		if !oneByOne(err) {
			f.heed(s, err)
			return nil, terminateError(err, g)
		}
	}
	var ended []string
	for _, id := range ids {
		_, err := s.groups.TerminateInstanceInAutoScalingGroup(ctx, &autoscaling.TerminateInstanceInAutoScalingGroupInput{
			InstanceId: &id, ShouldDecrementDesiredCapacity: aws.Bool(true),
		}, writing)
		switch {
		case err == nil:
			ended = append(ended, id)
		case !gone(err):
			f.heed(s, err)
			return ended, terminateError(err, g)
		}
	}
	return ended, nil
}

func terminateError(err error, g *group) error {
	return permission(writeError(err, g), "autoscaling:TerminateInstanceInAutoScalingGroup")
}

// gone reports whether an instance went before it could be terminated.
func gone(err error) bool {
	answer := answerOf(err)
	return answer != nil && answer.Code == codeValidation && answer.Says(sayingNoInstance, sayingTerminating)
}

// oneByOne reports whether instances have to be terminated one by one: one of them went
// meanwhile, or the endpoint cannot terminate several at once.
func oneByOne(err error) bool {
	answer := answerOf(err)
	return gone(err) || answer != nil && answer.Code == codeValidation && answer.Says(sayingInstanceID)
}
