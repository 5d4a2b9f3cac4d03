package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"go.uber.org/zap/zapio"
	"golang.org/x/sync/errgroup"

	"github.com/hpad/hpad/cmd/hpad/hint"
	"github.com/hpad/hpad/daemon"
	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/daemon/graph"
	"github.com/hpad/hpad/daemon/metrics"
	"github.com/hpad/hpad/daemon/state"
)

// errNoShell is why there is no demo in an image of hpad alone.
var errNoShell = errors.New("the demo starts processes, and there is no shell (sh) to watch over them here, as in hpad's container image; run it on a machine that has one")

// Run runs the demo for at most a time, or until ctx ends, shows it on out, and says
// at the end what happened. Its error may be that the fleet did not grow and shrink;
// that is none once ctx ends.
func Run(ctx context.Context, out io.Writer, duration time.Duration) (err error) {
	// A terminal that is closed ends the demo as Ctrl-C does, and so does output
	// that nobody reads: writing it is an error then, and not the end at once.
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGHUP)
	defer stop()
	broken := make(chan os.Signal, 1)
	signal.Notify(broken, syscall.SIGPIPE)
	defer signal.Stop(broken)

	if _, err := exec.LookPath("sh"); err != nil {
		return errNoShell
	}
	dir, err := makeDir()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	stage, err := setUp(ctx, dir, duration)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stage.close()) }()

	shown := newDisplay(out, stage.setup, stage.queue)
	if err := stage.run(ctx, shown, duration); err != nil {
		shown.lastWarnings()
		return err
	}
	shown.interrupted = ctx.Err() != nil
	return shown.conclude()
}

// socketPathLimit is how long the path of a socket may be.
const socketPathLimit = 107

// makeDir makes the directory that holds all that the demo writes. A
// temporary directory whose path is too long for a socket gives way to /tmp.
func makeDir() (string, error) {
	parent := os.TempDir()
	const longest = "/hpad-demo-0123456789/" + socketName
	if !filepath.IsAbs(parent) || len(parent)+len(longest) > socketPathLimit {
		parent = "/tmp"
	}
	dir, err := os.MkdirTemp(parent, "hpad-demo-")
	if err != nil {
		return "", hint.With(fmt.Errorf("make a directory for the demo: %w", err), "TMPDIR names another place for it")
	}
	return dir, nil
}

// socketName is the name of the daemon's socket in the demo's directory.
const socketName = "hpad.sock"

type stage struct {
	setup     Setup
	config    *config.Config
	store     state.Store
	listeners daemon.Listeners
	queue     *Queue
	server    *http.Server
	served    chan error
}

// setUp opens all that the demo needs, and serves the queue.
func setUp(ctx context.Context, dir string, duration time.Duration) (_ *stage, err error) {
	s := &stage{served: make(chan error, 1)}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	listener, workerPort, err := reservePorts(ctx)
	if err != nil {
		return s, err
	}
	registry := prometheus.NewRegistry()
	s.queue = NewQueue(registry)
	s.server = &http.Server{Handler: NewHandler(s.queue, registry), ReadHeaderTimeout: time.Minute}
	go func() { s.served <- s.server.Serve(listener) }()

	executable, err := os.Executable()
	if err != nil {
		return s, fmt.Errorf("find hpad's own program, which the workers run too: %w", err)
	}
	s.setup = Setup{
		Listen: "127.0.0.1:0", Socket: filepath.Join(dir, socketName), StateDir: filepath.Join(dir, "state"),
		Worker: []string{executable, "demo", "worker", "--queue"}, Queue: listener.Addr().String(),
		FirstPort: workerPort, Duration: duration,
	}
	if s.config, err = config.Parse("the demo's configuration", s.setup.Config()); err != nil {
		return s, err
	}
	if s.store, err = state.Open(s.setup.StateDir, state.Options{}); err != nil {
		return s, err
	}
	if s.listeners, err = daemon.Listen(ctx, s.config.Daemon); err != nil {
		return s, err
	}
	s.setup.Listen = s.listeners.TCP.Addr().String()
	return s, nil
}

// close ends the queue and the store. The workers are gone by then.
func (s *stage) close() error {
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
func (s *stage) run(ctx context.Context, shown *display, duration time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, duration)
	defer cancel()
	registry := prometheus.NewRegistry()
	measured := metrics.New(registry)
	log := newLog(shown)
	var d *daemon.Daemon
	d = daemon.New(daemon.Options{
		Load:    func() (*config.Config, error) { return s.config, nil },
		Store:   s.store,
		Graph:   graph.New(filepath.Join(s.setup.StateDir, "graph.db"), log, measured.LostPoints),
		Log:     log,
		Metrics: measured,
		// Workers say nothing unless something goes wrong.
		Output: func(_, instance string) io.Writer {
			return &zapio.Writer{Log: log.With(zap.String("worker", instance)), Level: zap.WarnLevel}
		},
		Decided: func(name string) {
			if view, ok := d.Autoscaler(name); ok {
				shown.decided(view)
			}
		},
	})
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return d.Serve(ctx, s.listeners, measured.Exposition(registry)) })
	group.Go(func() error { return d.Run(ctx) })
	group.Go(func() error {
		defer cancel() // the display also ends when nothing more would happen
		return shown.run(ctx)
	})
	group.Go(func() error {
		Load{Duration: duration}.Drive(ctx, s.queue)
		return nil
	})
	if err := group.Wait(); err != nil {
		return fmt.Errorf("run the demo: %w", err)
	}
	return nil
}

// Demos look for their ports in blocks of the same size, below those ports that
// the kernel gives away by itself. The first port of a block is the queue's, and
// as long as it is taken no other demo has the block.
const (
	firstBlock   = 20000
	blocks       = 500
	blockSize    = 1 + Ports
	portAttempts = 100
)

// reservePorts takes a block of ports that are free: it listens on the first and
// returns the second, which is the first of the workers'.
func reservePorts(ctx context.Context) (net.Listener, int, error) {
	var err error
	for range portAttempts {
		var listener net.Listener
		first := firstBlock + blockSize*rand.IntN(blocks)
		if listener, err = reserveBlock(ctx, first); err == nil {
			return listener, first + 1, nil
		}
	}
	return nil, 0, fmt.Errorf("find %d free ports on 127.0.0.1, one after the other: %w", blockSize, err)
}

// reserveBlock listens on the first port of a block whose other ports are free
// too.
func reserveBlock(ctx context.Context, first int) (net.Listener, error) {
	reserved, err := listenOn(ctx, first)
	if err != nil {
		return nil, err
	}
	for port := first + 1; port < first+blockSize; port++ {
		listener, err := listenOn(ctx, port)
		if err == nil {
			err = listener.Close()
		}
		if err != nil {
			return nil, errors.Join(err, reserved.Close())
		}
	}
	return reserved, nil
}

func listenOn(ctx context.Context, port int) (net.Listener, error) {
	return new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
}
