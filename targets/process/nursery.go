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

// outputDelay is how long the output of an ended process may go on, through a
// descendant that left its process group.
const outputDelay = time.Second

// groupDelay is how long the rest of a killed process group is waited for.
const groupDelay = time.Second

// nursery starts processes and holds the ports they were given. The fleets that
// succeed each other over reloads share one, and the last to go ends it.
type nursery struct {
	starts chan func()
	guard  guard

	mu     sync.Mutex
	owners int
	ended  chan struct{}
	ports  map[int]bool
	// freed is closed and replaced when a port is given back.
	freed chan struct{}
}

// newNursery returns a nursery with one owner.
func newNursery() *nursery {
	n := &nursery{starts: make(chan func()), owners: 1, ended: make(chan struct{}), ports: map[int]bool{}, freed: make(chan struct{})}
	go n.startAll()
	return n
}

func (n *nursery) share() *nursery {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.owners++
	return n
}

// leave takes an owner away; the last one when all children are gone.
func (n *nursery) leave() {
	n.mu.Lock()
	n.owners--
	last := n.owners == 0
	n.mu.Unlock()
	if last {
		close(n.starts)
		<-n.ended
		n.guard.close()
	}
}

// startAll starts processes on one thread that lives as long as they do: the
// kernel sends PDEATHSIG when the thread that started a process ends, not when
// the parent process does.
func (n *nursery) startAll() {
	defer close(n.ended)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for start := range n.starts {
		start()
	}
}

// takePort returns the lowest free port of a range, and waits for one if need be.
func (n *nursery) takePort(ctx context.Context, ports portRange) (int, error) {
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

func (n *nursery) freePort(port int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.ports, port)
	close(n.freed)
	n.freed = make(chan struct{})
}

// child is a started process with its process group.
type child struct {
	cmd     *exec.Cmd
	started time.Time
	// exited is closed when the process and its group are gone; err then says how
	// it ended, and is never nil.
	exited chan struct{}
	err    error

	terminate sync.Once

	mu sync.Mutex
	// gone reports that the process was waited for, so that its number may mean another
	// one by now.
	gone bool
}

// errExit is how a process ends that reports success.
var errExit = errors.New("exit status 0")

// start starts a process as the leader of a process group of its own, which dies
// with hpad.
func (n *nursery) start(cmd *exec.Cmd) (*child, error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.WaitDelay = outputDelay
	var err, unguarded error
	done := make(chan struct{})
	n.starts <- func() {
		defer close(done)
		if err = n.guard.ready(); err == nil {
			err = cmd.Start()
		}
		if err == nil {
			// At once: what the process starts is not guarded before.
			unguarded = n.guard.add(cmd.Process.Pid)
		}
	}
	<-done
	if err != nil {
		return nil, err
	}
	c := &child{cmd: cmd, started: time.Now(), exited: make(chan struct{})}
	go func() {
		defer close(c.exited)
		c.err = c.wait(&n.guard)
	}()
	if unguarded != nil {
		// What this process starts might outlive hpad: rather have none.
		c.signal(syscall.SIGKILL)
		<-c.exited
		return nil, unguarded
	}
	return c, nil
}

func (c *child) pid() int { return c.cmd.Process.Pid }

// signal sends a signal to the whole process group, unless that is gone.
func (c *child) signal(signal syscall.Signal) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.gone {
		// The group exists until its leader was waited for.
		_ = syscall.Kill(-c.pid(), signal)
	}
}

// wait waits for the process to end, ends what is left of its group, and returns how the
// process ended.
func (c *child) wait(g *guard) error {
	for {
		// The process stays a zombie here, so that its number still means its group.
		err := unix.Waitid(unix.P_PID, c.pid(), nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	c.signal(syscall.SIGKILL)
	g.remove(c.pid())
	c.mu.Lock()
	c.gone = true
	c.mu.Unlock()
	err := c.cmd.Wait()
	c.waitForGroup()
	if err == nil || errors.Is(err, exec.ErrWaitDelay) {
		return errExit
	}
	return err
}

// waitForGroup waits until the killed rest of the group is gone, and with it what
// it held: ports, files.
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

// askToEnd sends SIGTERM, once: programs take a second one for impatience.
func (c *child) askToEnd() { c.terminate.Do(func() { c.signal(syscall.SIGTERM) }) }

// stop ends the group by SIGTERM, and by SIGKILL after the grace period. It returns when
// the group is gone.
func (c *child) stop(grace time.Duration) {
	c.askToEnd()
	select {
	case <-c.exited:
		return
	case <-time.After(grace):
	}
	c.signal(syscall.SIGKILL)
	<-c.exited
}

// describe returns how a process ended, for a person.
func describe(err error) string {
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) || errors.Is(err, errExit) {
		return fmt.Sprintf("process ended: %v", err)
	}
	return fmt.Sprintf("process did not start: %v", err)
}
