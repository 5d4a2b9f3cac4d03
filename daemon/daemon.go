package daemon

import (
	"cmp"
	"context"
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
	"github.com/hpad/hpad/daemon/endpoints"
	"github.com/hpad/hpad/daemon/graph"
	"github.com/hpad/hpad/daemon/metrics"
	"github.com/hpad/hpad/daemon/problem"
	"github.com/hpad/hpad/daemon/records"
	"github.com/hpad/hpad/daemon/round"
	"github.com/hpad/hpad/daemon/server"
	"github.com/hpad/hpad/daemon/state"
	"github.com/hpad/hpad/daemon/status"
	"github.com/hpad/hpad/guard"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/settings"
	"github.com/hpad/hpad/targets/clock"
)

// Options are the dependencies of a Daemon, except its configuration.
type Options struct {
	// Load reads the configuration at startup and for each reload.
	Load func(context.Context) (*config.Config, error)
	// Store stores the state. The daemon does not close it.
	Store state.Store
	// Probe returns an error if the state cannot be stored, such as state.Probe. The daemon calls it
	// every 5 seconds. It may be nil.
	Probe func() error
	// Graph stores the data points of graphs while the daemon runs; it may be nil.
	Graph *graph.Store
	// Log may be nil.
	Log *zap.Logger
	// Metrics contains the daemon's own metrics. It is nil if they are not exported.
	Metrics *metrics.Metrics
	// DryRun disables all count changes.
	DryRun bool
	// Adopter is the user whose "hpad cluster adopt" changed the configuration before this start,
	// or empty.
	Adopter string
	// Takeover names the last owner of the fleet in a cluster, if it was another member, or is nil.
	Takeover *settings.Takeover
	// Pause returns a pause of all autoscalers, with times of the wall clock, that the daemon activates
	// before its first pass, or nil. Pause may be nil.
	Pause func() *policy.Pause
	// Until returns the time, on Go's monotonic clock, until which the daemon can change the
	// platforms; after that time, passes still decide, but every write fails. If Until is set, each
	// write of a count requires a committed intention. Until is nil if the fleets are not shared
	// with other daemons.
	Until func() time.Time
	// LeaseProblem returns the reason why the lease is not renewed, or "" if it is unknown. It may be nil.
	LeaseProblem func() string
	// StoreTimeout is the maximum time that a pass waits for a commit; 0 means 10 s.
	StoreTimeout time.Duration
	// Output returns the writer for the output of an instance that a fleet runs. If Output is nil,
	// output is logged to Log.
	Output func(service, instance string) io.Writer
	// KeepProcesses leaves the processes of fleets running when the daemon stops. The next daemon
	// with the same store adopts them.
	KeepProcesses bool
	// Notify sends the daemon's state to the service manager, as in sd_notify(3); it may be nil.
	Notify func(state string)
	// WatchdogInterval is the service manager's watchdog interval; 0 if there is no watchdog.
	WatchdogInterval time.Duration
	// Clock provides the time. The zero value uses the clocks of the host.
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
	adapters  *adapters.Manager
	labels    *discovery.Labels
	budgets   budgets
	endpoints *endpoints.Set
	// restored is the state that was loaded at startup, without the autoscalers that have run
	// since, plus the records of removed discovered autoscalers. The mutex reloads protects it
	// while the daemon runs.
	restored state.Snapshot
	// reloadError is the error of the last reload.
	reloadError problem.Problem
	// startConfig contains the configuration tables as written at startup, because some keys only
	// take effect at startup.
	startConfig config.Config
	// reloads is locked during a reload.
	reloads sync.Mutex
	// reloaded signals to discover that the sync period might have changed.
	reloaded chan struct{}
	// running is closed when the first generation is active.
	running chan struct{}
	// background tracks goroutines that stop with the run context.
	background guard.Tasks
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
		options.Output = LogOutput(options.Log)
	}
	env := &round.Env{
		Log: options.Log, Metrics: options.Metrics, Clock: clock.New(options.Clock), Graph: options.Graph,
		DryRun: options.DryRun, Until: options.Until, LeaseProblem: options.LeaseProblem,
		StoreTimeout: cmp.Or(options.StoreTimeout, 10*time.Second), Decided: options.Decided,
	}
	env.Pauses.Restore(nil)
	env.Recorder = records.NewRecorder(options.Store, env.Clock, env.Log, env.ReportCommit)
	d := &Daemon{
		options: options, env: env, labels: discovery.New(options.Log),
		reloaded: make(chan struct{}, 1), running: make(chan struct{}),
	}
	d.service = round.NewServiceManager(options.Notify, options.WatchdogInterval, func() string { return d.Line() })
	d.scheduler = round.NewScheduler(env, d.service)
	d.Reader = status.NewReader(env, d.scheduler, options.Store, d.labels, &d.reloadError)
	d.ShowMetrics(options.Metrics)
	options.Metrics.DryRun(options.DryRun)
	return d
}

// LogOutput returns a function for [Options.Output] that logs the output of instances line by line.
func LogOutput(log *zap.Logger) func(service, instance string) io.Writer {
	return func(service, instance string) io.Writer {
		return &zapio.Writer{Log: log.With(zap.String("service", service), zap.String("instance", instance))}
	}
}

// Evaluate evaluates an autoscaler immediately, or after its active pass. It ignores unknown names.
func (d *Daemon) Evaluate(name string) { d.env.Evaluate(name) }

// Serve serves the daemon's API on the listeners until ctx ends, and closes them.
func (d *Daemon) Serve(ctx context.Context, l server.Listeners, gatherer prometheus.Gatherer) error {
	return server.Serve(ctx, l, server.Options{Daemon: d, Gatherer: gatherer, Log: d.env.Log, Writers: d.writers})
}

// writers returns the users that can write over TCP, and false before a configuration is active.
func (d *Daemon) writers() ([]string, bool) {
	select {
	case <-d.running:
		return d.scheduler.Current().Config.Daemon.Writers, true
	default:
		return nil, false
	}
}

// DiskError returns the error of the last commit if the last commits, at least the given number,
// failed on this host's disk, and nil otherwise.
func (d *Daemon) DiskError(commits int32) error { return d.env.DiskError(commits) }

var errStopping = fmt.Errorf("%w: %w", api.ErrMoving, round.ErrStopping)

// AwaitRunning waits until the first configuration is active. The error is the cause of ctx, or
// round.ErrStopping as an api.ErrMoving.
func (d *Daemon) AwaitRunning(ctx context.Context) error {
	select {
	case <-d.running:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if d.env.RunContext.Err() != nil {
		return errStopping
	}
	return nil
}
