package process

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hpad/hpad/targets/proc"
)

// groupDelay is the maximum wait until a killed process group has ended.
const groupDelay = time.Second

// child is a running process with its process group. An earlier hpad may have started it.
type child struct {
	pid int
	// ticks is the start time in clock ticks since the boot. It distinguishes processes with the
	// same number.
	ticks   uint64
	started time.Time
	// marker is set if an earlier hpad started the process. It is the entry of the environment by
	// which the members of its group are recognized.
	marker string
	pidfd  *os.File
	// bound is set if the kernel kills the process when hpad is killed.
	bound bool
	// exited is closed after the process and its group have ended and err is set.
	exited chan struct{}
	err    error

	terminated sync.Once

	mu sync.Mutex
	// ended reports whether the process has ended, so that its number may be reused.
	ended bool
}

// exitError describes how a process ended.
type exitError string

func (e exitError) Error() string { return string(e) }

// errUnknownExit is the exit error of a process that an earlier hpad started.
const errUnknownExit exitError = "process ended; its exit status is unknown because an earlier hpad started it"

// openChild returns a child for a running process that is the leader of its group.
func openChild(pid int, started time.Time, marker string) (*child, error) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return nil, fmt.Errorf("open process %d: %w", pid, err)
	}
	_ = unix.SetNonblock(fd, true) // so that the runtime waits for it without a thread
	c := &child{pid: pid, started: started, marker: marker, pidfd: os.NewFile(uintptr(fd), "pidfd"), exited: make(chan struct{})}
	stat, err := proc.Read(fmt.Sprintf("/proc/%d/stat", pid), make([]byte, 4096))
	if err != nil {
		c.release()
		return nil, err
	}
	c.ticks = stat.Started
	return c, nil
}

// release stops tracking the process. It does not stop the process.
func (c *child) release() { _ = c.pidfd.Close() }

// signal sends a signal to the process group.
func (c *child) signal(signal syscall.Signal) {
	c.mu.Lock()
	defer c.mu.Unlock()
	// The group of a child exists until hpad has waited for it. The group of another process exists
	// while the process runs.
	if !c.ended && (c.marker == "" || c.alive()) {
		_ = syscall.Kill(-c.pid, signal)
	}
}

// alive reports whether the process is running. It returns false after release.
func (c *child) alive() bool {
	ended := true
	raw, err := c.pidfd.SyscallConn()
	if err == nil {
		err = raw.Control(func(fd uintptr) { ended = hasEnded(fd) })
	}
	return err == nil && !ended
}

// hasEnded reports whether the process of a pidfd has ended.
func hasEnded(pidfd uintptr) bool {
	n, _ := unix.Poll([]unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}, 0)
	return n > 0
}

// wait waits until the process has ended, and kills the rest of its group. It returns early if the
// child is released.
func (c *child) wait() {
	defer func() { _ = c.pidfd.Close() }()
	raw, err := c.pidfd.SyscallConn()
	if err == nil {
		err = raw.Read(hasEnded)
	}
	if err != nil {
		return
	}
	c.killGroup()
	c.mu.Lock()
	c.ended = true
	c.mu.Unlock()
	c.err = c.reap()
	c.waitForGroup()
	close(c.exited)
}

// killGroup kills the rest of the group of a process that has ended.
func (c *child) killGroup() {
	if c.marker != "" && len(marked(c.pid, c.marker)) == 0 {
		return // a different process may already use the number of the group
	}
	_ = syscall.Kill(-c.pid, syscall.SIGKILL)
}

// reap reaps the ended process and returns its exit status as an error.
func (c *child) reap() error {
	var status unix.WaitStatus
	for {
		_, err := unix.Wait4(c.pid, &status, 0, nil)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return errUnknownExit
		case status.Signaled():
			return exitError("process ended: signal: " + status.Signal().String())
		}
		return exitError(fmt.Sprintf("process ended: exit status %d", status.ExitStatus()))
	}
}

// waitForGroup waits until the killed group has ended, which releases its ports and files.
func (c *child) waitForGroup() {
	deadline := time.NewTimer(groupDelay)
	defer deadline.Stop()
	for pause := 100 * time.Microsecond; syscall.Kill(-c.pid, 0) == nil; pause = min(2*pause, 10*time.Millisecond) {
		select {
		case <-time.After(pause):
		case <-deadline.C:
			return
		}
	}
}

// terminate sends SIGTERM only once, because some programs exit immediately after a second SIGTERM.
func (c *child) terminate() { c.terminated.Do(func() { c.signal(syscall.SIGTERM) }) }

// describe returns the exit status or the start error of a process as text.
func describe(err error) string {
	if _, ok := errors.AsType[exitError](err); ok {
		return err.Error()
	}
	return fmt.Sprintf("process did not start: %v", err)
}
