package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"go.uber.org/zap/zapio"
	"golang.org/x/sync/errgroup"

	"github.com/hpad/hpad/daemon"
	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/daemon/demo"
	"github.com/hpad/hpad/daemon/metrics"
	"github.com/hpad/hpad/daemon/state"
)

// runDemo runs the demo for a time, or until ctx ends, shows it, and says at the
// end what happened. Its error may be that the fleet did not grow and shrink.
func runDemo(ctx context.Context, stream streams, duration time.Duration) (err error) {
	// A terminal that is closed ends the demo as Ctrl-C does, and so does output
	// that nobody reads: writing it is an error then, and not the end at once.
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGHUP)
	defer stop()
	broken := make(chan os.Signal, 1)
	signal.Notify(broken, syscall.SIGPIPE)
	defer signal.Stop(broken)

	dir, err := makeDemoDir()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	stage, err := setDemoUp(ctx, dir, duration)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stage.close()) }()

	show := newDemoShow(stream.out, stage.setup, stage.queue)
	if err := stage.run(ctx, show, duration); err != nil {
		show.lastNotes()
		return err
	}
	return show.conclude()
}

// socketPathLimit is how long the path of a socket may be.
const socketPathLimit = 107

// makeDemoDir makes the directory that holds all that the demo writes. A
// temporary directory whose path is too long for a socket gives way to /tmp.
func makeDemoDir() (string, error) {
	parent := os.TempDir()
	const longest = "/hpad-demo-0123456789/" + demoSocket
	if !filepath.IsAbs(parent) || len(parent)+len(longest) > socketPathLimit {
		parent = "/tmp"
	}
	dir, err := os.MkdirTemp(parent, "hpad-demo-")
	if err != nil {
		return "", withHint(fmt.Errorf("make a directory for the demo: %w", err), "TMPDIR names another place for it")
	}
	return dir, nil
}

// demoSocket is the name of the daemon's socket in the demo's directory.
const demoSocket = "hpad.sock"

// demoStage is all that runs in the demo beside its workers.
type demoStage struct {
	setup     demo.Setup
	config    *config.Config
	store     state.Store
	listeners daemon.Listeners
	queue     *demo.Queue
	server    *http.Server
	served    chan error
}

// setDemoUp opens all that the demo needs, and serves the queue.
func setDemoUp(ctx context.Context, dir string, duration time.Duration) (stage *demoStage, err error) {
	stage = &demoStage{served: make(chan error, 1)}
	defer func() {
		if err != nil {
			err = errors.Join(err, stage.close())
		}
	}()
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return stage, fmt.Errorf("serve the demo's queue: %w", err)
	}
	registry := prometheus.NewRegistry()
	stage.queue = demo.NewQueue(registry)
	stage.server = &http.Server{Handler: demo.NewHandler(stage.queue, registry), ReadHeaderTimeout: time.Minute}
	go func() { stage.served <- stage.server.Serve(listener) }()

	executable, err := os.Executable()
	if err != nil {
		return stage, fmt.Errorf("find hpad's own program, which the workers run too: %w", err)
	}
	ports, err := freePorts(ctx, demo.Ports)
	if err != nil {
		return stage, err
	}
	stage.setup = demo.Setup{
		Listen: "127.0.0.1:0", Socket: filepath.Join(dir, demoSocket), StateDir: filepath.Join(dir, "state"),
		Worker: []string{executable, "demo", "worker", "--queue"}, Queue: listener.Addr().String(),
		FirstPort: ports, Duration: duration,
	}
	if stage.config, err = config.Parse("the demo's configuration", stage.setup.Config()); err != nil {
		return stage, err
	}
	if stage.store, err = state.Open(stage.setup.StateDir, state.Options{}); err != nil {
		return stage, err
	}
	if stage.listeners, err = daemon.Listen(ctx, stage.config.Daemon); err != nil {
		return stage, err
	}
	stage.setup.Listen = stage.listeners.TCP.Addr().String()
	return stage, nil
}

// close ends the queue and the store. The workers are gone by then.
func (s *demoStage) close() error {
	var errs []error
	if s.server != nil {
		errs = append(errs, s.server.Close())
		if err := <-s.served; !errors.Is(err, http.ErrServerClosed) {
			errs = append(errs, fmt.Errorf("serve the demo's queue: %w", err))
		}
	}
	if s.store != nil {
		errs = append(errs, s.store.Close())
	}
	return errors.Join(errs...)
}

// run runs the daemon and the load for a time, or until ctx ends. All processes
// are gone when it returns.
func (s *demoStage) run(ctx context.Context, show *demoShow, duration time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, duration)
	defer cancel()
	registry := prometheus.NewRegistry()
	log := demoLog(show)
	var d *daemon.Daemon
	d = daemon.New(daemon.Options{
		Load:    func() (*config.Config, error) { return s.config, nil },
		Store:   s.store,
		Log:     log,
		Metrics: metrics.New(registry),
		// Workers say nothing unless something goes wrong.
		Output: func(_, instance string) io.Writer {
			return &zapio.Writer{Log: log.With(zap.String("worker", instance)), Level: zap.WarnLevel}
		},
		Decided: func(name string) {
			if view, ok := d.Autoscaler(name); ok {
				show.decided(view)
			}
		},
	})
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return d.Serve(ctx, s.listeners, registry) })
	group.Go(func() error { return d.Run(ctx) })
	group.Go(func() error { return show.run(ctx) })
	group.Go(func() error {
		demo.Load{Duration: duration}.Drive(ctx, s.queue)
		return nil
	})
	if err := group.Wait(); err != nil {
		return fmt.Errorf("run the demo: %w", err)
	}
	return nil
}

// The range in which the demo looks for ports: below those that the kernel gives
// away by itself.
const (
	lowestDemoPort  = 20000
	highestDemoPort = 32000
	portAttempts    = 100
)

// freePorts answers the first of n free ports on 127.0.0.1, one after the other.
func freePorts(ctx context.Context, n int) (int, error) {
	var err error
	for range portAttempts {
		first := lowestDemoPort + rand.IntN(highestDemoPort-lowestDemoPort-n)
		if err = tryPorts(ctx, first, n); err == nil {
			return first, nil
		}
	}
	return 0, fmt.Errorf("find %d free ports on 127.0.0.1, one after the other: %w", n, err)
}

// tryPorts answers why one of n ports is not free.
func tryPorts(ctx context.Context, first, n int) (err error) {
	for port := first; port < first+n; port++ {
		listener, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, listener.Close()) }()
	}
	return nil
}
