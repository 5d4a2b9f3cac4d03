package awsasg

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"

	"github.com/hpad/hpad/targets"
)

// SetReplicas sets a group's desired capacity, whatever its cooldown, if it is still
// that of version. It reads the group first: a count that is there already is not
// written again.
func (f *Fleet) SetReplicas(ctx context.Context, ref targets.Ref, n int32, version, _ string) error {
	return f.base.Scale(ctx, ref, n, "group", func(ctx context.Context, name string) error {
		return f.setReplicas(ctx, name, n, version)
	})
}

func (f *Fleet) setReplicas(ctx context.Context, name string, n int32, version string) error {
	session, err := f.connection.Client(ctx)
	if err != nil {
		return err
	}
	g, err := f.current(ctx, session, name, version)
	if err != nil || g.desired() == n {
		return err
	}
	if err := f.writable(ctx, session, g); err != nil {
		return err
	}
	if err := g.allows(n); err != nil {
		return err
	}
	_, err = session.groups.SetDesiredCapacity(ctx, &autoscaling.SetDesiredCapacityInput{
		AutoScalingGroupName: &name, DesiredCapacity: &n, HonorCooldown: aws.Bool(false),
	}, writing)
	if err == nil {
		f.written.Add(name, g.version(), change{desired: n}, time.Now())
		return nil
	}
	f.heed(session, err)
	return permission(writeError(err, g), "autoscaling:SetDesiredCapacity")
}

// writing makes a call with the retries of writes.
func writing(o *autoscaling.Options) { o.Retryer = newWriteRetryer() }

// permission adds to an ErrForbidden the permission that the call takes.
func permission(err error, action string) error {
	if errors.Is(err, targets.ErrForbidden) {
		return fmt.Errorf("%w; it takes %s", err, action)
	}
	return err
}

// current reads a group just before it is written. An ErrConflict means that it is not
// at version any more.
func (f *Fleet) current(ctx context.Context, s *session, name, version string) (*group, error) {
	groups, err := f.describeChunk(ctx, s, []string{name})
	if err != nil {
		return nil, err
	}
	g := groups[name]
	if g == nil {
		return nil, reasoned(GroupNotFound, fmt.Errorf("%w: there is no Auto Scaling group %q", targets.ErrTargetNotFound, name))
	}
	if version != "" && version != g.version() {
		return nil, fmt.Errorf("%w: group %q was at %s when it was read and is at %s now", targets.ErrConflict, name, version, g.version())
	}
	return g, g.unscalable()
}

// writable returns why a group must not be written now; nil when it may be.
func (f *Fleet) writable(ctx context.Context, s *session, g *group) error {
	if hold := f.hold(g); hold != nil {
		return &targets.HeldError{Hold: *hold}
	}
	if err := f.policiesUnknown(); err != nil && f.config.NativeAutoscaler == NativeHold {
		return fmt.Errorf("see whether it has scaling policies of its own: %w", err)
	}
	if !f.config.HoldDuringRefresh {
		return nil
	}
	hold, err := f.checkRefresh(ctx, s, g.name())
	if err != nil {
		return fmt.Errorf("see whether its instances are being refreshed: %w", err)
	}
	if hold != nil {
		return &targets.HeldError{Hold: *hold}
	}
	return nil
}

// allows returns the error of a count outside of the group's bounds; nil inside.
func (g *group) allows(n int32) error {
	lowest, highest := g.min(), g.max()
	var why error
	switch {
	case n < *lowest && g.suspended(processTerminate):
		why = fmt.Errorf("group %q cannot shrink while its process %s is suspended", g.name(), processTerminate)
	case n > *highest && g.suspended(processLaunch):
		why = fmt.Errorf("group %q cannot grow while its process %s is suspended", g.name(), processLaunch)
	case n < *lowest || n > *highest:
		why = fmt.Errorf("group %q takes from %d to %d", g.name(), *lowest, *highest)
	default:
		return nil
	}
	return &targets.OutOfRangeError{Min: lowest, Max: highest, Err: why}
}
