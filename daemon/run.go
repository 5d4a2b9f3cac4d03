package daemon

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/hpad/hpad/daemon/adapters"
	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/daemon/endpoints"
	"github.com/hpad/hpad/daemon/round"
	"github.com/hpad/hpad/guard"
	"github.com/hpad/hpad/sources"
	"github.com/hpad/hpad/targets"
)

// stopWait is the maximum time that a stopping daemon waits for active writes.
const stopWait = 20 * time.Second

// Run loads the configuration and the state and runs the autoscalers until ctx ends. Then it
// waits for active writes, commits the remaining state and closes the fleets and sources.
func (d *Daemon) Run(ctx context.Context) error {
	act, stopActing := context.WithCancelCause(context.WithoutCancel(ctx))
	defer stopActing(nil)
	d.env.RunContext, d.env.WriteContext = ctx, act
	first, err := d.load(ctx)
	if err != nil {
		return err
	}

	d.recordStart(first.added)
	recording, stopRecording := context.WithCancel(context.WithoutCancel(ctx))
	defer stopRecording()
	var recorder guard.Tasks
	recorder.Go(func() { guard.Loop(recording, func() { d.env.Recorder.Run(recording) }) })
	if d.env.Graph != nil {
		recorder.Go(func() { guard.Loop(recording, func() { d.env.Graph.Run(recording, d.env.Clock.Now) }) })
	}
	d.scheduler.Start(d.swap(first), first.next.Config.Daemon.ConcurrentSyncs)
	d.LogLosses()
	d.prune()
	d.service.Ready()
	close(d.running)
	d.background.Go(func() { guard.Loop(ctx, func() { d.discover(ctx) }) })
	if d.options.Probe != nil {
		guard.Go(func() { guard.Loop(ctx, func() { d.probe(ctx) }) }) // not in background, because a disk can hang
	}
	d.env.Log.Info("started", zap.Int("autoscalers", len(first.next.Names)), zap.Bool("dry_run", d.env.DryRun))
	if d.env.DryRun {
		d.env.Log.Warn(api.DryRun)
	}
	guard.Loop(ctx, func() { d.scheduler.Run(ctx) })

	d.env.Log.Info("stopping")
	d.service.Stopping()
	giveUp := guard.AfterFunc(stopWait, func() { stopActing(round.ErrStopping) })
	defer giveUp.Stop()
	d.background.Wait()
	d.endpoints.Wait()
	d.scheduler.Finish()
	stopRecording()
	recorder.Wait()
	d.env.Receivers.Close()
	stopActing(round.ErrStopping)
	d.adapters.Wait()
	if text := d.env.Unwritten.Text(); text != "" {
		err = fmt.Errorf("state that could not be written is lost: %s", text)
	}
	err = errors.Join(err, d.scheduler.Current().Close())
	d.env.Log.Info("stopped", zap.NamedError("err", err))
	return err
}

// probeInterval is the interval between calls of Options.Probe.
const probeInterval = 5 * time.Second

// probe calls Options.Probe regularly, because a full disk can go unnoticed for hours while the
// state does not grow.
func (d *Daemon) probe(ctx context.Context) {
	tick := time.NewTicker(probeInterval)
	defer tick.Stop()
	for {
		err := d.options.Probe()
		if news, fields := d.env.Unstorable.Set(err); news && err != nil {
			d.env.Log.Error("state cannot be stored", append(fields, zap.NamedError("err", err))...)
		} else if news {
			d.env.Log.Info("state can be stored again", fields...)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// restartPeriods is the longest downtime, in sync periods, that hpad includes in the duration of a
// metric's failure.
const restartPeriods = 4

// load loads the configuration and the state, and starts the adapters of the first generation.
func (d *Daemon) load(ctx context.Context) (*change, error) {
	c, err := d.options.Load(ctx)
	if err != nil {
		return nil, err
	}
	env := d.env
	d.startConfig = config.Config{Written: c.Written}
	d.budgets = newBudgets(c.Daemon)
	env.Metrics.ShowBudgets(d.budgets.usage)
	restored, err := d.options.Store.Load(ctx)
	if err != nil {
		return nil, fmt.Errorf("load the state: %w", err)
	}
	d.endpoints = endpoints.NewSet(env.Log, d.readEndpoints)
	env.EndpointsProblem, env.EndpointsWithdrawing = d.endpoints.Problem, d.endpoints.Withdrawing
	var exiting func() bool
	if d.options.KeepProcesses {
		exiting = func() bool { return env.RunContext.Err() != nil }
	}
	d.adapters = adapters.NewManager(env.RunContext, env.WriteContext, adapters.Env{
		Log: env.Log, Clock: env.Clock, Store: d.options.Store.Fleet,
		Meter: func(fleet string) targets.Meter { return env.Metrics.Platform(fleet) },
		Fleet: targets.Env{
			Output: d.options.Output, Now: env.Clock.Now, Lease: env.Until, DryRun: env.DryRun, Withdraw: d.endpoints.Withdraw, Exiting: exiting,
		},
		Source: sources.Env{Clock: env.Clock, Discover: d.readTarget, Answers: d.budgets.results, Samples: d.budgets.samples},
	})
	env.Clock.Resume(restored.Clock)
	env.CheckClock()
	env.Metrics.ClockOffset(env.Clock.Scale().Offset())
	now := env.Clock.Now()
	d.restored = restored.WithoutFuture(now).WithoutDowntime(now, restartPeriods*c.Daemon.SyncPeriod)
	env.Pauses.Restore(d.restored.Pauses)
	d.pauseAtStart(now)
	env.Breakers.Restore(d.restored.Removals)
	for name, record := range d.restored.Autoscalers {
		if record.Labels != nil && name == config.LabelsName(record.Target) {
			d.labels.Restore(record.Target, record.Labels)
		}
	}
	merged := d.labels.Merge(c)
	first, err := d.build(merged.Config)
	if err != nil {
		return nil, err
	}
	d.labels.Activate(merged)
	first.adapters.Start(ctx)
	d.adapters.EndRemoved(ctx, merged.Config)
	return first, nil
}
