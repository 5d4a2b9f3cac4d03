// Package demo implements "hpad demo". It runs a queue of jobs, a load that rises and falls, worker
// processes that take jobs from the queue, and a daemon with one autoscaler for the workers.
package demo

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"text/template"
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
// error if the fleet did not grow and shrink, unless ctx ended. When it returns, all worker
// processes have ended.
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
	jobs := newQueue()
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listen for the demo's workers: %w", err)
	}
	service, served := &http.Server{Handler: jobs, ReadHeaderTimeout: time.Minute}, make(chan error, 1)
	guard.Go(func() { served <- service.Serve(listener) })
	defer func() {
		err = errors.Join(err, service.Close())
		if failure := <-served; !errors.Is(failure, http.ErrServerClosed) {
			err = errors.Join(err, fmt.Errorf("serve the demo's queue: %w", failure))
		}
	}()
	c, err := configure(dir, "http://"+listener.Addr().String(), duration)
	if err != nil {
		return err
	}
	shown := &display{out: zapcore.Lock(zapcore.AddSync(out)), queue: jobs, duration: duration}
	if err := shown.daemon(ctx, c); err != nil {
		return fmt.Errorf("run the demo: %w", err)
	}
	return shown.conclude(ctx.Err() != nil)
}

//go:embed setup.toml.tmpl
var setup string

// The window of scale-downs is one twelfth of the duration, within these limits.
const (
	minWindow = 3 * time.Second
	maxWindow = 15 * time.Second
)

// configure returns the configuration of a demo with its state in a directory.
func configure(dir, queue string, duration time.Duration) (*config.Config, error) {
	executable, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find the hpad executable: %w", err)
	}
	var text bytes.Buffer
	err = template.Must(template.New("").Parse(setup)).Execute(&text, map[string]any{
		"Dir": dir, "Executable": executable, "Queue": queue, "Window": min(max((duration/12).Round(time.Second), minWindow), maxWindow),
	})
	if err != nil {
		return nil, err
	}
	return config.Parse("the demo's configuration", text.Bytes())
}

// daemon runs the daemon, the load and the display until the demo has finished or ctx ends.
func (s *display) daemon(ctx context.Context, c *config.Config) (err error) {
	store, err := state.Open(c.Daemon.StateDir, state.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	listeners, err := server.Listen(ctx, c.Daemon)
	if err != nil {
		return err
	}
	registry := prometheus.NewRegistry()
	measured := metrics.New(registry)
	encoding := zap.NewProductionEncoderConfig()
	encoding.TimeKey, encoding.LevelKey, encoding.CallerKey, encoding.StacktraceKey = "", "", "", ""
	log := zap.New(zapcore.NewCore(zapcore.NewConsoleEncoder(encoding), zapcore.AddSync(s.out), zap.ErrorLevel))
	d := daemon.New(daemon.Options{
		Load:    func(context.Context) (*config.Config, error) { return c, nil },
		Store:   store,
		Graph:   graph.New(filepath.Join(c.Daemon.StateDir, "graph.db"), log, measured.LostPoints),
		Log:     log,
		Metrics: measured,
		Output: func(_, instance string) io.Writer { // workers print nothing except errors
			return &zapio.Writer{Log: log.With(zap.String("worker", instance)), Level: zap.ErrorLevel}
		},
	})
	ctx, cancel := context.WithTimeout(ctx, s.duration)
	defer cancel()
	group, ctx := guard.WithContext(ctx)
	group.Go(func() error { return d.Serve(ctx, listeners, measured.Exposition(registry)) })
	group.Go(func() error { return d.Run(ctx) })
	group.Go(func() error {
		defer cancel() // the display may end the demo early
		return s.run(ctx, d.Autoscaler, c.Daemon.Socket, listeners.TCP.Addr().String())
	})
	group.Go(func() error {
		s.queue.drive(ctx, s.duration)
		return nil
	})
	return group.Wait()
}
