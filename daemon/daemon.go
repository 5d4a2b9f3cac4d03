package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"sync"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapio"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/hpad/hpad/daemon/adapters"
	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/daemon/discovery"
	"github.com/hpad/hpad/daemon/graph"
	"github.com/hpad/hpad/daemon/metrics"
	"github.com/hpad/hpad/daemon/server"
	"github.com/hpad/hpad/daemon/state"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/sources"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/clock"
)

// Options are what a Daemon is made of beside its configuration.
type Options struct {
	// Load reads the configuration, at start and at each reload.
	Load func() (*config.Config, error)
	// Store keeps the state; the daemon does not close it.
	Store state.Store
	// Graph keeps what drawings show of each pass, as long as the daemon runs; nil keeps
	// nothing of it.
	Graph *graph.Store
	// Log is where the daemon logs to; nil discards.
	Log *zap.Logger
	// Metrics are the daemon's own; nil means metrics that nobody sees.
	Metrics *metrics.Metrics
	// DryRun does everything but act: no count is ever written.
	DryRun bool
	// Until returns until when, by Go's monotonic clock, a platform may be asked for a
	// count, and then only once the intention to do so is in the Store; the daemon goes on
	// observing past it. Nil is that of a daemon which shares its fleets with nobody.
	Until func() time.Time
	// Output returns where the output of an instance that a fleet itself runs
	// goes; nil sends it to Log.
	Output func(service, instance string) io.Writer
	// Notify says things to the service manager, in the words of sd_notify(3); nil
	// says nothing.
	Notify func(state string)
	// WatchdogInterval is how often the service manager wants to hear that the
	// daemon is alive; 0 means never.
	WatchdogInterval time.Duration
	// Clock is what the daemon takes the time from; the zero value is the machine.
	Clock clock.System
	// Decided, if not nil, is called with the autoscaler of every decision as it is
	// published. It must not block.
	Decided func(name string)
}

// Daemon runs the autoscalers of one configuration. Make one with New.
type Daemon struct {
	*inForce
	status
	reloader
	options   Options
	scheduler *scheduler
	notifier  *notifier
	// budgets are those of all sources together.
	budgets budgets
}

// Daemon is what the HTTP API shows.
var _ api.Daemon = (*Daemon)(nil)

// New makes a daemon from a configuration; nothing runs yet.
func New(options Options) *Daemon {
	if options.Log == nil {
		options.Log = zap.NewNop()
	}
	if options.Metrics == nil {
		options.Metrics = metrics.New(nil)
	}
	if options.Output == nil {
		options.Output = logOutput(options.Log)
	}
	f := &inForce{
		environment: environment{
			log:         options.Log,
			metrics:     options.Metrics,
			clock:       clock.New(options.Clock),
			dryRun:      options.DryRun,
			until:       options.Until,
			graph:       options.Graph,
			decided:     options.Decided,
			evaluations: make(chan string),
		},
		store:  options.Store,
		labels: discovery.New(options.Log),
	}
	f.steps.Store(&clockSteps{})
	f.pauses.recall(nil)
	f.recorder = newRecorder(options.Store, f.clock, f.log, f.reportState)
	f.current.Store(&generation{config: &config.Config{}})
	d := &Daemon{inForce: f, options: options, status: status{f}}
	d.notifier = newNotifier(options.Notify, options.WatchdogInterval, d.statusLine)
	d.scheduler = newScheduler(f, d.notifier)
	d.reloader = reloader{
		inForce: f, load: options.Load, notifier: d.notifier, swaps: d.scheduler.swaps,
		reloaded: make(chan struct{}, 1), running: make(chan struct{}),
	}
	d.metrics.Show(func() iter.Seq[api.Autoscaler] { return d.AutoscalersAfter("") })
	d.metrics.ShowDiscovered(d.Discovered)
	d.metrics.ShowLost(d.lostParts)
	d.metrics.ShowBreakers(d.shownBreakers)
	d.metrics.ShowReceivers(d.shownReceivers)
	d.metrics.DryRun(options.DryRun)
	return d
}

// logOutput sends the output of instances to a log, a line at a time.
func logOutput(log *zap.Logger) func(service, instance string) io.Writer {
	return func(service, instance string) io.Writer {
		return &zapio.Writer{Log: log.With(zap.String("service", service), zap.String("instance", instance))}
	}
}

