package daemon

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/kinds"
	"github.com/hpad/hpad/daemon/round"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
)

// Restart requests a rolling replacement of the instances of an autoscaler's target, and an
// evaluation that records it. It does not wait for instances. The error is an api.ErrUnknown, or an
// api.ErrRefused if nothing has changed.
func (d *Daemon) Restart(ctx context.Context, name string) error {
	if err := d.AwaitRunning(ctx); err != nil {
		return err
	}
	a := d.scheduler.Current().Autoscalers[name]
	if a == nil {
		return fmt.Errorf("%s: %w", policy.Scope{Autoscaler: name}, api.ErrUnknown)
	}
	restarter, err := d.restarter(a.Definition())
	if err != nil {
		return err
	}
	author := api.Author(ctx)
	fields := []zap.Field{zap.String("autoscaler", name), authorField(author)}
	if err := restarter.Restart(ctx, a.Definition().Target); err != nil {
		d.env.Log.Warn("requested restart failed", append(fields, zap.NamedError("err", err))...)
		if errors.Is(err, targets.ErrUnknownOutcome) {
			return targets.WithClass(api.ErrUnknownOutcome, err)
		}
		return fmt.Errorf("%w: %w", api.ErrRefused, err)
	}
	d.env.Log.Info("restart requested", fields...)
	message := "a restart of all instances was requested"
	if author != "" {
		message += " by " + author
	}
	a.AddEvent(policy.Event{Kind: policy.NormalEvent, Reason: api.RestartRequested, Message: message})
	d.env.Evaluate(name)
	d.warnUnwritten(ctx)
	return nil
}

// restarter returns the fleet of an autoscaler. The error is an api.ErrRefused if the fleet cannot
// restart instances.
func (d *Daemon) restarter(def *round.Definition) (targets.Restarter, error) {
	fleet, until := d.scheduler.Current().Fleets[def.Target.Fleet], d.env.Until
	switch {
	case d.env.DryRun:
		return nil, fmt.Errorf("%w: %s", api.ErrRefused, api.DryRun)
	case fleet == nil:
		return nil, fmt.Errorf("%w: fleet %q is not running", api.ErrRefused, def.Target.Fleet)
	case until != nil && !time.Now().Before(until()):
		return nil, fmt.Errorf("%w: the lease of fleet %q has ended; try again", api.ErrMoving, def.Target.Fleet)
	}
	restarter, can := fleet.Inner.(targets.Restarter)
	if !can {
		return nil, fmt.Errorf("%w: hpad cannot restart the instances of a fleet of kind %s; run %s", api.ErrRefused, def.Kind, kinds.Fleets[def.Kind].Restart)
	}
	return restarter, nil
}
