// Package demo implements "hpad demo". It runs a queue of jobs, a load that rises and falls, worker
// processes that take jobs from the queue, and a daemon with one autoscaler for the workers.
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
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zapio"

	"github.com/hpad/hpad/cmd/hpad/hint"
	"github.com/hpad/hpad/daemon"
	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/daemon/graph"
	"github.com/hpad/hpad/daemon/metrics"
	"github.com/hpad/hpad/daemon/server"
	"github.com/hpad/hpad/daemon/state"
	"github.com/hpad/hpad/guard"
)

// errNoShell means that the process fleet cannot start processes.
var errNoShell = errors.New("the demo needs a shell (sh) to start processes, and hpad's container image has no shell; run the demo on a host with a shell")

// Run runs the demo for at most duration, or until ctx ends, and prints it to out. It returns an
// error if the fleet did not grow and shrink, unless ctx ended.
func Run(ctx context.Context, out io.Writer, duration time.Duration) (err error) {
	// A closed terminal ends the demo like Ctrl-C. Without a handler, SIGPIPE would kill hpad
	// before it stops the workers.
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGHUP)
	defer stop()
	broken := make(chan os.Signal, 1)
	signal.Notify(broken, syscall.SIGPIPE)
	defer signal.Stop(broken)

	if _, err := exec.LookPath("sh"); err != nil {
		return errNoShell
	}
	dir, err := os.MkdirTemp("", "hpad-demo-")
	if err != nil {
		return hint.With(fmt.Errorf("create a directory for the demo: %w", err), "set TMPDIR to use another directory")
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	s, err := setUp(ctx, dir, duration)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()

	shown := newDisplay(zapcore.Lock(zapcore.AddSync(out)), s.setup, s.queue)
	if err := s.run(ctx, shown); err != nil {
		return err
	}
	shown.interrupted = ctx.Err() != nil
	return shown.conclude()
}

// services contains everything that the demo needs in addition to the daemon and the load.
type services struct {
	setup     Setup
	config    *config.Config
	store     state.Store
	listeners server.Listeners
	queue     *Queue
	server    *http.Server
	served    chan error
}

// setUp opens everything that the demo needs and starts serving the queue.
func setUp(ctx context.Context, dir string, duration time.Duration) (_ *services, err error) {
	s := &services{served: make(chan error, 1)}
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
	guard.Go(func() { s.served <- s.server.Serve(listener) })

	executable, err := os.Executable()
	if err != nil {
		return s, fmt.Errorf("find the hpad executable: %w", err)
	}
	s.setup = Setup{
		Listen: "127.0.0.1:0", Socket: filepath.Join(dir, "hpad.sock"), StateDir: filepath.Join(dir, "state"),
		Worker: []string{executable, "demo", "worker", "--queue"}, Queue: listener.Addr().String(),
		FirstPort: workerPort, Duration: duration,
	}
	if s.config, err = config.Parse("the demo's configuration", s.setup.Config()); err != nil {
		return s, err
	}
	if s.store, err = state.Open(s.setup.StateDir, state.Options{}); err != nil {
		return s, err
	}
	if s.listeners, err = server.Listen(ctx, s.config.Daemon); err != nil {
		return s, err
	}
	s.setup.Listen = s.listeners.TCP.Addr().String()
	return s, nil
}

// close stops the queue and closes the store.
func (s *services) close() error {
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

// run runs the daemon and the load until the demo has finished or ctx ends. When it returns, all
// worker processes have ended.
func (s *services) run(ctx context.Context, shown *display) error {
	ctx, cancel := context.WithTimeout(ctx, s.setup.Duration)
	defer cancel()
	registry := prometheus.NewRegistry()
	measured := metrics.New(registry)
	encoding := zap.NewProductionEncoderConfig()
	encoding.TimeKey, encoding.LevelKey, encoding.CallerKey, encoding.StacktraceKey = "", "", "", ""
	log := zap.New(zapcore.NewCore(zapcore.NewConsoleEncoder(encoding), zapcore.AddSync(shown.out), zap.ErrorLevel))
	var d *daemon.Daemon
	d = daemon.New(daemon.Options{
		Load:    func(context.Context) (*config.Config, error) { return s.config, nil },
		Store:   s.store,
		Graph:   graph.New(filepath.Join(s.setup.StateDir, "graph.db"), log, measured.LostPoints),
		Log:     log,
		Metrics: measured,
		Output: func(_, instance string) io.Writer { // workers print nothing except errors
			return &zapio.Writer{Log: log.With(zap.String("worker", instance)), Level: zap.ErrorLevel}
		},
		Decided: func(name string) {
			if view, ok := d.Autoscaler(name); ok {
				shown.decided(view)
			}
		},
	})
	group, ctx := guard.WithContext(ctx)
	group.Go(func() error { return d.Serve(ctx, s.listeners, measured.Exposition(registry)) })
	group.Go(func() error { return d.Run(ctx) })
	group.Go(func() error {
		defer cancel() // the display may end the demo early
		return shown.run(ctx)
	})
	group.Go(func() error {
		drive(ctx, s.queue, s.setup.Duration)
		return nil
	})
	if err := group.Wait(); err != nil {
		return fmt.Errorf("run the demo: %w", err)
	}
	return nil
}

// Ports are reserved in blocks of equal size below the kernel's ephemeral ports. The queue listens
// on the first port, which prevents other demos from using the block.
const (
	firstBlock   = 20000
	blocks       = 500
	blockSize    = 1 + Ports
	portAttempts = 100
)

// reservePorts finds a block of free ports. It returns a listener on the first port and the number
// of the second port.
func reservePorts(ctx context.Context) (listener net.Listener, next int, err error) {
	for range portAttempts {
		first := firstBlock + blockSize*rand.IntN(blocks)
		if listener, err = listen(ctx, first); err != nil {
			continue
		}
		for port := first + 1; port < first+blockSize && err == nil; port++ {
			var free net.Listener
			if free, err = listen(ctx, port); err == nil {
				err = free.Close()
			}
		}
		if err == nil {
			return listener, first + 1, nil
		}
		_ = listener.Close()
	}
	return nil, 0, fmt.Errorf("find %d consecutive free ports on 127.0.0.1: %w", blockSize, err)
}

func listen(ctx context.Context, port int) (net.Listener, error) {
	return new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
}
