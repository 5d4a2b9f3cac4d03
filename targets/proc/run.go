package proc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"
	"unicode"

	"github.com/hpad/hpad/settings/secret"
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

// plain lists the variables in MinimalEnviron.
var plain = []string{"PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "TZ", "TMPDIR", "CREDENTIALS_DIRECTORY"}

// MinimalEnviron returns the variables of hpad that do not depend on how hpad was started: the search
// path, the user, the language, the time zone, and the directories for temporary files and credentials.
func MinimalEnviron() []string {
	return slices.DeleteFunc(os.Environ(), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return !slices.Contains(plain, name)
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
	err = run(command)
	return strings.Join(strings.Fields(last.String()), " "), err
}

// Command is a program whose standard output is its result.
type Command struct {
	// Program is the program with its arguments. It runs without a shell.
	Program []string
	// Env is the whole environment.
	Env []string
	// Stdin is the standard input; nil means an empty input.
	Stdin io.Reader
	// MaxOutput is the maximum size of the standard output in bytes.
	MaxOutput int
}

// Output runs the program and returns its standard output. It kills the program and its child processes
// when ctx ends, or when the output is too large. The error then wraps the cause. Otherwise it contains
// the exit status and the last line of the standard error, with at most maxErrorLine characters. If the
// program fails, Output also returns the output so far.
func (c Command) Output(ctx context.Context) ([]byte, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stdout, stderr := limited{limit: c.MaxOutput, exceeded: cancel}, Tail{Limit: maxErrorBytes}
	command := exec.CommandContext(ctx, c.Program[0], c.Program[1:]...)
	command.Env, command.Stdin, command.Stdout, command.Stderr = c.Env, c.Stdin, &stdout, &stderr
	err := run(command)
	switch line := lastLine(stderr.String()); {
	case err == nil:
	case ctx.Err() != nil:
		err = fmt.Errorf("killed: %w", context.Cause(ctx))
	case line != "":
		err = fmt.Errorf("%w: %s", err, line)
	}
	return stdout.text, err
}

// maxErrorBytes limits the stored end of the standard error. maxErrorLine limits the line in an error, in
// characters.
const (
	maxErrorBytes = 4 << 10
	maxErrorLine  = 300
)

// OutputSizeError is the error for an output with more bytes than its value.
type OutputSizeError int

func (e OutputSizeError) Error() string {
	return fmt.Sprintf("the output has more than %d bytes", int(e))
}

// limited stores an output. It calls exceeded if the output has more than limit bytes.
type limited struct {
	text     []byte
	limit    int
	exceeded func(cause error)
}

func (l *limited) Write(p []byte) (int, error) {
	if len(l.text)+len(p) > l.limit {
		err := OutputSizeError(l.limit)
		l.exceeded(err)
		return 0, err
	}
	l.text = append(l.text, p...)
	return len(p), nil
}

// lastLine returns the last line of a text that is not blank, without known secrets. Nonprintable
// characters become question marks.
func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(secret.Hide(text)), "\n")
	line := []rune(strings.TrimSpace(lines[len(lines)-1]))
	if len(line) > maxErrorLine {
		line = append(line[:maxErrorLine-1], '…')
	}
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, string(line))
}

// run runs a command in its own process group, which it kills when the command's context ends. It also
// kills child processes that keep the output open after the program has ended.
func run(command *exec.Cmd) error {
	kill := func() error { return syscall.Kill(-command.Process.Pid, syscall.SIGKILL) }
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	command.Cancel, command.WaitDelay = kill, outputDelay
	err := StartError(command.Run(), command.Args[0], "")
	if errors.Is(err, exec.ErrWaitDelay) {
		_ = kill()
		if command.ProcessState.Success() {
			err = nil
		}
	}
	return err
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