// stopWait bounds how long a stopping daemon waits for writes under way.
const stopWait = 20 * time.Second

// Run loads the configuration and the state, starts, and runs until ctx ends. It
// then lets the writes under way end, commits what is left, and closes the
// fleets and sources. The error says why it could not start or not end cleanly.
func (d *Daemon) Run(ctx context.Context) error {
	act, stopActing := context.WithCancelCause(context.WithoutCancel(ctx))
	defer stopActing(nil)
	d.runContext, d.actContext = ctx, act
	first, err := d.start(ctx)
	if err != nil {
		return err
	}

	recording, stopRecording := context.WithCancel(context.WithoutCancel(ctx))
	defer stopRecording()
	var recorder, workers sync.WaitGroup
	recorder.Go(func() { d.recorder.run(recording) })
	if d.graph != nil {
		recorder.Go(func() { d.graph.Run(recording, d.clock.Now) })
	}
	for range first.next.config.Daemon.ConcurrentSyncs {
		workers.Go(d.scheduler.work)
	}
	recall := d.restoredOf(first.next)
	started := d.clock.Now()
	d.scheduler.force(first)
	d.reportLosses()
	d.prune()
	d.notifier.ready()
	close(d.running)
	d.readers.Go(func() { d.discoverLabels(ctx) })
	d.readers.Go(func() { d.recallEvents(ctx, recall, started) })
	d.log.Info("started", zap.Int("autoscalers", len(first.next.names)), zap.Bool("dry_run", d.dryRun))
	if d.dryRun {
		d.log.Warn(api.DryRun)
	}
	d.scheduler.run(ctx)

	d.log.Info("stopping")
	d.notifier.stopping()
	err = d.stop(stopActing, func() {
		close(d.scheduler.ready)
		workers.Wait()
	}, func() {
		d.scheduler.keepUnfinished()
		stopRecording()
		recorder.Wait()
	})
	d.log.Info("stopped", zap.NamedError("err", err))
	return err
}

// restartPeriods is how many of the daemon's periods a restart may take for metrics that
// failed before to count as failing meanwhile.
const restartPeriods = 4

// start loads configuration and state and starts the first generation's
// adapters.
func (d *Daemon) start(ctx context.Context) (*change, error) {
	c, err := d.options.Load()
	if err != nil {
		return nil, err
	}
	d.fixed = c.Daemon
	d.budgets = newBudgets(c.Daemon)
	d.metrics.ShowBudgets(d.budgets.usage)
	if d.restored, err = d.store.Load(ctx); err != nil {
		return nil, fmt.Errorf("load the state: %w", err)
	}
	d.adapters = adapters.NewKeeper(d.runContext, d.actContext, adapters.Env{
		Log: d.log, Clock: d.clock, Store: d.store.Fleet, Until: d.until,
		Meter: func(fleet string) targets.Meter { return d.metrics.Platform(fleet) },
		// What fleets share outlives them, so that a reload is no way around the limits of
		// an account.
		Fleet:  targets.Env{Output: d.options.Output, Now: d.clock.Now, DryRun: d.dryRun},
		Source: sources.Env{Clock: d.clock, Discover: d.readTarget, Answers: d.budgets.answers, Samples: d.budgets.samples},
	})
	d.clock.Resume(d.restored.Clock)
	d.lookAtClock()
	d.metrics.ClockOffset(d.clock.Scale().Offset())
	d.restored = d.restored.WithoutFuture(d.clock.Now()).WithoutDowntime(d.clock.Now(), restartPeriods*c.Daemon.SyncPeriod)
	d.pauses.recall(d.restored.Pauses)
	d.breakers.recall(d.restored.Removals)
	for name, record := range d.restored.Autoscalers {
		if record.Labels != nil && name == config.LabelsName(record.Target) {
			d.labels.Recall(record.Target, record.Labels)
		}
	}
	merged := d.labels.Merge(c)
	first, err := d.build(merged.Config, d.current.Load())
	if err != nil {
		return nil, err
	}
	d.labels.Settle(merged)
	first.adapters.Start(ctx)
	return first, nil
}

// eventsRecalled is how old an event may be to be shown again after a restart:
// as long as Kubernetes keeps events.
const eventsRecalled = time.Hour

