package process

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hpad/hpad/guard"
)

const (
	// collectorStart limits the wait for a collector, and flushLimit the wait until it has read the
	// output of a process that has ended.
	collectorStart = 10 * time.Second
	flushLimit     = time.Second
	// collectorRetry is the time between two attempts to reach a collector.
	collectorRetry = 10 * time.Millisecond
)

// collector starts the collector of a directory when the first output needs it. If the collector
// ends, it starts another.
type collector struct {
	dir    string
	launch func(*exec.Cmd) (*child, error)
	// lost is called after a collector has ended.
	lost func()

	once   sync.Once
	ctx    context.Context
	cancel context.CancelFunc
	tasks  guard.Tasks

	mu sync.Mutex
	// process is the last collector that was started, and started the time of its start.
	process *child
	started time.Time
}

func newCollector(dir string, launch func(*exec.Cmd) (*child, error), lost func()) *collector {
	c := &collector{dir: dir, launch: launch, lost: lost}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c
}

// collect makes the collector read the output of a file. It returns the number of bytes of output
// after it has read what exists. It fails after a limit.
func (c *collector) collect(path string, limit time.Duration) (end int64, err error) {
	c.once.Do(func() { c.tasks.Go(func() { guard.Loop(c.ctx, c.watch) }) })
	ctx, cancel := context.WithTimeout(c.ctx, limit)
	defer cancel()
	conn, err := c.connect(ctx)
	if err != nil {
		return 0, err
	}
	defer func() { _ = conn.Close() }()
	deadline, _ := ctx.Deadline()
	_ = conn.SetDeadline(deadline)
	var response collectResponse
	if err = json.NewEncoder(conn).Encode(collectRequest{Path: path}); err == nil {
		err = json.NewDecoder(conn).Decode(&response)
	}
	switch {
	case err != nil && ctx.Err() == nil && !errors.Is(err, os.ErrDeadlineExceeded):
		return c.collect(path, time.Until(deadline)) // the collector has just ended
	case err != nil:
		return 0, fmt.Errorf("collect output: %w", err)
	case response.Error != "":
		return 0, fmt.Errorf("collect output: %s", response.Error)
	}
	return response.End, nil
}

// watch holds a connection, because a collector without one ends.
func (c *collector) watch() {
	for c.ctx.Err() == nil {
		conn, err := c.connect(c.ctx)
		if err != nil {
			select {
			case <-time.After(time.Second): // collect returns the error
			case <-c.ctx.Done():
			}
			continue
		}
		stop := context.AfterFunc(c.ctx, func() { _ = conn.Close() })
		_, _ = io.Copy(io.Discard, conn)
		_ = conn.Close()
		if stop() {
			c.lost()
		}
	}
}

// connect connects to the collector, and starts it if necessary.
func (c *collector) connect(ctx context.Context) (net.Conn, error) {
	dir, err := os.Open(c.dir)
	if err != nil {
		return nil, err
	}
	defer func() { _ = dir.Close() }()
	// The path of the directory can be longer than the address of a socket.
	address := filepath.Join("/proc/self/fd", fmt.Sprint(dir.Fd()), collectorSocket)
	for {
		conn, err := new(net.Dialer).DialContext(ctx, "unix", address)
		if err == nil {
			return conn, nil
		}
		if !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ECONNREFUSED) && !errors.Is(err, unix.EAGAIN) {
			return nil, fmt.Errorf("connect to the process that collects output: %w", err)
		}
		if err := c.start(); err != nil {
			return nil, fmt.Errorf("start the process that collects output: %w", err)
		}
		select {
		case <-time.After(collectorRetry):
		case <-ctx.Done():
			return nil, fmt.Errorf("start the process that collects output: %w", err)
		}
	}
}

// start starts a collector unless it has just started one. The new one ends at once if the directory
// has another.
func (c *collector) start() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.process != nil {
		select {
		case <-c.process.exited:
		default:
			if time.Since(c.started) < collectorStart/2 {
				return nil
			}
			// Another program has deleted its directory.
		}
	}
	// The empty environment hides the sockets and credentials of hpad.
	cmd := &exec.Cmd{Path: "/proc/self/exe", Args: []string{collectorName}, Dir: c.dir, Env: []string{}}
	process, err := c.launch(cmd)
	if err == nil {
		c.process, c.started = process, time.Now()
	}
	return err
}

// close stops using the collector, which ends after the last process.
func (c *collector) close() {
	c.cancel()
	c.once.Do(func() {}) // no watch begins
	c.tasks.Wait()
}
