package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
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
	"github.com/hpad/hpad/daemon/records"
	"github.com/hpad/hpad/daemon/round"
	"github.com/hpad/hpad/daemon/server"
	"github.com/hpad/hpad/daemon/state"
	"github.com/hpad/hpad/daemon/status"
	"github.com/hpad/hpad/daemon/trouble"
	"github.com/hpad/hpad/sources"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/clock"
)

// Options are the dependencies of a Daemon besides its configuration.
type Options struct {
	// Load reads the configuration, at the start and at each reload.
	Load func() (*config.Config, error)
	// Store stores the state. The daemon does not close it.
	Store state.Store
	// Graph stores the data points of graphs while the daemon runs; nil stores none.
	Graph *graph.Store
	// Log may be nil.
	Log *zap.Logger
	// Metrics are the daemon's own metrics; nil if they are not exported.
	Metrics *metrics.Metrics
	// DryRun disables all writes of counts.
	DryRun bool
	// Until returns the time, on Go's monotonic clock, until which the daemon may write counts;
	// after it the daemon only observes. With Until a write needs a committed intention. Nil if
	// no other daemon shares the fleets.
	Until func() time.Time
	// Output returns the writer for the output of an instance that a fleet runs; nil sends
	// output to Log.
	Output func(service, instance string) io.Writer
	// Notify sends a state to the service manager, as in sd_notify(3); it may be nil.
	Notify func(state string)
	// WatchdogInterval is the interval in which the service manager expects a sign of life; 0
	// is never.
	WatchdogInterval time.Duration
	// Clock is the zero value for the clocks of the host.
	Clock clock.System
	// Decided, if not nil, is called after each decision with the name of the autoscaler. It
	// must not block.
	Decided func(name string)
}

// Daemon runs the autoscalers of one configuration.
type Daemon struct {
	*status.Reader
	options   Options
	env       *round.Env
	scheduler *round.Scheduler
	service   *round.ServiceManager
	adapters  *adapters.Keeper
	labels    *discovery.Labels
	budgets   budgets
	// restored is the state that was loaded at the start, without the autoscalers that have run
	// since, and the records of removed discovered autoscalers. While the daemon runs, the
	// reload lock guards it.
	restored state.Snapshot
	// refused is the error of the last reload.
	refused trouble.Problem
	// started is the [daemon] table at the start, for keys that only a start applies.
	started config.Daemon
	// reloads is held during a reload.
	reloads sync.Mutex
	// reloaded signals discover that the sync period may have changed.
	reloaded chan struct{}
	// running is closed when the first generation is active.
	running chan struct{}
	// background are goroutines that end with the run context.
	background sync.WaitGroup
}

var _ api.Daemon = (*Daemon)(nil)

// New returns a daemon that is not running yet.
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
	env := &round.Env{
		Log: options.Log, Metrics: options.Metrics, Clock: clock.New(options.Clock), Graph: options.Graph,
		DryRun: options.DryRun, Until: options.Until, Decided: options.Decided,
	}
	env.Init()
	env.Pauses.Restore(nil)
	env.Recorder = records.NewRecorder(options.Store, env.Clock, env.Log, env.ReportCommit)
	d := &Daemon{
		options: options, env: env, labels: discovery.New(options.Log),
		reloaded: make(chan struct{}, 1), running: make(chan struct{}),
	}
	d.service = round.NewServiceManager(options.Notify, options.WatchdogInterval, func() string { return d.Line() })
	d.scheduler = round.NewScheduler(env, d.service)
	d.Reader = status.NewReader(env, d.scheduler, options.Store, d.labels, &d.refused)
	d.ShowMetrics(options.Metrics)
	options.Metrics.DryRun(options.DryRun)
	return d
}

// logOutput logs the output of instances line by line.
func logOutput(log *zap.Logger) func(service, instance string) io.Writer {
	return func(service, instance string) io.Writer {
		return &zapio.Writer{Log: log.With(zap.String("service", service), zap.String("instance", instance))}
	}
}

// stopWait is the time that active writes have at a stop.
const stopWait = 20 * time.Second

