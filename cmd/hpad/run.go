package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"syscall"
	"time"

	sd "github.com/coreos/go-systemd/v22/daemon"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/hpad/hpad/cmd/hpad/hint"
	"github.com/hpad/hpad/daemon"
	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/daemon/graph"
	"github.com/hpad/hpad/daemon/metrics"
	"github.com/hpad/hpad/daemon/problem"
	"github.com/hpad/hpad/daemon/server"
	"github.com/hpad/hpad/daemon/state"
	"github.com/hpad/hpad/guard"
)

// defaultConfig is the default path of the configuration.
const defaultConfig = "/etc/hpad/hpad.toml"

func newRunCommand(stream streams) *cobra.Command {
	var file string
	var logs logFlags
	var dryRun bool
	cmd := &cobra.Command{
		Use:        "run [FILE]",
		SuggestFor: []string{"start", "serve", "daemon"},
		Short:      "Run the autoscalers of a configuration",
		Long: `Run the autoscalers of a configuration until SIGTERM or SIGINT. SIGHUP reloads the
configuration; an invalid configuration is logged and changes nothing.`,
		Example: "  hpad run hpad.toml\n  hpad run --config hpad.toml --dry-run",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, files []string) error {
			if len(files) > 0 {
				if cmd.Flags().Changed("config") {
					return wrongUse(errors.New("--config and FILE are mutually exclusive"), helpHint(cmd))
				}
				file = files[0]
			}
			log, output, err := logs.loggers(stream.err)
			if err != nil {
				return err
			}
			defer func() { _ = log.Sync() }()
			return runDaemon(cmd.Context(), runOptions{file: file, dryRun: dryRun, log: log, output: output})
		},
	}
	cmd.Flags().StringVar(&file, "config", cmp.Or(os.Getenv(configVariable), defaultConfig), "configuration `file`, same as FILE, with conf.d/*.toml next to it; env "+configVariable)
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "evaluate and record decisions, but never write a count")
	logs.add(cmd)
	return cmd
}

type runOptions struct {
	file   string
	dryRun bool
	log    *zap.Logger
	// output receives the output of workers; nil means log.
	output *zap.Logger
}

// gcPercent replaces Go's default of 100 unless GOGC is set. With 10,000 autoscalers, it saves a
// quarter of the resident memory and costs about 5 percent of the CPU time.
const gcPercent = 60

// runDaemon runs the daemon and its API with the configuration in a file until ctx ends.
func runDaemon(ctx context.Context, options runOptions) (err error) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	// Without a handler, a SIGHUP would kill the process.
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	defer signal.Stop(hangups)
	guard.OnPanic(func(caught *guard.Panic) { problem.LogPanic(options.log, "goroutine", "background", caught) })
	first, err := config.Load(ctx, options.file)
	if err != nil {
		return hint.With(err, fmt.Sprintf("\"hpad check %s\" prints the same errors without starting anything", options.file))
	}
	if first.HA != nil && options.dryRun {
		return hint.With(errors.New("--dry-run cannot be used with [ha]: a member in a dry run would own fleets without scaling them"),
			"for a dry run, use a copy of the configuration without [ha] and with another state_dir")
	}
	store, err := state.Open(first.Daemon.StateDir, state.Options{Log: options.log})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	listeners, err := server.Listen(ctx, first.Daemon)
	if err != nil {
		return err
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	measured := metrics.New(registry)
	var graphs *graph.Store
	if first.Daemon.Page {
		graphs = graph.New(filepath.Join(first.Daemon.StateDir, "graph.db"), options.log, measured.LostPoints)
	}
	daemonOptions := daemon.Options{
		Load:             loadOnce(first, options.file),
		Store:            store,
		Probe:            func() error { return state.Probe(first.Daemon.StateDir) },
		Graph:            graphs,
		Log:              options.log,
		Output:           daemon.LogOutput(cmp.Or(options.output, options.log)),
		Metrics:          measured,
		DryRun:           options.dryRun,
		Notify:           notify(options.log),
		WatchdogInterval: watchdogInterval(options.log),
	}
	if first.HA != nil {
		member, err := newMember(first, daemonOptions)
		if err != nil {
			return errors.Join(err, listeners.Close())
		}
		defer func() { err = errors.Join(err, member.coordinator.Close()) }()
		return runAll(ctx, member, hangups, func(ctx context.Context) error {
			return server.Serve(ctx, listeners, member.served(measured.Exposition(prometheus.Gatherers{registry, member}), options.log))
		})
	}
	daemonOptions.KeepProcesses = os.Getenv("NOTIFY_SOCKET") != ""
	d := daemon.New(daemonOptions)
	return runAll(ctx, d, hangups, func(ctx context.Context) error { return d.Serve(ctx, listeners, measured.Exposition(registry)) })
}

// watchdogInterval returns the watchdog interval of the service manager, or 0.
func watchdogInterval(log *zap.Logger) time.Duration {
	interval, err := sd.SdWatchdogEnabled(false)
	if err != nil {
		log.Warn("read watchdog settings", zap.NamedError("err", err))
	}
	return interval
}

// runner is a daemon, or a member of a cluster.
type runner interface {
	Run(ctx context.Context) error
	Reload(ctx context.Context) ([]config.Change, error)
}

// runAll runs a daemon, its servers and its reloads until ctx ends.
func runAll(ctx context.Context, d runner, hangups <-chan os.Signal, serve func(context.Context) error) error {
	group, ctx := guard.WithContext(ctx)
	group.Go(func() error { return serve(ctx) })
	group.Go(func() error { return reloadOnHangup(ctx, d, hangups) })
	group.Go(func() error { return ended(ctx, d.Run(ctx)) })
	if err := group.Wait(); !errors.Is(err, errEnded) {
		return err
	}
	return nil
}

// errEnded cancels the group after the daemon has ended without an error.
var errEnded = errors.New("ended")

// ended replaces nil with errEnded, so that the group does not continue without the daemon.
func ended(ctx context.Context, err error) error {
	if err == nil && ctx.Err() != nil {
		return errEnded
	}
	return err
}

// loadOnce returns a function that returns first on its first call, and loads the file on later
// calls.
func loadOnce(first *config.Config, file string) func(context.Context) (*config.Config, error) {
	return func(ctx context.Context) (*config.Config, error) {
		if c := first; c != nil {
			first = nil
			return c, nil
		}
		return config.Load(ctx, file)
	}
}

func notify(log *zap.Logger) func(state string) {
	return func(state string) {
		if _, err := sd.SdNotify(false, state); err != nil {
			log.Warn("notify service manager", zap.String("state", state), zap.NamedError("err", err))
		}
	}
}

// reloadOnHangup reloads the configuration on each SIGHUP until ctx ends. The daemon logs errors.
func reloadOnHangup(ctx context.Context, d runner, hangups <-chan os.Signal) error {
	for {
		select {
		case <-hangups:
			guard.Run(func() { _, _ = d.Reload(api.WithAuthor(ctx, api.AuthorSignal)) })
		case <-ctx.Done():
			return nil
		}
	}
}
