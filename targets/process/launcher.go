package process

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// outputDelay is how long a descendant outside of the process group can still write output.
const outputDelay = time.Second

// groupDelay is the maximum wait until a killed process group has ended.
const groupDelay = time.Second

// launcher starts processes and assigns ports. Fleets that succeed each other at reloads share
// it. The last fleet stops it.
type launcher struct {
	starts chan func()

	mu     sync.Mutex
	owners int
	ended  chan struct{}
	ports  map[int]bool
	// freed is closed and replaced when a port is released.
	freed chan struct{}
}

// newLauncher returns a launcher with one owner.
func newLauncher() *launcher {
	n := &launcher{starts: make(chan func()), owners: 1, ended: make(chan struct{}), ports: map[int]bool{}, freed: make(chan struct{})}
	go n.startAll()
	return n
}

func (n *launcher) share() *launcher {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.owners++
	return n
}

// release removes an owner. The last owner must call it after all children have ended.
func (n *launcher) release() {
	n.mu.Lock()
	n.owners--
	last := n.owners == 0
	n.mu.Unlock()
	if last {
		close(n.starts)
		<-n.ended
	}
}

// startAll starts processes on one thread that lives as long as they do, because the kernel
// sends PDEATHSIG when the thread that started a process ends.
func (n *launcher) startAll() {
	defer close(n.ended)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for start := range n.starts {
		start()
	}
}

// takePort returns the lowest free port of a range. If no port is free, it waits.
func (n *launcher) takePort(ctx context.Context, ports portRange) (int, error) {
	for {
		n.mu.Lock()
		for port := ports.first; port <= ports.last; port++ {
			if !n.ports[port] {
				n.ports[port] = true
				n.mu.Unlock()
				return port, nil
			}
		}
		freed := n.freed
		n.mu.Unlock()
		select {
		case <-freed:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

func (n *launcher) freePort(port int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.ports, port)
	close(n.freed)
	n.freed = make(chan struct{})
}

// child is a started process and its process group.
type child struct {
	cmd     *exec.Cmd
	started time.Time
	// exited is closed after the process and its group have ended. err is set before.
	exited chan struct{}
	err    error

	terminated sync.Once

	mu sync.Mutex
	// reaped reports whether the process was waited for, so that its number may be reused.
	reaped bool
}

// errExit is the error of a process that exits with status 0.
var errExit = errors.New("exit status 0")

// start starts a process as the leader of its own process group. If hpad is killed, the kernel
// kills the process, but not its children.
func (n *launcher) start(cmd *exec.Cmd) (*child, error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.WaitDelay = outputDelay
	started := make(chan error)
	n.starts <- func() { started <- cmd.Start() }
	if err := <-started; err != nil {
		return nil, err
	}
	c := &child{cmd: cmd, started: time.Now(), exited: make(chan struct{})}
	go func() {
		defer close(c.exited)
		c.err = c.wait()
	}()
	return c, nil
}

func (c *child) pid() int { return c.cmd.Process.Pid }

// signal sends a signal to the process group.
func (c *child) signal(signal syscall.Signal) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.reaped {
		// The group exists until its leader has been waited for.
		_ = syscall.Kill(-c.pid(), signal)
	}
}

// wait waits until the process has ended, kills the rest of its group, and returns the error of
// the process.
func (c *child) wait() error {
	for {
		// Keep the process as a zombie, so that its number is not reused.
		err := unix.Waitid(unix.P_PID, c.pid(), nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	c.signal(syscall.SIGKILL)
	c.mu.Lock()
	c.reaped = true
	c.mu.Unlock()
	err := c.cmd.Wait()
	c.waitForGroup()
	if err == nil || errors.Is(err, exec.ErrWaitDelay) {
		return errExit
	}
	return err
}

// waitForGroup waits until the killed group has ended, which releases its ports and files.
func (c *child) waitForGroup() {
	deadline := time.NewTimer(groupDelay)
	defer deadline.Stop()
	for pause := 100 * time.Microsecond; syscall.Kill(-c.pid(), 0) == nil; pause = min(2*pause, 10*time.Millisecond) {
		select {
		case <-time.After(pause):
		case <-deadline.C:
			return
		}
	}
}

// terminate sends SIGTERM only once, because some programs exit immediately after a second SIGTERM.
func (c *child) terminate() { c.terminated.Do(func() { c.signal(syscall.SIGTERM) }) }

// stop sends SIGTERM, and SIGKILL after the grace period. It returns after the group has ended.
func (c *child) stop(grace time.Duration) {
	c.terminate()
	select {
	case <-c.exited:
		return
	case <-time.After(grace):
	}
	c.signal(syscall.SIGKILL)
	<-c.exited
}

// describe returns the exit status or the start error of a process as text.
func describe(err error) string {
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) || errors.Is(err, errExit) {
		return fmt.Sprintf("process ended: %v", err)
	}
	return fmt.Sprintf("process did not start: %v", err)
}
