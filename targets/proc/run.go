package proc

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"
)

// outputDelay is how long child processes that outlive a program may keep its output
// open.
const outputDelay = time.Second

// private lists the service manager's variables that are intended only for hpad.
var private = []string{
	"NOTIFY_SOCKET", "WATCHDOG_PID", "WATCHDOG_USEC", "LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES", "LISTEN_PIDFDID", "MAINPID", "MANAGERPID", "SYSTEMD_EXEC_PID",
}

// Environ returns the environment of hpad without the variables of the service manager.
func Environ() []string {
	return slices.DeleteFunc(os.Environ(), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return slices.Contains(private, name)
	})
}

// Run runs a program without a shell, and kills it and its child processes when ctx ends. The
// program has the environment of hpad without the variables of the service manager, and in addition
// the variables in environment. Run returns at most the last limit bytes of the output, on one
// line.
func Run(ctx context.Context, program, environment []string, limit int) (output string, err error) {
	last := Tail{Limit: limit}
	command := exec.CommandContext(ctx, program[0], program[1:]...)
	command.Env = append(Environ(), environment...)
	command.Stdout, command.Stderr = &last, &last
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	command.Cancel = func() error { return syscall.Kill(-command.Process.Pid, syscall.SIGKILL) }
	command.WaitDelay = outputDelay
	err = StartError(command.Run(), program[0], "")
	if errors.Is(err, exec.ErrWaitDelay) && command.ProcessState.Success() {
		err = nil
	}
	return strings.Join(strings.Fields(last.String()), " "), err
}

// Tail is a writer that stores the last Limit bytes.
type Tail struct {
	Limit int
	kept  []byte
}

// Write stores the end of p. It never fails.
func (t *Tail) Write(p []byte) (int, error) {
	t.kept = append(t.kept, p[max(0, len(p)-t.Limit):]...)
	if len(t.kept) > t.Limit {
		t.kept = bytes.Clone(t.kept[len(t.kept)-t.Limit:])
	}
	return len(p), nil
}

// String returns the stored bytes as valid UTF-8.
func (t *Tail) String() string { return strings.ToValidUTF8(string(t.kept), "") }
