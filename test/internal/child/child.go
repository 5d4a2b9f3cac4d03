// Package child runs child processes that end no later than the test process.
package child

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Process is a child process that never outlives the test process. Its methods are safe for
// concurrent use.
type Process struct {
	// Command is the started command. Its ProcessState is set when Done is closed.
	Command *exec.Cmd
	// Done is closed when the child has exited.
	Done <-chan struct{}
}

// Start runs a command. It changes only the fields of SysProcAttr that it needs.
func Start(command *exec.Cmd) (*Process, error) { return StartIn(command, nil) }

// StartIn is like Start, but starts the command from a thread on which enter was called, for
// example to join other namespaces. The thread is discarded afterwards. If enter is nil, any
// thread is used.
func StartIn(command *exec.Cmd, enter func() error) (*Process, error) {
	if command.SysProcAttr == nil {
		command.SysProcAttr = &syscall.SysProcAttr{}
	}
	command.SysProcAttr.Pdeathsig = syscall.SIGKILL
	done := make(chan struct{})
	started := make(chan error)
	go func() {
		defer close(done)
		// The kernel kills the child when the thread that started it ends, so this thread must
		// live as long as the child.
		runtime.LockOSThread()
		if enter == nil {
			defer runtime.UnlockOSThread()
		} else if err := enter(); err != nil {
			started <- err
			return
		}
		err := command.Start()
		started <- err
		if err == nil {
			_ = command.Wait() // the result is in ProcessState
		}
	}()
	return &Process{Command: command, Done: done}, <-started
}

// Ended reports whether the child has exited.
func (p *Process) Ended() bool {
	select {
	case <-p.Done:
		return true
	default:
		return false
	}
}

// Stop sends a signal and waits until the child has exited. If the child does not exit within
// limit, Stop kills it and returns an error.
func (p *Process) Stop(signal syscall.Signal, limit time.Duration) error {
	_ = p.Command.Process.Signal(signal)
	select {
	case <-p.Done:
		return nil
	case <-time.After(limit):
		p.Kill()
		return fmt.Errorf("still running %s after %s; killed", limit, signal)
	}
}

// Kill sends SIGKILL and waits until the child has exited.
func (p *Process) Kill() {
	_ = p.Command.Process.Kill()
	<-p.Done
}

// KillMarked kills all processes whose environment contains a variable with a value ("NAME=value").
func KillMarked(t testing.TB, variable string) {
	environments, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		t.Error(err)
	}
	for _, file := range environments {
		if text, _ := os.ReadFile(file); strings.Contains("\x00"+string(text), "\x00"+variable+"\x00") {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}