// restoredOf returns the autoscalers of a generation that the state has.
func (d *Daemon) restoredOf(g *generation) []*autoscaler {
	var restored []*autoscaler
	for name := range d.restored.Autoscalers {
		if a := g.autoscalers[name]; a != nil {
			restored = append(restored, a)
		}
	}
	return restored
}

// recallEvents takes the events of the hour before the start from the history. They are
// for people alone, and so no decision waits for them, and a history that cannot be read
// keeps nothing from running.
func (d *Daemon) recallEvents(ctx context.Context, restored []*autoscaler, started time.Time) {
	for _, a := range restored {
		if ctx.Err() != nil {
			return
		}
		entries, err := d.store.History(ctx, a.name, started.Add(-eventsRecalled), started, keptEvents)
		if err != nil {
			d.log.Warn("events before the restart are not shown", zap.NamedError("err", err))
			return
		}
		var events []api.Event
		for _, entry := range entries {
			events = addEvents(events, entry.Events, entry.Time)
		}
		if len(events) > 0 {
			a.recall(events)
		}
	}
}

// stop ends what is under way: reads at once, writes within a time, and then the
// adapters.
func (d *Daemon) stop(stopActing context.CancelCauseFunc, stopWorking, stopRecording func()) error {
	giveUp := time.AfterFunc(stopWait, func() { stopActing(errStopping) })
	defer giveUp.Stop()
	d.readers.Wait() // from here on no pass becomes ready
	stopWorking()    // and no pass sets out to write
	d.actors.Wait()
	stopRecording()
	d.receivers.Close()
	stopActing(errStopping)
	d.adapters.Wait()
	var lost error
	if text := d.unwritten.Text(); text != "" {
		lost = fmt.Errorf("what could not be written is lost: %s", text)
	}
	return errors.Join(lost, d.current.Load().Close())
}

// Evaluate evaluates an autoscaler at once, or as soon as the pass under way
// ends. A name that is not known is ignored.
func (d *Daemon) Evaluate(name string) { d.evaluate(name) }

// evaluatedLook is how often EvaluateNow looks whether the pass has ended.
const evaluatedLook = 20 * time.Millisecond

// EvaluateNow evaluates an autoscaler by a pass that begins after the call, and returns
// once that pass has ended, whatever it came to. The error is an api.ErrUnknown, an
// api.ErrRefused while the autoscaler is quarantined, or that of ctx.
func (d *Daemon) EvaluateNow(ctx context.Context, name string) error {
	if err := d.AwaitRunning(ctx); err != nil {
		return err
	}
	asked := d.clock.Now()
	d.log.Info("asked to evaluate", zap.String("autoscaler", name), author(ctx))
	d.evaluate(name)
	look := time.NewTicker(evaluatedLook)
	defer look.Stop()
	for {
		a := d.current.Load().autoscalers[name]
		if a == nil {
			return fmt.Errorf("%s: %w", policy.Scope{Autoscaler: name}, api.ErrUnknown)
		}
		switch published := a.published.Load(); {
		case !published.record.Through.Before(asked):
			return nil
		case published.quarantined(d.clock.Now()):
			return fmt.Errorf("%w: the autoscaler is %s", api.ErrRefused, published.unevaluated)
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			return fmt.Errorf("%s: the pass has not ended yet: %w", policy.Scope{Autoscaler: name}, context.Cause(ctx))
		case <-d.runContext.Done():
			return errStopping
		}
	}
}

// Serve serves the daemon's API on the listeners until ctx ends, and closes
// them. The error says which listener failed.
func (d *Daemon) Serve(ctx context.Context, l server.Listeners, gatherer prometheus.Gatherer) error {
	return server.Serve(ctx, l, server.Options{Daemon: d, Gatherer: gatherer, Log: d.log, Writers: d.writers})
}

// writers returns who may write over TCP; false before a configuration is in force.
func (d *Daemon) writers() ([]string, bool) {
	select {
	case <-d.running:
		return d.current.Load().config.Daemon.Writers, true
	default:
		return nil, false
	}
}

// AwaitRunning returns once the configuration and the state are in force that a person asks
// about. The error is that hpad stops, or why ctx ended before.
func (d *Daemon) AwaitRunning(ctx context.Context) error {
	select {
	case <-d.running:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if d.runContext.Err() != nil {
		return errStopping
	}
	return nil
}
