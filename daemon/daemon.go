package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapio"

	"github.com/hpad/hpad/daemon/adapters"
	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/daemon/discovery"
	"github.com/hpad/hpad/daemon/metrics"
	"github.com/hpad/hpad/daemon/observe"
	"github.com/hpad/hpad/daemon/state"
	"github.com/hpad/hpad/daemon/trouble"
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
	// Log is where the daemon logs to; nil discards.
	Log *zap.Logger
	// Metrics are the daemon's own; nil means metrics that nobody sees.
	Metrics *metrics.Metrics
	// DryRun does everything but act: no count is ever written.
	DryRun bool
	// Output answers where the output of an instance that a fleet itself runs
	// goes; nil sends it to Log.
	Output func(service, instance string) io.Writer
	// Notify tells the service manager, in the words of sd_notify(3); nil tells
	// nobody.
	Notify func(state string)
	// WatchdogInterval is how often the service manager wants to hear that the
	// daemon is alive; 0 means never.
	WatchdogInterval time.Duration
	// Clock is what the daemon takes the time from; the zero value is the machine.
	Clock clock.System
	// Decided, if not nil, is told of every decision as it is published. It must
	// not block.
	Decided func(name string)
}

// Daemon runs the autoscalers of one configuration. Make one with New.
type Daemon struct {
	environment
	options Options
	store   state.Store
	// adapters keeps the fleets and sources.
	adapters *adapters.Keeper
	// budgets are those of all sources together.
	budgets budgets
	// unwritten is why what the recorder has is not in the store.
	unwritten trouble.Problem
	notifier  *notifier

	current atomic.Pointer[generation]
	// starting is the first generation until it is in force, and then nil.
	starting atomic.Pointer[generation]
	// restored is what was loaded at start, or left by autoscalers whose target is
	// gone, and has not been running since. Once the daemon runs, reloads guards it:
	// a swap, which is waited for under it, changes it too.
	restored state.Snapshot
	// fixed is the [daemon] table as it was at start, for what only a start puts in
	// force; refused is why the last reload was.
	fixed   config.Daemon
	refused trouble.Problem
	// labels are what targets ask for by them. Once the daemon runs, reloads guards
	// them, but for what is shown.
	labels *discovery.Labels
	// reloaded tells discoverLabels that the sync period may be another one.
	reloaded chan struct{}
	// lastTick is when the scheduler last looked for rounds that are due.
	lastTick atomic.Pointer[time.Time]

	ready     chan []*pass
	completed chan *round
	swaps     chan swapRequest
	reloads   sync.Mutex
	// running is closed when the first generation is in force.
	running chan struct{}
}

// readyQueue is how many chunks of ready passes may wait for a worker.
const readyQueue = 256

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
	d := &Daemon{
		environment: environment{
			log:         options.Log,
			metrics:     options.Metrics,
			clock:       clock.New(options.Clock),
			dryRun:      options.DryRun,
			decided:     options.Decided,
			evaluations: make(chan string),
		},
		options:   options,
		store:     options.Store,
		notifier:  newNotifier(options.Notify, options.WatchdogInterval),
		ready:     make(chan []*pass, readyQueue),
		completed: make(chan *round, 16),
		swaps:     make(chan swapRequest),
		running:   make(chan struct{}),
		reloaded:  make(chan struct{}, 1),
		labels:    discovery.New(options.Log),
	}
	d.steps.Store(&clockSteps{})
	d.recorder = newRecorder(options.Store, d.clock, d.reportState)
	d.current.Store(&generation{config: &config.Config{}})
	d.metrics.Show(d.Autoscalers)
	d.metrics.ShowDiscovered(d.Discovered)
	d.metrics.ShowLost(d.lostParts)
	d.metrics.DryRun(options.DryRun)
	return d
}

// logOutput sends the output of instances to a log, a line at a time.
func logOutput(log *zap.Logger) func(service, instance string) io.Writer {
	return func(service, instance string) io.Writer {
		return &zapio.Writer{Log: log.With(zap.String("service", service), zap.String("instance", instance))}
	}
}

// errStopping is why calls end when the daemon does, and reloads are refused.
var errStopping = errors.New("hpad is stopping")

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
	for range first.next.config.Daemon.ConcurrentSyncs {
		workers.Go(d.work)
	}
	s := &scheduler{d: d, last: map[time.Duration]time.Time{}}
	s.swap(first)
	d.starting.Store(nil)
	d.reportLosses()
	d.prune()
	d.notifier.ready(d.statusLine())
	close(d.running)
	d.readers.Go(func() { d.discoverLabels(ctx) })
	d.log.Info("started", zap.Int("autoscalers", len(first.next.names)), zap.Bool("dry_run", d.options.DryRun))
	if d.options.DryRun {
		d.log.Warn(api.DryRun)
	}
	s.run(ctx)

	d.log.Info("stopping")
	d.notifier.stopping()
	err = d.stop(stopActing, func() {
		close(d.ready)
		workers.Wait()
	}, func() {
		d.keepUnfinished(s.newest)
		stopRecording()
		recorder.Wait()
	})
	d.log.Info("stopped", zap.NamedError("err", err))
	return err
}

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
		Log: d.log, Clock: d.clock, Store: d.store.Fleet, Earlier: d.earlierCount,
		Meter: func(fleet string) targets.Meter { return d.metrics.Platform(fleet) },
		// What fleets share outlives them, so that a reload is no way around the limits of
		// an account.
		Fleet:  targets.Env{Process: new(targets.Process), Output: d.options.Output, Now: d.clock.Now, DryRun: d.dryRun},
		Source: sources.Env{Clock: d.clock, Discover: d.discover, Answers: d.budgets.answers, Samples: d.budgets.samples},
	})
	d.clock.Resume(d.restored.Clock)
	d.lookAtClock()
	d.metrics.ClockOffset(d.clock.Scale().Offset())
	d.restored = d.restored.WithoutFuture(d.clock.Now())
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
	d.starting.Store(first.next)
	first.adapters.Start(ctx)
	d.recallEvents(ctx, first.next)
	return first, nil
}