// Run loads the configuration and the state and runs the autoscalers until ctx ends. Then it
// waits for active writes, commits the remaining state and closes the fleets and sources.
func (d *Daemon) Run(ctx context.Context) error {
	act, stopActing := context.WithCancelCause(context.WithoutCancel(ctx))
	defer stopActing(nil)
	d.env.RunContext, d.env.ActContext = ctx, act
	first, err := d.load(ctx)
	if err != nil {
		return err
	}

	recording, stopRecording := context.WithCancel(context.WithoutCancel(ctx))
	defer stopRecording()
	var recorder sync.WaitGroup
	recorder.Go(func() { d.env.Recorder.Run(recording) })
	if d.env.Graph != nil {
		recorder.Go(func() { d.env.Graph.Run(recording, d.env.Clock.Now) })
	}
	restored := d.restoredOf(first.next)
	d.scheduler.Start(d.swap(first), first.next.Config.Daemon.ConcurrentSyncs)
	d.LogLosses()
	d.prune()
	d.service.Ready()
	close(d.running)
	d.background.Go(func() { d.discover(ctx) })
	d.background.Go(func() { d.recallEvents(ctx, restored, d.env.Clock.Now()) })
	d.env.Log.Info("started", zap.Int("autoscalers", len(first.next.Names)), zap.Bool("dry_run", d.env.DryRun))
	if d.env.DryRun {
		d.env.Log.Warn(api.DryRun)
	}
	d.scheduler.Run(ctx)

	d.env.Log.Info("stopping")
	d.service.Stopping()
	giveUp := time.AfterFunc(stopWait, func() { stopActing(round.ErrStopping) })
	defer giveUp.Stop()
	d.background.Wait()
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

// restartPeriods is the number of sync periods that a restart may take without an effect on the
// time for which a metric has failed.
const restartPeriods = 4

// load loads the configuration and the state, and starts the adapters of the first generation.
func (d *Daemon) load(ctx context.Context) (*change, error) {
	c, err := d.options.Load()
	if err != nil {
		return nil, err
	}
	env := d.env
	d.started = c.Daemon
	d.budgets = newBudgets(c.Daemon)
	env.Metrics.ShowBudgets(d.budgets.usage)
	restored, err := d.options.Store.Load(ctx)
	if err != nil {
		return nil, fmt.Errorf("load the state: %w", err)
	}
	d.adapters = adapters.NewKeeper(env.RunContext, env.ActContext, adapters.Env{
		Log: env.Log, Clock: env.Clock, Store: d.options.Store.Fleet, Until: env.Until,
		Meter:  func(fleet string) targets.Meter { return env.Metrics.Platform(fleet) },
		Fleet:  targets.Env{Output: d.options.Output, Now: env.Clock.Now, DryRun: env.DryRun},
		Source: sources.Env{Clock: env.Clock, Discover: d.readTarget, Answers: d.budgets.answers, Samples: d.budgets.samples},
	})
	env.Clock.Resume(restored.Clock)
	env.CheckClock()
	env.Metrics.ClockOffset(env.Clock.Scale().Offset())
	now := env.Clock.Now()
	d.restored = restored.WithoutFuture(now).WithoutDowntime(now, restartPeriods*c.Daemon.SyncPeriod)
	env.Pauses.Restore(d.restored.Pauses)
	env.Breakers.Restore(d.restored.Removals)
	for name, record := range d.restored.Autoscalers {
		if record.Labels != nil && name == config.LabelsName(record.Target) {
			d.labels.Recall(record.Target, record.Labels)
		}
	}
	merged := d.labels.Merge(c)
	first, err := d.build(merged.Config)
	if err != nil {
		return nil, err
	}
	d.labels.Settle(merged)
	first.adapters.Start(ctx)
	return first, nil
}

// restoredOf returns the autoscalers of a generation that the loaded state contains.
func (d *Daemon) restoredOf(g *round.Generation) []*round.Autoscaler {
	var restored []*round.Autoscaler
	for name := range d.restored.Autoscalers {
		if a := g.Autoscalers[name]; a != nil {
			restored = append(restored, a)
		}
	}
	return restored
}

// recallEvents reads the events of the last hour before the start from the history. They are
// only shown, so no pass waits for them.
func (d *Daemon) recallEvents(ctx context.Context, restored []*round.Autoscaler, started time.Time) {
	for _, a := range restored {
		if ctx.Err() != nil {
			return
		}
		entries, err := d.options.Store.History(ctx, a.Name, started.Add(-recalledEvents), started, round.MaxEvents)
		if err != nil {
			d.env.Log.Warn("cannot read events before the restart", zap.NamedError("err", err))
			return
		}
		a.RecallEvents(entries)
	}
}

// recalledEvents is the age of the oldest event that is shown after a restart, as long as
// Kubernetes keeps events.
const recalledEvents = time.Hour

// Evaluate evaluates an autoscaler immediately, or after its active pass. An unknown name has no
// effect.
func (d *Daemon) Evaluate(name string) { d.env.Evaluate(name) }

// Serve serves the daemon's API on the listeners until ctx ends, and closes them.
func (d *Daemon) Serve(ctx context.Context, l server.Listeners, gatherer prometheus.Gatherer) error {
	return server.Serve(ctx, l, server.Options{Daemon: d, Gatherer: gatherer, Log: d.env.Log, Writers: d.writers})
}

// writers returns the users that may write over TCP; false before a configuration is active.
func (d *Daemon) writers() ([]string, bool) {
	select {
	case <-d.running:
		return d.scheduler.Current().Config.Daemon.Writers, true
	default:
		return nil, false
	}
}

// AwaitRunning waits until the first configuration is active. The error is that of ctx, or that
// the daemon is stopping.
func (d *Daemon) AwaitRunning(ctx context.Context) error {
	select {
	case <-d.running:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if d.env.RunContext.Err() != nil {
		return round.ErrStopping
	}
	return nil
}