// eventsRecalled is how old an event may be to be shown again after a restart:
// as long as Kubernetes keeps events.
const eventsRecalled = time.Hour

// recallEvents takes the events of the last hour from the history. They are for
// people alone, and so a history that cannot be read keeps nothing from running.
func (d *Daemon) recallEvents(ctx context.Context, g *generation) {
	for name := range d.restored.Autoscalers {
		a := g.autoscalers[name]
		if a == nil {
			continue
		}
		entries, err := d.store.History(ctx, name, d.clock.Now().Add(-eventsRecalled), time.Time{}, keptEvents)
		if err != nil {
			d.log.Warn("events before the restart are not shown", zap.NamedError("err", err))
			return
		}
		published := *a.published.Load()
		for _, entry := range entries {
			published.events = a.events.add(entry.Events, entry.Time)
		}
		a.published.Store(&published)
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
	stopActing(errStopping)
	d.adapters.Wait()
	var lost error
	if text := d.unwritten.Text(); text != "" {
		lost = fmt.Errorf("what could not be written is lost: %s", text)
	}
	return errors.Join(lost, d.current.Load().Set.Close())
}

// keepUnfinished has the passes recorded that the store was to replay once their
// round had completed, which the stop prevents.
func (d *Daemon) keepUnfinished(completed time.Time) {
	for _, a := range d.current.Load().autoscalers {
		a.keepUnfinished(d.recorder, completed)
	}
}

// work runs passes as they become ready.
func (d *Daemon) work() {
	var scratch observe.Scratch
	for passes := range d.ready {
		var recordings []*recording // of one commit, for the most part
		for _, p := range passes {
			if recording := p.evaluate(&scratch); recording != nil {
				recordings = append(recordings, recording)
			}
		}
		if len(recordings) > 0 {
			d.actors.Go(func() {
				for _, recording := range recordings {
					recording.wait()
					recording.pass.end()
				}
			})
		}
	}
}

// ticked notes that the scheduler is alive.
func (d *Daemon) ticked(now time.Time) {
	d.lastTick.Store(&now)
	d.notifier.status(d.statusLine, now)
}

// Evaluate evaluates an autoscaler at once, or as soon as the pass under way
// ends. A name that is not known is ignored.
func (d *Daemon) Evaluate(name string) { d.evaluate(name) }

// Reload reads the configuration again, builds what it asks for, and swaps it
// in. An error leaves everything as it was. It waits for a daemon that is only
// starting, until ctx ends.
func (d *Daemon) Reload(ctx context.Context) error {
	select {
	case <-d.running:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	d.reloads.Lock()
	defer d.reloads.Unlock()
	if d.runContext.Err() != nil {
		return errStopping
	}
	d.notifier.reloading()
	defer func() { d.notifier.ready(d.statusLine()) }()
	err := d.reload()
	d.metrics.Reload(err)
	d.refused.Set(err)
	if err != nil {
		d.log.Error("reload failed; the old configuration stays in force", zap.NamedError("err", err))
		return err
	}
	d.log.Info("reloaded", zap.Int("autoscalers", len(d.current.Load().names)))
	return nil
}

// reload reads the configuration and puts it in force.
func (d *Daemon) reload() error {
	c, err := d.options.Load()
	if err != nil {
		return err
	}
	if err := d.putInForce(c); err != nil {
		return err
	}
	select {
	case d.reloaded <- struct{}{}:
	default: // it will look anyway
	}
	d.warnFixed(c.Daemon)
	return nil
}

// warnFixed tells of changed keys that only a restart puts in force.
func (d *Daemon) warnFixed(next config.Daemon) {
	for _, key := range d.fixed.ChangedFixed(&next) {
		d.log.Warn("a changed key takes effect at the next start only", zap.String("key", key))
	}
}

// restore answers what the store knew of an autoscaler when the daemon started;
// nil when nothing, or when the autoscaler has been running since.
func (d *Daemon) restore(name string) *state.Record {
	record, ok := d.restored.Autoscalers[name]
	if !ok {
		return nil
	}
	return &record
}

// orphanKept is how long the record of an autoscaler that the configuration does
// not name is kept, in case it was left out by mistake. No window is longer.
const orphanKept = 24 * time.Hour

// prune has old orphans deleted. Once the daemon runs, the caller holds reloads. The younger ones stay, for a reload that names
// them again; the store replays no passes for them, as there are none.
func (d *Daemon) prune() {
	for name, record := range d.restored.Autoscalers {
		switch {
		case d.clock.Now().Sub(record.Through) > orphanKept:
			d.recorder.remove(name)
			delete(d.restored.Autoscalers, name)
		case record.Replay != nil:
			record.Replay = nil
			d.restored.Autoscalers[name] = record
			d.recorder.record(name, &record)
		}
	}
}

// reportState counts a write of the state, keeps whether it can be written, and
// logs when that changes.
func (d *Daemon) reportState(took time.Duration, records int, err error) {
	d.metrics.StateWrite(took, records, err)
	news, fields := d.unwritten.Set(err)
	switch {
	case news && err != nil:
		d.log.Error("state cannot be written; scaling goes on", append(fields, zap.NamedError("err", err))...)
	case news:
		d.log.Info("state can be written again", fields...)
	}
}
